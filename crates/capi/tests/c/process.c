/* The pool of a process, as PyTorch's allocators share it. */
#include "check.h"

int main(void) {
    stitchpool_driver_options host = {.struct_size = sizeof host,
                                      .kind = STITCHPOOL_DRIVER_HOST,
                                      .host_capacity_bytes = 8 * GRANULE,
                                      .host_granule_bytes = GRANULE};
    stitchpool_settings settings = {.struct_size = sizeof settings};
    EXPECT(OK, stitchpool_settings_default(&settings));
    settings.limit_bytes = 4 * GRANULE;
    host.kind = 9;
    EXPECT(INVALID_ARGUMENT, stitchpool_torch_configure(&host, NULL));
    host.kind = STITCHPOOL_DRIVER_HOST;
    EXPECT(OK, stitchpool_torch_configure(NULL, NULL));
    EXPECT(OK, stitchpool_torch_configure(&host, &settings));

    stitchpool_pool *pool = NULL, *again = NULL;
    EXPECT(NULL_POINTER, stitchpool_torch_alloc(0, NULL, GRANULE, NULL));
    void *block = NULL, *other = NULL;
    EXPECT(OK, stitchpool_torch_alloc(0, NULL, GRANULE, &block));
    EXPECT(OUT_OF_MEMORY, stitchpool_torch_alloc(0, NULL, 4 * GRANULE, &other));
    EXPECT(OK, stitchpool_torch_pool(&pool));
    EXPECT(OK, stitchpool_torch_pool(&again));
    CHECK(pool == again && stats_of(pool).live_bytes == GRANULE);
    EXPECT(IN_USE, stitchpool_torch_configure(&host, &settings));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    SAYS("until the process ends");
    puts("process: all as it should be");
    return 0;
}
