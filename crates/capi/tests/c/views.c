/* Leases, views and rights, as a C program sees them. */
#include "check.h"

int main(void) {
    stitchpool_driver *driver = small_driver(2, 64 * GRANULE);
    stitchpool_pool *pool = small_pool(driver), *other_pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0), stranger = stream_on(driver, other_pool, 0);
    stitchpool_request request = {
        .struct_size = sizeof request, .bytes = 2 * GRANULE, .stream = stream, .exclusive = 1};
    void *prefix = NULL, *tail = NULL;
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &prefix, NULL));
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &tail, NULL));
    memset(prefix, 'p', 2 * GRANULE);
    memset(tail, 't', 2 * GRANULE);

    /* A lease keeps a block that is freed meanwhile. */
    stitchpool_lease *lease = NULL, *again = NULL;
    EXPECT(UNKNOWN_ADDRESS, stitchpool_lease_take(pool, &request, &lease));
    EXPECT(NULL_POINTER, stitchpool_lease_take(pool, prefix, NULL));
    EXPECT(OK, stitchpool_lease_take(pool, prefix, &lease));
    EXPECT(OK, stitchpool_lease_take(pool, prefix, &again));
    EXPECT(HELD, stitchpool_suspend(pool, NULL, NULL, NULL));
    EXPECT(OK, stitchpool_lease_record_use(pool, again, stream));
    EXPECT(OK, stitchpool_lease_end(pool, again, 0));
    EXPECT(INVALID_HANDLE, stitchpool_lease_end(pool, again, 0));
    SAYS("ended already");
    EXPECT(INVALID_HANDLE, stitchpool_lease_end(other_pool, lease, 0));
    EXPECT(INVALID_HANDLE, stitchpool_lease_end(pool, (stitchpool_lease *)(uintptr_t)0x12345673, 0));
    EXPECT(NULL_POINTER, stitchpool_lease_end(pool, NULL, 0));
    EXPECT(UNKNOWN_STREAM, stitchpool_lease_end(pool, lease, stranger));

    /* A view shows both blocks in a row, and holds them as leases do. */
    stitchpool_part parts[] = {{prefix, 2 * GRANULE}, {tail, 2 * GRANULE}};
    stitchpool_grant readers[] = {{0, STITCHPOOL_RIGHTS_READ}, {STITCHPOOL_HOST, STITCHPOOL_RIGHTS_READ}};
    stitchpool_view *view = NULL;
    EXPECT(INVALID_SIZE, stitchpool_view_create(pool, NULL, 0, readers, 1, &view));
    EXPECT(NULL_POINTER, stitchpool_view_create(pool, NULL, 2, readers, 1, &view));
    readers[0].rights = 7;
    EXPECT(INVALID_ARGUMENT, stitchpool_view_create(pool, parts, 2, readers, 1, &view));
    readers[0].rights = STITCHPOOL_RIGHTS_READ;
    EXPECT(OK, stitchpool_view_create(pool, parts, 2, readers, 1, &view));
    void *address = NULL;
    uint64_t bytes = 0;
    EXPECT(OK, stitchpool_view_range(pool, view, &address, &bytes));
    EXPECT(OK, stitchpool_view_range(pool, view, NULL, NULL));
    CHECK(bytes == 4 * GRANULE && address != prefix && address != tail);
    CHECK(((char *)address)[0] == 'p' && ((char *)address)[bytes - 1] == 't');
    size_t segments = 0;
    EXPECT(TOO_SMALL, stitchpool_segments(pool, address, bytes, NULL, 0, &segments));
    CHECK(segments >= 2);
    EXPECT(OK, stitchpool_view_record_use(pool, view, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_view_record_use(pool, view, stranger));

    EXPECT(OK, stitchpool_free(pool, prefix));
    EXPECT(OK, stitchpool_free(pool, tail));
    CHECK(stats_of(pool).kept_bytes == 4 * GRANULE);
    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_lease_end(pool, lease, stream));
    EXPECT(OK, stitchpool_view_drop(pool, view));
    EXPECT(INVALID_HANDLE, stitchpool_view_drop(pool, view));
    EXPECT(INVALID_HANDLE, stitchpool_view_range(pool, view, &address, &bytes));
    CHECK(stats_of(pool).kept_bytes == 0);

    /* Rights of a block that stands. */
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &prefix, NULL));
    stitchpool_scope block = {.struct_size = sizeof block, .kind = STITCHPOOL_SCOPE_BLOCK, .address = prefix};
    stitchpool_grant grants[] = {{0, STITCHPOOL_RIGHTS_READ}, {1, STITCHPOOL_RIGHTS_READ_WRITE}};
    stitchpool_stream reader = stream_on(driver, pool, 1);
    EXPECT(NO_RIGHTS, stitchpool_record_use(pool, prefix, reader));
    EXPECT(OK, stitchpool_rights_set(pool, &block, grants, 2));
    EXPECT(OK, stitchpool_record_use(pool, prefix, reader));
    EXPECT(OK, stitchpool_lease_take(pool, prefix, &lease));
    grants[1].rights = STITCHPOOL_RIGHTS_NONE;
    EXPECT(HELD, stitchpool_rights_set(pool, &block, grants, 2));
    EXPECT(OK, stitchpool_lease_end(pool, lease, 0));
    EXPECT(OK, stitchpool_rights_set(pool, &block, grants, 2));
    EXPECT(NULL_POINTER, stitchpool_rights_set(pool, &block, NULL, 2));
    EXPECT(OK, stitchpool_free(pool, prefix));

    /* What is held when a pool is left stays as it stands. */
    request.stream = stranger;
    EXPECT(OK, stitchpool_alloc_request(other_pool, &request, &tail, NULL));
    parts[0].address = tail;
    EXPECT(OK, stitchpool_view_create(other_pool, parts, 1, readers, 1, &view));
    EXPECT(OK, stitchpool_view_range(other_pool, view, &address, NULL));
    memset(tail, 'x', 1);
    EXPECT(OK, stitchpool_pool_destroy_leaking(other_pool));
    CHECK(*(char *)address == 'x');
    EXPECT(INVALID_HANDLE, stitchpool_view_drop(other_pool, view));

    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("views: all as it should be");
    return 0;
}
