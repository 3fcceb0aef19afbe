/* More addresses than memory: blocks are put out by least recent use, and come back when they are touched. */
#include "check.h"

enum { BLOCKS = 6, ROOM = 4 };

static void *exclusive(const stitchpool_pool *pool, stitchpool_stream stream, uint32_t arena) {
    stitchpool_request request = {
        .struct_size = sizeof request, .bytes = GRANULE, .stream = stream, .arena = arena, .exclusive = 1};
    void *block = NULL;
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &block, NULL));
    return block;
}

int main(void) {
    stitchpool_driver *driver = small_driver(1, ROOM * GRANULE), *same = NULL;
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);
    uint32_t cold = 0;
    EXPECT(OK, stitchpool_arena(pool, "cold", &cold));
    stitchpool_backup refuge = {.struct_size = sizeof refuge, .kind = STITCHPOOL_BACKUP_DISCARD};
    EXPECT(INVALID_ARGUMENT, stitchpool_evictable_set(pool, cold, &refuge));
    refuge.kind = STITCHPOOL_BACKUP_HOST;
    EXPECT(UNKNOWN_ARENA, stitchpool_evictable_set(pool, 1000, &refuge));
    EXPECT(OK, stitchpool_evictable_set(pool, cold, &refuge));

    unsigned char *blocks[BLOCKS];
    for (int number = 0; number < BLOCKS; ++number) {
        blocks[number] = exclusive(pool, stream, cold);
        memset(blocks[number], number + 1, GRANULE);
    }
    CHECK(stats_of(pool).suspended_bytes == (BLOCKS - ROOM) * GRANULE);
    CHECK(stats_of(pool).evictions == BLOCKS - ROOM && stats_of(pool).returned_bytes == 0);
    for (int number = 0; number < BLOCKS; ++number) {
        stitchpool_lease *lease = NULL;
        EXPECT(OK, stitchpool_touch(pool, blocks[number], &lease));
        CHECK(blocks[number][0] == number + 1 && blocks[number][GRANULE - 1] == number + 1);
        EXPECT(OK, stitchpool_lease_end(pool, lease, stream));
    }

    /* 0 and 1 are out. What is held stays: with four leases there is no room for a fifth. */
    stitchpool_lease *held[ROOM + 1];
    for (int number = 0; number < ROOM; ++number) {
        EXPECT(OK, stitchpool_touch(pool, blocks[number], &held[number]));
    }
    EXPECT(OUT_OF_MEMORY, stitchpool_touch(pool, blocks[ROOM], &held[ROOM]));
    EXPECT(ASLEEP, stitchpool_lease_take(pool, blocks[ROOM], &held[ROOM]));
    EXPECT(OK, stitchpool_lease_end(pool, held[0], stream));
    EXPECT(OK, stitchpool_touch(pool, blocks[ROOM], &held[0]));
    CHECK(blocks[ROOM][7] == ROOM + 1);
    for (int number = 0; number < ROOM; ++number) {
        EXPECT(OK, stitchpool_lease_end(pool, held[number], 0));
    }

    /* From now on nobody is put out. */
    EXPECT(OK, stitchpool_evictable_set(pool, cold, NULL));
    void *none = NULL;
    EXPECT(OUT_OF_MEMORY, stitchpool_alloc(pool, stream, GRANULE, &none));
    for (int number = 0; number < BLOCKS; ++number) {
        EXPECT(OK, stitchpool_free(pool, blocks[number]));
    }
    EXPECT(UNKNOWN_ADDRESS, stitchpool_touch(pool, blocks[0], &held[0]));

    EXPECT(OK, stitchpool_pool_driver(pool, &same));
    CHECK(same != NULL && same != driver);
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    stitchpool_driver_info info = {.struct_size = sizeof info};
    EXPECT(OK, stitchpool_driver_describe(same, &info));
    EXPECT(OK, stitchpool_driver_close(same));
    puts("evict: all as it should be");
    return 0;
}
