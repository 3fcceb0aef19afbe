/* When memory is short, the program is asked before the request fails. */
#include "check.h"

static stitchpool_pool *pool;

struct listener {
    void *spare;
    int calls;
    uint64_t missing_bytes;
};

static int32_t give_the_spare(const stitchpool_shortage *shortage, void *user_data) {
    struct listener *listener = user_data;
    stitchpool_stats stats = {.struct_size = sizeof stats};
    listener->calls++;
    listener->missing_bytes = shortage->missing_bytes;
    CHECK(shortage->struct_size == sizeof *shortage && shortage->asked_bytes == 40 * MIB);
    CHECK(strstr(shortage->text, "asked for 41943040 bytes") != NULL);
    /* No lock is held: the pool may be used, but not destroyed under the request. */
    EXPECT(OK, stitchpool_pool_stats(pool, &stats));
    EXPECT(BUSY, stitchpool_pool_destroy_leaking(pool));
    if (listener->spare == NULL) return 0;
    EXPECT(OK, stitchpool_free(pool, listener->spare));
    listener->spare = NULL;
    return 1;
}

int main(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    struct listener listener = {NULL, 0, 0};
    void *block = NULL;
    pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);

    EXPECT(OK, stitchpool_on_shortage(pool, give_the_spare, &listener));
    EXPECT(OK, stitchpool_alloc(pool, stream, 32 * MIB, &listener.spare));
    EXPECT(OK, stitchpool_alloc(pool, stream, 40 * MIB, &block));
    CHECK(listener.calls == 1 && listener.spare == NULL && listener.missing_bytes == 8 * MIB);
    EXPECT(OK, stitchpool_free(pool, block));

    /* With nothing to give, the request fails, and the block that is there stays. */
    EXPECT(OK, stitchpool_alloc(pool, stream, 32 * MIB, &block));
    void *none = NULL;
    EXPECT(OUT_OF_MEMORY, stitchpool_alloc(pool, stream, 40 * MIB, &none));
    SAYS("live 33554432");
    CHECK(listener.calls == 2 && none == NULL);

    EXPECT(OK, stitchpool_on_shortage(pool, NULL, NULL));
    EXPECT(OUT_OF_MEMORY, stitchpool_alloc(pool, stream, 40 * MIB, &none));
    CHECK(listener.calls == 2);
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("shortage: all as it should be");
    return 0;
}
