/* What the test programs share: a check that says where it failed, and a small host driver. */
#ifndef CHECK_H
#define CHECK_H

#include "stitchpool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GRANULE (2 * MIB)
/* Neither open nor ever given out. */
#define FOREIGN_POOL ((stitchpool_pool *)(uintptr_t)0x12345678)
#define FOREIGN_DRIVER ((stitchpool_driver *)(uintptr_t)0x12345678)

static void expect(stitchpool_status expected, stitchpool_status status, const char *call, int line) {
    if (status != expected) {
        fprintf(stderr, "line %d: %s answers %s and not %s: %s\n", line, call, stitchpool_status_name(status),
                stitchpool_status_name(expected), stitchpool_last_error());
        exit(1);
    }
    if (status != STITCHPOOL_OK && stitchpool_last_error()[0] == '\0') {
        fprintf(stderr, "line %d: %s answers %s without words\n", line, call, stitchpool_status_name(status));
        exit(1);
    }
}

#define EXPECT(status, call) expect(STITCHPOOL_##status, call, #call, __LINE__)
#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "line %d: not so: %s (latest refusal: %s)\n", __LINE__,         \
                    #condition, stitchpool_last_error());                                  \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)
#define SAYS(text) CHECK(strstr(stitchpool_last_error(), text) != NULL)

/* A host driver of so many small devices. */
static inline stitchpool_driver *small_driver(uint32_t devices, uint64_t capacity_bytes) {
    stitchpool_driver_options options = {.struct_size = sizeof options,
                                         .kind = STITCHPOOL_DRIVER_HOST,
                                         .host_devices = devices,
                                         .host_capacity_bytes = capacity_bytes,
                                         .host_granule_bytes = GRANULE};
    stitchpool_driver *driver = NULL;
    EXPECT(OK, stitchpool_driver_open(&options, &driver));
    return driver;
}

static inline stitchpool_pool *small_pool(const stitchpool_driver *driver) {
    stitchpool_pool *pool = NULL;
    EXPECT(OK, stitchpool_pool_create(driver, NULL, &pool));
    return pool;
}

static inline stitchpool_stream stream_on(const stitchpool_driver *driver, const stitchpool_pool *pool,
                                          int32_t device) {
    void *raw = NULL;
    stitchpool_stream stream = 0;
    EXPECT(OK, stitchpool_driver_stream_create(driver, device, &raw));
    EXPECT(OK, stitchpool_stream_register(pool, device, raw, &stream));
    CHECK(stream != 0);
    return stream;
}

static inline stitchpool_stats stats_of(const stitchpool_pool *pool) {
    stitchpool_stats stats = {.struct_size = sizeof stats};
    EXPECT(OK, stitchpool_pool_stats(pool, &stats));
    return stats;
}

#endif
