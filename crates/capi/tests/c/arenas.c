/* Arenas: memory that leaves its address and comes back, as a C program sees it. */
#include "check.h"

static uint64_t free_bytes(const stitchpool_pool *pool) {
    stitchpool_device_stats stats = {.struct_size = sizeof stats};
    EXPECT(OK, stitchpool_pool_device_stats(pool, 0, &stats));
    return stats.device_free_bytes;
}

int main(void) {
    stitchpool_driver *driver = small_driver(2, 64 * GRANULE);
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);
    uint64_t at_start = free_bytes(pool);

    uint32_t weights = 0, again = 0;
    EXPECT(OK, stitchpool_arena(pool, "weights", &weights));
    EXPECT(OK, stitchpool_arena(pool, "weights", &again));
    CHECK(weights != 0 && weights == again);
    EXPECT(NULL_POINTER, stitchpool_arena(pool, NULL, &weights));

    stitchpool_request request = {
        .struct_size = sizeof request, .bytes = 4 * GRANULE, .stream = stream, .arena = weights};
    void *block = NULL, *own = NULL, *twin = NULL;
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &block, NULL));
    request.arena = 1000;
    void *none = NULL;
    EXPECT(UNKNOWN_ARENA, stitchpool_alloc_request(pool, &request, &none, NULL));
    request.arena = 0;
    request.exclusive = 1;
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &own, NULL));
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &twin, NULL));
    request.exclusive = 2;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &none, NULL));

    stitchpool_scope arena = {.struct_size = sizeof arena, .kind = STITCHPOOL_SCOPE_ARENA, .arena = weights};
    stitchpool_moved moved = {.struct_size = sizeof moved};
    EXPECT(OK, stitchpool_suspend(pool, &arena, NULL, &moved));
    CHECK(moved.memory_bytes == 4 * GRANULE && moved.content_bytes == 4 * GRANULE && !moved.already);
    CHECK(free_bytes(pool) == at_start - 8 * GRANULE);
    CHECK(stats_of(pool).suspended_bytes == 4 * GRANULE);
    EXPECT(OK, stitchpool_suspend(pool, &arena, NULL, &moved));
    CHECK(moved.already == 1);
    request.arena = weights;
    request.exclusive = 0;
    EXPECT(ASLEEP, stitchpool_alloc_request(pool, &request, &none, NULL));
    SAYS("weights");
    EXPECT(OK, stitchpool_resume(pool, &arena, &moved));
    CHECK(moved.content_bytes == 4 * GRANULE);

    stitchpool_scope one = {.struct_size = sizeof one, .kind = STITCHPOOL_SCOPE_BLOCK, .address = own};
    stitchpool_scope other = {.struct_size = sizeof other, .kind = STITCHPOOL_SCOPE_BLOCK, .address = twin};
    EXPECT(OK, stitchpool_exchange(pool, &one, &other));
    EXPECT(OK, stitchpool_migrate(pool, &one, 1, &moved));
    CHECK(moved.memory_bytes == 4 * GRANULE);
    one.address = block;
    EXPECT(SHARED, stitchpool_migrate(pool, &one, 1, NULL));
    one.kind = 9;
    EXPECT(INVALID_ARGUMENT, stitchpool_resume(pool, &one, NULL));

    stitchpool_backup backup = {.struct_size = sizeof backup, .kind = STITCHPOOL_BACKUP_DISK};
    EXPECT(NULL_POINTER, stitchpool_suspend(pool, NULL, &backup, NULL));
    backup.directory = "/nowhere/at/all";
    EXPECT(DISK, stitchpool_suspend(pool, NULL, &backup, NULL));
    backup.kind = STITCHPOOL_BACKUP_DISCARD;
    EXPECT(OK, stitchpool_suspend(pool, NULL, &backup, &moved));
    CHECK(free_bytes(pool) == at_start && moved.content_bytes == 0);
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_resume(pool, NULL, NULL));
    EXPECT(OK, stitchpool_free(pool, own));
    EXPECT(OK, stitchpool_free(pool, twin));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("arenas: all as it should be");
    return 0;
}
