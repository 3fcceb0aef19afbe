/* Captures: requests of a captured stream are served in the arena of its graph, as a C program sees it. */
#include "check.h"

static stitchpool_device_stats device_stats(const stitchpool_pool *pool) {
    stitchpool_device_stats stats = {.struct_size = sizeof stats};
    EXPECT(OK, stitchpool_pool_device_stats(pool, 0, &stats));
    return stats;
}

int main(void) {
    stitchpool_driver *driver = small_driver(1, 64 * GRANULE);
    stitchpool_pool *pool = small_pool(driver), *other_pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0), stranger = stream_on(driver, other_pool, 0);
    uint32_t graph = 0;
    EXPECT(OK, stitchpool_arena(pool, "graph", &graph));

    EXPECT(INVALID_HANDLE, stitchpool_capture_begin(FOREIGN_POOL, stream, graph));
    EXPECT(UNKNOWN_STREAM, stitchpool_capture_begin(pool, stranger, graph));
    EXPECT(UNKNOWN_ARENA, stitchpool_capture_begin(pool, stream, 1000));
    EXPECT(IN_USE, stitchpool_capture_begin(pool, stream, 0));
    EXPECT(INVALID_ARGUMENT, stitchpool_capture_end(pool, stream));
    EXPECT(INVALID_ARGUMENT, stitchpool_graph_release(pool, graph));

    /* What is freed while the graph lives is pinned for its replays. */
    void *block = NULL, *ordinary = NULL;
    EXPECT(OK, stitchpool_capture_begin(pool, stream, graph));
    EXPECT(OK, stitchpool_alloc(pool, stream, 4 * GRANULE, &block));
    EXPECT(CAPTURE, stitchpool_suspend(pool, NULL, NULL, NULL));
    EXPECT(CAPTURE, stitchpool_graph_release(pool, graph));
    EXPECT(IN_USE, stitchpool_arena_dissolve(pool, graph));
    EXPECT(OK, stitchpool_capture_end(pool, stream));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    CHECK(device_stats(pool).pinned_bytes == 4 * GRANULE);
    CHECK(stats_of(pool).pinned_bytes == 4 * GRANULE && device_stats(pool).physical_bytes == 4 * GRANULE);
    EXPECT(OK, stitchpool_alloc(pool, stream, 4 * GRANULE, &ordinary));
    CHECK(ordinary != block && device_stats(pool).physical_bytes == 8 * GRANULE);
    EXPECT(OK, stitchpool_free(pool, ordinary));

    EXPECT(OK, stitchpool_graph_release(pool, graph));
    CHECK(device_stats(pool).pinned_bytes == 0);
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    CHECK(device_stats(pool).physical_bytes == 0);

    /* By the driver's handle, and given up. */
    void *raw = NULL;
    EXPECT(OK, stitchpool_driver_stream_create(driver, 0, &raw));
    EXPECT(OK, stitchpool_capture_begin_raw(pool, 0, raw, graph));
    EXPECT(OK, stitchpool_capture_end_raw(pool, 0, raw));
    EXPECT(OK, stitchpool_graph_release(pool, graph));
    EXPECT(OK, stitchpool_capture_begin(pool, stream, graph));
    EXPECT(OK, stitchpool_capture_abort(pool, stream));
    EXPECT(INVALID_ARGUMENT, stitchpool_capture_abort(pool, stream));
    EXPECT(OK, stitchpool_arena_dissolve(pool, graph));
    EXPECT(UNKNOWN_ARENA, stitchpool_arena_dissolve(pool, graph));
    EXPECT(IN_USE, stitchpool_arena_dissolve(pool, 0));

    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_pool_destroy(other_pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("captures: all as it should be");
    return 0;
}
