/* Blocks: allocating where one wants, freeing, and looking at what stands behind them. */
#include "check.h"

static stitchpool_driver *driver;
static stitchpool_pool *pool;
static stitchpool_stream stream, other;

static stitchpool_request request_of(uint64_t bytes) {
    stitchpool_request request = {.struct_size = sizeof request, .bytes = bytes, .stream = stream};
    return request;
}

static void blocks_come_and_go(void) {
    unsigned char *block = NULL, *again = NULL;
    stitchpool_stats before = stats_of(pool), after;
    EXPECT(OK, stitchpool_alloc(pool, stream, 1000, (void **)&block));
    CHECK((uintptr_t)block % 512 == 0);
    memset(block, 1, 1024);
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_alloc(pool, stream, 1000, (void **)&again));
    CHECK(again == block);
    EXPECT(OK, stitchpool_free(pool, again));
    after = stats_of(pool);
    CHECK(after.allocs == before.allocs + 2 && after.frees == before.frees + 2 && after.hits >= before.hits + 1);
    CHECK(after.live_blocks == 0 && after.live_bytes == 0 && after.physical_bytes == GRANULE);
    CHECK(after.free_bytes == GRANULE && after.handles_created == before.handles_created + 1);
    EXPECT(OK, stitchpool_free(pool, NULL));
}

static void what_cannot_be_allocated_is_refused(void) {
    unsigned char mark;
    void *block = &mark, *half = NULL;
    stitchpool_request request = request_of(0);
    EXPECT(INVALID_SIZE, stitchpool_alloc(pool, stream, 0, &block));
    EXPECT(INVALID_SIZE, stitchpool_alloc(pool, stream, UINT64_MAX, &block));
    EXPECT(OK, stitchpool_alloc(pool, stream, 40 * MIB, &half));
    EXPECT(OUT_OF_MEMORY, stitchpool_alloc(pool, stream, 40 * MIB, &block));
    SAYS("asked for 41943040 bytes");
    EXPECT(OK, stitchpool_free(pool, half));
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, 0, MIB, &block));
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, stream + 1000, MIB, &block));
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, UINT64_MAX, MIB, &block));
    EXPECT(NULL_POINTER, stitchpool_alloc(pool, stream, MIB, NULL));
    EXPECT(NULL_POINTER, stitchpool_alloc_request(pool, NULL, &block, NULL));
    EXPECT(NULL_POINTER, stitchpool_alloc_request(pool, &request, NULL, NULL));
    EXPECT(INVALID_SIZE, stitchpool_alloc_request(pool, &request, &block, NULL));
    request = request_of(MIB);
    request.struct_size = 0;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    request = request_of(MIB);
    request.alignment_bytes = 3;
    EXPECT(INVALID_ALIGNMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    request.alignment_bytes = 2 * GRANULE;
    EXPECT(INVALID_ALIGNMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    request = request_of(MIB);
    request.placement = 6;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    request.placement = STITCHPOOL_PLACE_SPILL;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    request.piece_count = 1;
    EXPECT(NULL_POINTER, stitchpool_alloc_request(pool, &request, &block, NULL));
    request = request_of(MIB);
    request.reader_count = 1;
    EXPECT(NULL_POINTER, stitchpool_alloc_request(pool, &request, &block, NULL));
    request.reader_count = SIZE_MAX;
    request.readers = (const int32_t *)&mark;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    CHECK(block == &mark);
}

/* Allocates by the request, and says how many bytes of the block lie on device 1. */
static uint64_t bytes_on_second(const stitchpool_request *request, void **block) {
    uint64_t bytes = 0, on_second = 0, next = 0;
    stitchpool_segment segments[64];
    size_t count = 0;
    EXPECT(OK, stitchpool_alloc_request(pool, request, block, &bytes));
    CHECK(bytes >= request->bytes);
    EXPECT(OK, stitchpool_segments(pool, *block, bytes, segments, 64, &count));
    for (size_t i = 0; i < count; i++) {
        CHECK((unsigned char *)segments[i].address == (unsigned char *)*block + next);
        CHECK(segments[i].bytes > 0 && segments[i].offset_bytes < 64 * MIB);
        next += segments[i].bytes;
        on_second += segments[i].device == 1 ? segments[i].bytes : 0;
    }
    CHECK(next == bytes);
    memset(*block, 3, bytes);
    return on_second;
}

static void blocks_lie_where_the_request_says(void) {
    stitchpool_piece pieces[] = {{.device = 0, .weight = 1, .bytes = 2 * GRANULE},
                                 {.device = 1, .weight = 3, .bytes = GRANULE}};
    int32_t both[] = {0, 1}, nobody[] = {9};
    stitchpool_request request = request_of(4 * GRANULE);
    void *block = NULL;
    request.alignment_bytes = GRANULE;
    CHECK(bytes_on_second(&request, &block) == 0);
    CHECK((uintptr_t)block % GRANULE == 0);
    EXPECT(OK, stitchpool_free(pool, block));

    request = request_of(4 * GRANULE);
    request.pieces = pieces + 1;
    request.piece_count = 1;
    request.placement = STITCHPOOL_PLACE_HOME;
    CHECK(bytes_on_second(&request, &block) == 4 * GRANULE);
    EXPECT(OK, stitchpool_free(pool, block));

    request.pieces = pieces;
    request.piece_count = 2;
    request.placement = STITCHPOOL_PLACE_ROUND_ROBIN;
    request.stripe_bytes = GRANULE;
    CHECK(bytes_on_second(&request, &block) == 2 * GRANULE);
    EXPECT(OK, stitchpool_free(pool, block));
    request.stripe_bytes = 3;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));

    request.placement = STITCHPOOL_PLACE_WEIGHTED;
    CHECK(bytes_on_second(&request, &block) == 3 * GRANULE);
    EXPECT(OK, stitchpool_free(pool, block));

    request.placement = STITCHPOOL_PLACE_SHARDS;
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_request(pool, &request, &block, NULL));
    SAYS("add up");
    request.bytes = 3 * GRANULE;
    CHECK(bytes_on_second(&request, &block) == GRANULE);
    EXPECT(OK, stitchpool_free(pool, block));

    /* 64 MiB a device: the rest of 80 MiB spills over. */
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    request.bytes = 80 * MIB;
    request.placement = STITCHPOOL_PLACE_SPILL;
    CHECK(bytes_on_second(&request, &block) == 16 * MIB);
    EXPECT(OK, stitchpool_free(pool, block));

    request = request_of(MIB);
    request.readers = both;
    request.reader_count = 2;
    CHECK(bytes_on_second(&request, &block) == 0);
    EXPECT(OK, stitchpool_record_use(pool, block, other));
    EXPECT(OK, stitchpool_free(pool, block));
    request.readers = nobody;
    request.reader_count = 1;
    CHECK(stitchpool_alloc_request(pool, &request, &block, NULL) != STITCHPOOL_OK);
    pieces[0].device = 9;
    request = request_of(MIB);
    request.pieces = pieces;
    request.piece_count = 1;
    request.placement = STITCHPOOL_PLACE_HOME;
    EXPECT(UNKNOWN_DEVICE, stitchpool_alloc_request(pool, &request, &block, NULL));
}

static void what_is_no_block_cannot_be_freed(void) {
    unsigned char *block = NULL, here;
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, (void **)&block));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, block + 512));
    SAYS("inside the block");
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, &here));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, (void *)UINTPTR_MAX));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free_on(pool, NULL, stream));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_record_use(pool, NULL, stream));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_record_use(pool, &here, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_free_on(pool, block, 0));
    EXPECT(UNKNOWN_STREAM, stitchpool_record_use(pool, block, stream ^ ((uint64_t)1 << 32)));
    EXPECT(NO_RIGHTS, stitchpool_free_on(pool, block, other));
    EXPECT(NO_RIGHTS, stitchpool_record_use(pool, block, other));
    EXPECT(OK, stitchpool_record_use(pool, block, stream));
    EXPECT(OK, stitchpool_free_on(pool, block, stream));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, block));
    SAYS("freed already");
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free_on(pool, block, stream));
}

static void a_pool_can_be_looked_at(void) {
    unsigned char *block = NULL, *start = NULL;
    uint64_t bytes = 0;
    stitchpool_segment segments[2] = {{.device = -5}, {.device = -5}};
    stitchpool_stats stats = {.struct_size = sizeof stats};
    stitchpool_device_stats device = {.struct_size = sizeof device};
    char text[512], cut[4] = "zzz";
    int32_t devices[2];
    size_t count = 0, whole = 0;
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, (void **)&block));
    EXPECT(OK, stitchpool_block_of(pool, block + 5000, (void **)&start, &bytes));
    CHECK(start == block && bytes == MIB);
    EXPECT(OK, stitchpool_block_of(pool, block, (void **)&start, NULL));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_block_of(pool, block + MIB, (void **)&start, &bytes));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_block_of(pool, NULL, (void **)&start, &bytes));
    EXPECT(NULL_POINTER, stitchpool_block_of(pool, block, NULL, &bytes));

    EXPECT(OK, stitchpool_segments(pool, block + 512, 1024, segments, 2, &count));
    CHECK(count == 1 && segments[0].address == block + 512 && segments[0].bytes == 1024 && segments[1].device == -5);
    CHECK(segments[0].device == 0 && segments[0].offset_bytes == 512 && segments[0].handle != 0);
    EXPECT(TOO_SMALL, stitchpool_segments(pool, block, MIB, NULL, 0, &count));
    CHECK(count == 1);
    EXPECT(OUT_OF_RANGE, stitchpool_segments(pool, block, MIB + 1, segments, 2, &count));
    EXPECT(OUT_OF_RANGE, stitchpool_segments(pool, block, 0, segments, 2, &count));
    EXPECT(OUT_OF_RANGE, stitchpool_segments(pool, block, UINT64_MAX, segments, 2, &count));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_segments(pool, NULL, 1, segments, 2, &count));
    EXPECT(NULL_POINTER, stitchpool_segments(pool, block, 1, NULL, 2, &count));
    EXPECT(NULL_POINTER, stitchpool_segments(pool, block, 1, segments, 2, NULL));

    EXPECT(OK, stitchpool_pictures(pool, text, sizeof text, &whole));
    CHECK(whole == strlen(text) + 1 && strncmp(text, "0x", 2) == 0 && strstr(text, " A\n") != NULL);
    EXPECT(TOO_SMALL, stitchpool_pictures(pool, cut, sizeof cut, &count));
    CHECK(count == whole && strcmp(cut, "0x7") <= 0 && strlen(cut) == 3);
    EXPECT(TOO_SMALL, stitchpool_pictures(pool, NULL, 0, &count));
    EXPECT(NULL_POINTER, stitchpool_pictures(pool, NULL, 1, &count));
    EXPECT(NULL_POINTER, stitchpool_pictures(pool, text, sizeof text, NULL));

    EXPECT(OK, stitchpool_pool_devices(pool, devices, 2, &count));
    CHECK(count == 2 && devices[0] == 0 && devices[1] == 1);
    EXPECT(TOO_SMALL, stitchpool_pool_devices(pool, NULL, 0, &count));
    EXPECT(NULL_POINTER, stitchpool_pool_devices(pool, NULL, 2, &count));
    EXPECT(OK, stitchpool_pool_stats(pool, &stats));
    CHECK(stats.live_blocks == 1 && stats.live_bytes == MIB && stats.physical_bytes == GRANULE);
    CHECK(stats.stranded_bytes == MIB && stats.free_bytes == 0 && stats.metadata_bytes > 0);
    EXPECT(OK, stitchpool_pool_device_stats(pool, 0, &device));
    CHECK(device.live_bytes == MIB && device.stranded_bytes == MIB && device.device_free_bytes == 62 * MIB);
    CHECK(device.physical_peak_bytes >= 64 * MIB && device.live_peak_bytes >= 64 * MIB);
    EXPECT(NULL_POINTER, stitchpool_pool_stats(pool, NULL));
    EXPECT(NULL_POINTER, stitchpool_pool_device_stats(pool, 0, NULL));
    EXPECT(UNKNOWN_DEVICE, stitchpool_pool_device_stats(pool, STITCHPOOL_HOST, &device));
    stats.struct_size = 1;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_stats(pool, &stats));
    EXPECT(OK, stitchpool_free(pool, block));
}

static void a_trim_says_what_it_gave_back(void) {
    stitchpool_trimmed trimmed = {.struct_size = sizeof trimmed};
    void *block = NULL;
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    EXPECT(OK, stitchpool_alloc(pool, stream, 5 * GRANULE, &block));
    EXPECT(OK, stitchpool_trim(pool, &trimmed));
    CHECK(trimmed.released_bytes == 0 && trimmed.waiting_bytes == 0);
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_trim_and_wait(pool, &trimmed));
    CHECK(trimmed.released_bytes == 5 * GRANULE && stats_of(pool).physical_bytes == 0);
    trimmed.struct_size = 0;
    EXPECT(INVALID_ARGUMENT, stitchpool_trim(pool, &trimmed));
    EXPECT(INVALID_ARGUMENT, stitchpool_trim_and_wait(pool, &trimmed));
    EXPECT(OK, stitchpool_trim(pool, NULL));
}

int main(void) {
    driver = small_driver(2, 64 * MIB);
    pool = small_pool(driver);
    stream = stream_on(driver, pool, 0);
    other = stream_on(driver, pool, 1);
    blocks_come_and_go();
    what_cannot_be_allocated_is_refused();
    blocks_lie_where_the_request_says();
    what_is_no_block_cannot_be_freed();
    a_pool_can_be_looked_at();
    a_trim_says_what_it_gave_back();
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("blocks: all as it should be");
    return 0;
}
