/* Pools: settings, the ends they can come to, and what a handle is worth then. */
#include "check.h"

static void settings_begin_with_the_defaults(void) {
    stitchpool_settings settings = {.struct_size = sizeof settings};
    EXPECT(OK, stitchpool_settings_default(&settings));
    CHECK(settings.struct_size == sizeof settings && settings.device_count == 0);
    CHECK(settings.limit_bytes == STITCHPOOL_ALL && settings.handle_bytes_max == 64 * MIB);
    CHECK(settings.wait_max_us == 10000000 && settings.stream_waits == 1);
    CHECK(settings.handle_kind == STITCHPOOL_HANDLE_PRIVATE);
    EXPECT(NULL_POINTER, stitchpool_settings_default(NULL));
    settings.struct_size = 8;
    EXPECT(INVALID_ARGUMENT, stitchpool_settings_default(&settings));
}

static stitchpool_settings defaults(void) {
    stitchpool_settings settings = {.struct_size = sizeof settings};
    EXPECT(OK, stitchpool_settings_default(&settings));
    return settings;
}

static void settings_are_heard(void) {
    stitchpool_driver *driver = small_driver(2, 64 * MIB);
    int32_t only[] = {1}, devices[2] = {-9, -9};
    size_t count = 0;
    stitchpool_pool *pool = NULL;
    stitchpool_settings settings = defaults();
    settings.devices = only;
    settings.device_count = 1;
    settings.limit_bytes = 8 * MIB;
    EXPECT(OK, stitchpool_pool_create(driver, &settings, &pool));
    EXPECT(OK, stitchpool_pool_devices(pool, devices, 2, &count));
    CHECK(count == 1 && devices[0] == 1 && devices[1] == -9);
    stitchpool_device_stats stats = {.struct_size = sizeof stats};
    EXPECT(OK, stitchpool_pool_device_stats(pool, 1, &stats));
    CHECK(stats.device == 1 && stats.limit_bytes == 8 * MIB && stats.physical_bytes == 0);
    EXPECT(UNKNOWN_DEVICE, stitchpool_pool_device_stats(pool, 0, &stats));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_pool_may_have_a_thread_of_its_own(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *pool = NULL;
    stitchpool_settings settings = defaults();
    void *small[8], *large = NULL;
    CHECK(settings.background_thread == 0);
    settings.background_thread = 1;
    EXPECT(OK, stitchpool_pool_create(driver, &settings, &pool));
    stitchpool_stream stream = stream_on(driver, pool, 0);
    for (int i = 0; i < 8; i++) EXPECT(OK, stitchpool_alloc(pool, stream, 2 * MIB, &small[i]));
    for (int i = 0; i < 8; i += 2) EXPECT(OK, stitchpool_free(pool, small[i]));
    /* Stitched from what they had, which still stands at the old places when the pool goes. */
    EXPECT(OK, stitchpool_alloc(pool, stream, 8 * MIB, &large));
    EXPECT(OK, stitchpool_free(pool, large));
    for (int i = 1; i < 8; i += 2) EXPECT(OK, stitchpool_free(pool, small[i]));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void settings_that_cannot_be_are_refused(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *pool = NULL;
    stitchpool_settings settings = defaults();
    int32_t unknown[] = {0, 5}, never[] = {-5};
    EXPECT(NULL_POINTER, stitchpool_pool_create(driver, NULL, NULL));
    settings.devices = unknown;
    settings.device_count = 2;
    EXPECT(UNKNOWN_DEVICE, stitchpool_pool_create(driver, &settings, &pool));
    settings.devices = never;
    settings.device_count = 1;
    EXPECT(UNKNOWN_DEVICE, stitchpool_pool_create(driver, &settings, &pool));
    settings.devices = NULL;
    EXPECT(NULL_POINTER, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.limit_bytes = 1;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.handle_bytes_max = 3;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.handle_kind = 9;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.stream_waits = 2;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.open_to_peers = -1;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.background_thread = 2;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.reserved = 1;
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    settings = defaults();
    settings.struct_size = offsetof(stitchpool_settings, open_to_peers) - 1; /* the first version ended there */
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_create(driver, &settings, &pool));
    CHECK(pool == NULL);
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_pool_outlives_its_driver_handle_and_gives_everything_back(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *pool = small_pool(driver), *other = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);
    uint64_t free_bytes = 0, total_bytes = 0;
    void *block = NULL;
    EXPECT(OK, stitchpool_alloc(pool, stream, 3 * MIB, &block));
    EXPECT(OK, stitchpool_device_memory(driver, 0, &free_bytes, &total_bytes));
    CHECK(free_bytes == total_bytes - 4 * MIB);
    EXPECT(IN_USE, stitchpool_pool_destroy(pool));
    SAYS("3145728 bytes");
    memset(block, 7, 3 * MIB);
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_device_memory(driver, 0, &free_bytes, &total_bytes));
    CHECK(free_bytes == total_bytes);
    EXPECT(OK, stitchpool_driver_close(driver));
    EXPECT(OK, stitchpool_alloc_raw(other, 0, NULL, MIB, &block));
    EXPECT(OK, stitchpool_free(other, block));
    EXPECT(OK, stitchpool_pool_destroy(other));
}

static void a_pool_may_leave_its_blocks_standing(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, pool, 0);
    unsigned char *block = NULL;
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, (void **)&block));
    memset(block, 42, MIB);
    EXPECT(OK, stitchpool_pool_destroy_leaking(pool));
    CHECK(block[0] == 42 && block[MIB - 1] == 42);
    EXPECT(INVALID_HANDLE, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_stream_destroyed_before_it_was_retired_is_named_by_destroy(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *pool = small_pool(driver);
    stitchpool_stream stream = 0;
    void *raw = NULL, *block = NULL;
    EXPECT(OK, stitchpool_driver_stream_create(driver, 0, &raw));
    EXPECT(OK, stitchpool_stream_register(pool, 0, raw, &stream));
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, &block));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_driver_stream_destroy(driver, 0, raw));
    EXPECT(INVALID_ARGUMENT, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, &block));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_pool_destroy_leaking(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static int32_t no_relief(const stitchpool_shortage *shortage, void *user_data) {
    (void)shortage;
    (void)user_data;
    return 0;
}

/* Every function that takes a pool refuses one that is not. */
static void refused_by_all(stitchpool_pool *pool, stitchpool_stream stream, stitchpool_status refused) {
    stitchpool_stats stats = {.struct_size = sizeof stats};
    stitchpool_device_stats device_stats = {.struct_size = sizeof device_stats};
    stitchpool_trimmed trimmed = {.struct_size = sizeof trimmed};
    stitchpool_request request = {.struct_size = sizeof request, .bytes = MIB, .stream = stream};
    stitchpool_segment segment;
    int32_t device = 0;
    char text[8];
    size_t count = 0;
    uint64_t bytes = 0;
    void *address = &bytes;
    CHECK(stitchpool_pool_destroy(pool) == refused);
    CHECK(stitchpool_pool_destroy_leaking(pool) == refused);
    CHECK(stitchpool_trim(pool, &trimmed) == refused);
    CHECK(stitchpool_trim_and_wait(pool, &trimmed) == refused);
    CHECK(stitchpool_stream_register(pool, 0, NULL, &stream) == refused);
    CHECK(stitchpool_stream_retire(pool, stream) == refused);
    CHECK(stitchpool_stream_retire_raw(pool, 0, NULL) == refused);
    CHECK(stitchpool_alloc(pool, stream, MIB, &address) == refused);
    CHECK(stitchpool_alloc_request(pool, &request, &address, &bytes) == refused);
    CHECK(stitchpool_alloc_raw(pool, 0, NULL, MIB, &address) == refused);
    CHECK(stitchpool_free(pool, address) == refused);
    CHECK(stitchpool_free_on(pool, address, stream) == refused);
    CHECK(stitchpool_free_raw(pool, 0, NULL, address) == refused);
    CHECK(stitchpool_record_use(pool, address, stream) == refused);
    CHECK(stitchpool_record_use_raw(pool, 0, NULL, address) == refused);
    CHECK(stitchpool_on_shortage(pool, no_relief, NULL) == refused);
    CHECK(stitchpool_pool_stats(pool, &stats) == refused);
    CHECK(stitchpool_pool_device_stats(pool, 0, &device_stats) == refused);
    CHECK(stitchpool_pool_devices(pool, &device, 1, &count) == refused);
    CHECK(stitchpool_segments(pool, address, 1, &segment, 1, &count) == refused);
    CHECK(stitchpool_ranges(pool, NULL, 0, &count) == refused);
    CHECK(stitchpool_limit_set(pool, 0, STITCHPOOL_ALL) == refused);
    CHECK(stitchpool_headroom_set(pool, 0, MIB) == refused);
    CHECK(stitchpool_peaks_reset(pool, 0) == refused);
    CHECK(stitchpool_block_of(pool, address, &address, &bytes) == refused);
    CHECK(stitchpool_pictures(pool, text, sizeof text, &count) == refused);
    CHECK(address == &bytes && count == 0 && bytes == 0);
}

static void a_limit_may_change_and_peaks_begin_anew(void) {
    stitchpool_driver *driver = small_driver(2, 64 * MIB);
    stitchpool_settings settings = {.struct_size = sizeof settings};
    EXPECT(OK, stitchpool_settings_default(&settings));
    settings.open_to_peers = 1;
    stitchpool_pool *pool = NULL;
    EXPECT(OK, stitchpool_pool_create(driver, &settings, &pool));
    stitchpool_stream first = stream_on(driver, pool, 0), second = stream_on(driver, pool, 1);
    void *address = NULL;
    EXPECT(OK, stitchpool_limit_set(pool, 0, 8 * MIB));
    EXPECT(OUT_OF_MEMORY, stitchpool_alloc(pool, first, 10 * MIB, &address));
    SAYS("at most 8388608 bytes");
    EXPECT(OK, stitchpool_limit_set(pool, 0, STITCHPOOL_ALL));
    EXPECT(OK, stitchpool_alloc(pool, first, 10 * MIB, &address));
    EXPECT(OK, stitchpool_record_use(pool, address, second)); /* a peer has rights without being named */
    stitchpool_range ranges[4];
    size_t count = 0;
    EXPECT(OK, stitchpool_ranges(pool, ranges, 4, &count));
    CHECK(count == 1 && ranges[0].address == address && ranges[0].bytes == 10 * MIB && ranges[0].device == 0);
    EXPECT(TOO_SMALL, stitchpool_ranges(pool, NULL, 0, &count));
    EXPECT(OK, stitchpool_free(pool, address));
    EXPECT(OK, stitchpool_trim_and_wait(pool, NULL));
    EXPECT(OK, stitchpool_peaks_reset(pool, 0));
    stitchpool_device_stats stats = {.struct_size = sizeof stats};
    EXPECT(OK, stitchpool_pool_device_stats(pool, 0, &stats));
    CHECK(stats.physical_peak_bytes == stats.physical_bytes && stats.limit_bytes == 64 * MIB);
    EXPECT(UNKNOWN_DEVICE, stitchpool_limit_set(pool, 2, 8 * MIB));
    EXPECT(OK, stitchpool_headroom_set(pool, 0, 8 * MIB));
    EXPECT(UNKNOWN_DEVICE, stitchpool_headroom_set(pool, 2, 8 * MIB));
    EXPECT(UNKNOWN_DEVICE, stitchpool_peaks_reset(pool, 2));
    EXPECT(INVALID_ARGUMENT, stitchpool_limit_set(pool, 0, MIB));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_destroyed_or_foreign_pool_is_a_status(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    stitchpool_pool *destroyed = small_pool(driver);
    stitchpool_stream stream = stream_on(driver, destroyed, 0);
    EXPECT(OK, stitchpool_pool_destroy(destroyed));
    stitchpool_pool *open = small_pool(driver);
    CHECK(open != destroyed);
    refused_by_all(destroyed, stream, STITCHPOOL_INVALID_HANDLE);
    refused_by_all(FOREIGN_POOL, stream, STITCHPOOL_INVALID_HANDLE);
    refused_by_all((stitchpool_pool *)driver, stream, STITCHPOOL_INVALID_HANDLE);
    refused_by_all((stitchpool_pool *)UINTPTR_MAX, stream, STITCHPOOL_INVALID_HANDLE);
    refused_by_all(NULL, stream, STITCHPOOL_NULL_POINTER);
    EXPECT(INVALID_HANDLE, stitchpool_driver_close((stitchpool_driver *)open));
    EXPECT(OK, stitchpool_pool_destroy(open));
    EXPECT(OK, stitchpool_driver_close(driver));
}

int main(void) {
    settings_begin_with_the_defaults();
    settings_are_heard();
    a_pool_may_have_a_thread_of_its_own();
    settings_that_cannot_be_are_refused();
    a_pool_outlives_its_driver_handle_and_gives_everything_back();
    a_pool_may_leave_its_blocks_standing();
    a_stream_destroyed_before_it_was_retired_is_named_by_destroy();
    a_limit_may_change_and_peaks_begin_anew();
    a_destroyed_or_foreign_pool_is_a_status();
    puts("pools: all as it should be");
    return 0;
}
