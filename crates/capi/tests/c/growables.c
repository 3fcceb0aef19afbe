/* Growable buffers, as a C program sees them. */
#include "check.h"

int main(void) {
    stitchpool_driver *driver = small_driver(1, 64 * GRANULE);
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0), other = stream_on(driver, pool, 0);
    stitchpool_request request = {.struct_size = sizeof request, .bytes = 2 * GRANULE, .stream = stream};
    stitchpool_growable *cache = NULL;
    void *address = NULL;
    uint64_t backed_bytes = 0, given_bytes = 0;

    EXPECT(NULL_POINTER, stitchpool_growable_create(pool, NULL, 32 * GRANULE, 0, &cache, &address));
    EXPECT(NULL_POINTER, stitchpool_growable_create(pool, &request, 32 * GRANULE, 0, &cache, NULL));
    EXPECT(INVALID_ARGUMENT, stitchpool_growable_create(pool, &request, 32 * GRANULE, 4096, &cache, &address));
    EXPECT(OUT_OF_RANGE, stitchpool_growable_create(pool, &request, GRANULE, GRANULE, &cache, &address));
    EXPECT(OK, stitchpool_growable_create(pool, &request, 128 * GRANULE, GRANULE, &cache, &address));
    EXPECT(OK, stitchpool_growable_backed_bytes(pool, cache, &backed_bytes));
    CHECK(backed_bytes == 2 * GRANULE);
    memset(address, 'a', 2 * GRANULE);

    EXPECT(OK, stitchpool_growable_grow_to(pool, cache, 4 * GRANULE - 1));
    EXPECT(OK, stitchpool_growable_back(pool, cache, 100 * GRANULE, 2 * GRANULE));
    EXPECT(OK, stitchpool_growable_backed_bytes(pool, cache, &backed_bytes));
    CHECK(backed_bytes == 6 * GRANULE && *(char *)address == 'a');
    memset((char *)address + 100 * GRANULE, 'z', 2 * GRANULE);
    EXPECT(OUT_OF_MEMORY, stitchpool_growable_grow_to(pool, cache, 100 * GRANULE));
    EXPECT(OUT_OF_RANGE, stitchpool_growable_grow_to(pool, cache, 129 * GRANULE));
    EXPECT(INVALID_ARGUMENT, stitchpool_growable_back(pool, cache, 1, GRANULE));
    EXPECT(OK, stitchpool_growable_record_use(pool, cache, 0, GRANULE, other));
    EXPECT(INVALID_ARGUMENT, stitchpool_growable_record_use(pool, cache, 50 * GRANULE, GRANULE, other));

    EXPECT(OK, stitchpool_growable_give_back(pool, cache, GRANULE, 10 * GRANULE, &given_bytes));
    CHECK(given_bytes == 3 * GRANULE);
    EXPECT(OK, stitchpool_growable_give_back(pool, cache, GRANULE, 10 * GRANULE, NULL));
    EXPECT(OK, stitchpool_growable_backed_bytes(pool, cache, &backed_bytes));
    CHECK(backed_bytes == 3 * GRANULE && *((char *)address + 100 * GRANULE) == 'z');

    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_growable_give_back(pool, cache, 0, 128 * GRANULE, NULL));
    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    SAYS("growables: 1");
    EXPECT(OK, stitchpool_growable_drop(pool, cache));
    EXPECT(INVALID_HANDLE, stitchpool_growable_drop(pool, cache));
    EXPECT(INVALID_HANDLE, stitchpool_growable_grow_to(pool, cache, GRANULE));
    EXPECT(NULL_POINTER, stitchpool_growable_backed_bytes(pool, NULL, &backed_bytes));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("growables: all as it should be");
    return 0;
}
