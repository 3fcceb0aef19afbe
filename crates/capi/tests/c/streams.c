/* Streams: by number and by the driver's handle, retired, recycled, and the default ones. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>

static stitchpool_driver *driver;
static stitchpool_pool *pool;

#define LEGACY ((void *)(uintptr_t)1)
#define PER_THREAD ((void *)(uintptr_t)2)

static void *raw_on(int32_t device) {
    void *raw = NULL;
    EXPECT(OK, stitchpool_driver_stream_create(driver, device, &raw));
    return raw;
}

static stitchpool_stream number_of(int32_t device, void *raw) {
    stitchpool_stream stream = 0;
    EXPECT(OK, stitchpool_stream_register(pool, device, raw, &stream));
    return stream;
}

static void a_stream_has_one_number(void) {
    void *raw = raw_on(0), *block = NULL;
    stitchpool_stream stream = number_of(0, raw), untouched = 77;
    CHECK(number_of(0, raw) == stream);
    EXPECT(OK, stitchpool_alloc_raw(pool, 0, raw, MIB, &block));
    EXPECT(OK, stitchpool_record_use_raw(pool, 0, raw, block));
    EXPECT(OK, stitchpool_free_raw(pool, 0, raw, block));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free_raw(pool, 0, raw, block));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_record_use_raw(pool, 0, raw, block));
    CHECK(number_of(0, raw) == stream);

    EXPECT(NULL_POINTER, stitchpool_stream_register(pool, 0, raw, NULL));
    EXPECT(NULL_POINTER, stitchpool_alloc_raw(pool, 0, raw, MIB, NULL));
    EXPECT(INVALID_SIZE, stitchpool_alloc_raw(pool, 0, raw, 0, &block));
    /* The stream is not one of that device, the device not one of the driver's, the stream none at all. */
    EXPECT(INVALID_ARGUMENT, stitchpool_stream_register(pool, 1, raw, &untouched));
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_raw(pool, 1, raw, MIB, &block));
    EXPECT(UNKNOWN_DEVICE, stitchpool_stream_register(pool, 2, NULL, &untouched));
    EXPECT(UNKNOWN_DEVICE, stitchpool_alloc_raw(pool, -3, NULL, MIB, &block));
    EXPECT(UNKNOWN_DEVICE, stitchpool_free_raw(pool, 70000, NULL, block));
    EXPECT(UNKNOWN_DEVICE, stitchpool_record_use_raw(pool, 2, NULL, block));
    EXPECT(INVALID_ARGUMENT, stitchpool_alloc_raw(pool, 0, (void *)(uintptr_t)0xdead0, MIB, &block));
    EXPECT(INVALID_ARGUMENT, stitchpool_free_raw(pool, 0, (void *)(uintptr_t)0xdead0, block));
    CHECK(untouched == 77);
}

static void a_retired_stream_is_used_no_more(void) {
    void *raw = raw_on(0), *block = NULL, *late = NULL;
    stitchpool_stream stream = number_of(0, raw);
    EXPECT(OK, stitchpool_alloc(pool, stream, MIB, &block));
    EXPECT(OK, stitchpool_stream_retire(pool, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_stream_retire(pool, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, stream, MIB, &late));
    EXPECT(UNKNOWN_STREAM, stitchpool_free_on(pool, block, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_record_use(pool, block, stream));
    EXPECT(UNKNOWN_STREAM, stitchpool_stream_retire_raw(pool, 0, raw));
    EXPECT(OK, stitchpool_free(pool, block));
    EXPECT(UNKNOWN_STREAM, stitchpool_stream_retire(pool, 0));
    EXPECT(UNKNOWN_STREAM, stitchpool_stream_retire(pool, UINT64_MAX));
    EXPECT(UNKNOWN_DEVICE, stitchpool_stream_retire_raw(pool, 9999999, raw));
    EXPECT(INVALID_ARGUMENT, stitchpool_stream_retire_raw(pool, 1, raw));
    /* Registered anew it is another. */
    CHECK(number_of(0, raw) != stream);
    EXPECT(OK, stitchpool_stream_retire_raw(pool, 0, raw));
    EXPECT(OK, stitchpool_driver_stream_destroy(driver, 0, raw));
}

static void a_recycled_handle_is_another_stream(void) {
    void *raw = raw_on(0);
    stitchpool_stream before = number_of(0, raw);
    EXPECT(OK, stitchpool_stream_retire(pool, before));
    EXPECT(OK, stitchpool_driver_stream_destroy(driver, 0, raw));
    void *again = raw_on(0);
    CHECK(again == raw);
    CHECK(number_of(0, again) != before);
}

static void a_stream_of_another_pool_is_unknown(void) {
    stitchpool_pool *second = small_pool(driver);
    stitchpool_stream theirs = stream_on(driver, second, 0);
    void *block = NULL;
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, theirs, MIB, &block));
    EXPECT(UNKNOWN_STREAM, stitchpool_stream_retire(pool, theirs));
    EXPECT(OK, stitchpool_alloc(second, theirs, MIB, &block));
    EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, block));
    EXPECT(OK, stitchpool_free(second, block));
    EXPECT(OK, stitchpool_pool_destroy(second));
}

static void *numbers_of_this_thread(void *numbers) {
    ((stitchpool_stream *)numbers)[0] = number_of(0, NULL);
    ((stitchpool_stream *)numbers)[1] = number_of(0, PER_THREAD);
    return NULL;
}

static void default_streams_are_told_apart(void) {
    stitchpool_stream mine[2], theirs[2];
    pthread_t thread;
    void *block = NULL;
    numbers_of_this_thread(mine);
    CHECK(pthread_create(&thread, NULL, numbers_of_this_thread, theirs) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(mine[0] == theirs[0] && mine[1] != theirs[1] && mine[0] != mine[1]);
    CHECK(number_of(0, LEGACY) == mine[0] && number_of(1, NULL) != mine[0]);
    EXPECT(OK, stitchpool_alloc_raw(pool, 0, PER_THREAD, MIB, &block));
    EXPECT(OK, stitchpool_free_raw(pool, 0, PER_THREAD, block));
    /* A thread's default stream goes with it, once another stream is registered. */
    number_of(0, raw_on(0));
    EXPECT(UNKNOWN_STREAM, stitchpool_alloc(pool, theirs[1], MIB, &block));
}

int main(void) {
    driver = small_driver(2, 64 * MIB);
    pool = small_pool(driver);
    a_stream_has_one_number();
    a_retired_stream_is_used_no_more();
    a_recycled_handle_is_another_stream();
    a_stream_of_another_pool_is_unknown();
    default_streams_are_told_apart();
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("streams: all as it should be");
    return 0;
}
