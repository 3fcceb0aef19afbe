/* Pins and listeners, as a C program sees them. */
#include "check.h"

typedef struct log {
    const stitchpool_pool *pool;
    const void *block;
    uint64_t left_bytes, back_bytes;
    int32_t answer;
    stitchpool_status destroyed;
} log;

static uint64_t sum(const stitchpool_segment *segments, size_t count) {
    uint64_t bytes = 0;
    for (size_t index = 0; index < count; index++) {
        bytes += segments[index].bytes;
    }
    return bytes;
}

static int32_t before(const stitchpool_segment *segments, size_t count, void *user_data) {
    log *heard = user_data;
    heard->left_bytes += sum(segments, count);
    CHECK(count > 0 && segments[0].address == heard->block && segments[0].device == 0);
    /* It may use the pool, but not destroy it. */
    CHECK(stats_of(heard->pool).live_blocks > 0);
    heard->destroyed = stitchpool_pool_destroy_leaking((stitchpool_pool *)(uintptr_t)heard->pool);
    return heard->answer;
}

static void after(const stitchpool_segment *segments, size_t count, void *user_data) {
    log *heard = user_data;
    heard->back_bytes += sum(segments, count);
}

int main(void) {
    stitchpool_driver *driver = small_driver(2, 64 * GRANULE);
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);
    stitchpool_request request = {
        .struct_size = sizeof request, .bytes = 2 * GRANULE, .stream = stream, .exclusive = 1};
    void *block = NULL, *other = NULL;
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &block, NULL));
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &other, NULL));

    log heard = {.pool = pool, .block = block};
    stitchpool_scope scope = {.struct_size = sizeof scope, .kind = STITCHPOOL_SCOPE_BLOCK, .address = block};
    stitchpool_scope elsewhere = {.struct_size = sizeof elsewhere, .kind = STITCHPOOL_SCOPE_BLOCK, .address = other};
    stitchpool_listener *listener = NULL, *deaf = NULL;
    EXPECT(NULL_POINTER, stitchpool_listen(pool, &scope, before, after, &heard, NULL));
    EXPECT(OK, stitchpool_listen(pool, &scope, before, after, &heard, &listener));
    EXPECT(OK, stitchpool_listen(pool, NULL, NULL, NULL, NULL, &deaf));

    EXPECT(OK, stitchpool_migrate(pool, &elsewhere, 1, NULL));
    CHECK(heard.left_bytes == 0);
    EXPECT(OK, stitchpool_suspend(pool, &scope, NULL, NULL));
    CHECK(heard.left_bytes == 2 * GRANULE && heard.back_bytes == 0 && heard.destroyed == STITCHPOOL_BUSY);
    EXPECT(OK, stitchpool_resume(pool, &scope, NULL));
    CHECK(heard.back_bytes == 2 * GRANULE);

    heard.answer = 5;
    EXPECT(VETOED, stitchpool_suspend(pool, &scope, NULL, NULL));
    SAYS("answered 5");
    CHECK(stats_of(pool).suspended_bytes == 0);
    EXPECT(OK, stitchpool_unlisten(pool, listener));
    EXPECT(INVALID_HANDLE, stitchpool_unlisten(pool, listener));
    EXPECT(OK, stitchpool_suspend(pool, &scope, NULL, NULL));
    EXPECT(OK, stitchpool_resume(pool, &scope, NULL));
    CHECK(heard.left_bytes == 4 * GRANULE);
    scope.address = &heard;
    EXPECT(UNKNOWN_ADDRESS, stitchpool_listen(pool, &scope, before, after, &heard, &listener));

    /* Pinned memory stays when it is free. */
    stitchpool_pin *pin = NULL;
    EXPECT(OUT_OF_RANGE, stitchpool_pin_create(pool, block, 3 * GRANULE, &pin));
    EXPECT(OK, stitchpool_pin_create(pool, block, 2 * GRANULE, &pin));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_free(pool, other));
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    CHECK(stats_of(pool).pinned_bytes == 2 * GRANULE && stats_of(pool).physical_bytes == 2 * GRANULE);
    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    SAYS("pins: 1");
    EXPECT(OK, stitchpool_pin_drop(pool, pin));
    EXPECT(INVALID_HANDLE, stitchpool_pin_drop(pool, pin));
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    CHECK(stats_of(pool).physical_bytes == 0);
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("listeners: all as it should be");
    return 0;
}
