/* Drivers: what can be opened, what they tell, and what they refuse. */
#include "check.h"

static void the_library_says_what_it_is(void) {
    CHECK(stitchpool_version() == STITCHPOOL_VERSION);
    CHECK(stitchpool_last_error()[0] == '\0');
    CHECK(strcmp(stitchpool_status_name(STITCHPOOL_OK), "STITCHPOOL_OK") == 0);
    CHECK(strcmp(stitchpool_status_name(STITCHPOOL_INTERNAL), "STITCHPOOL_INTERNAL") == 0);
    CHECK(strcmp(stitchpool_status_name(-1), "an unknown status") == 0);
    CHECK(strcmp(stitchpool_status_name(STITCHPOOL_INTERNAL + 1000), "an unknown status") == 0);
}

static void a_driver_is_cuda_or_says_why_not(void) {
    stitchpool_driver_options options = {.struct_size = sizeof options, .kind = STITCHPOOL_DRIVER_CUDA};
    stitchpool_driver_info info = {.struct_size = sizeof info};
    stitchpool_driver *cuda = NULL, *automatic = NULL;
    stitchpool_status status = stitchpool_driver_open(&options, &cuda);
    CHECK(status == STITCHPOOL_OK || status == STITCHPOOL_UNAVAILABLE);
    if (status == STITCHPOOL_UNAVAILABLE) {
        CHECK(cuda == NULL);
        SAYS("install");
    }
    EXPECT(OK, stitchpool_driver_open(NULL, &automatic));
    CHECK((stitchpool_last_error()[0] == '\0') == (cuda != NULL));
    EXPECT(OK, stitchpool_driver_describe(automatic, &info));
    CHECK(info.kind == (cuda != NULL ? STITCHPOOL_DRIVER_CUDA : STITCHPOOL_DRIVER_HOST));
    CHECK(info.device_count >= 1);
    EXPECT(OK, stitchpool_driver_close(automatic));
    if (cuda != NULL) EXPECT(OK, stitchpool_driver_close(cuda));
}

static void options_that_cannot_be_are_refused(void) {
    stitchpool_driver_options options = {.struct_size = sizeof options, .kind = 3};
    struct {
        stitchpool_driver_options known;
        uint64_t later;
    } newer = {{.struct_size = sizeof newer, .kind = STITCHPOOL_DRIVER_HOST}, 0};
    stitchpool_driver *driver = NULL;
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(&options, &driver));
    SAYS("kind is 3");
    options.kind = STITCHPOOL_DRIVER_HOST;
    options.struct_size = 0;
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(&options, &driver));
    SAYS("struct_size");
    options.struct_size = sizeof options;
    options.host_devices = 64;
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(&options, &driver));
    options.host_devices = 1;
    options.host_granule_bytes = 12345;
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(&options, &driver));
    newer.later = 1;
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(&newer.known, &driver));
    SAYS("does not know");
    EXPECT(NULL_POINTER, stitchpool_driver_open(NULL, NULL));
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_open(NULL, (stitchpool_driver **)(uintptr_t)3));
    CHECK(driver == NULL);
    newer.later = 0;
    EXPECT(OK, stitchpool_driver_open(&newer.known, &driver));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_driver_tells_of_its_devices(void) {
    stitchpool_driver *driver = small_driver(2, 64 * MIB);
    stitchpool_driver_info info = {.struct_size = sizeof info};
    stitchpool_device_info first = {.struct_size = sizeof first}, second = {.struct_size = sizeof second};
    uint64_t free_bytes = 0, total_bytes = 0;
    int32_t link = -1;
    EXPECT(OK, stitchpool_driver_describe(driver, &info));
    CHECK(info.kind == STITCHPOOL_DRIVER_HOST && info.device_count == 2);
    EXPECT(OK, stitchpool_device_describe(driver, 0, &first));
    EXPECT(OK, stitchpool_device_describe(driver, 1, &second));
    CHECK(first.device == 0 && second.device == 1 && first.total_bytes == 64 * MIB && first.granule_bytes == GRANULE);
    CHECK(first.name[0] != '\0' && memcmp(first.uuid, second.uuid, sizeof first.uuid) != 0);
    EXPECT(OK, stitchpool_device_memory(driver, 0, &free_bytes, &total_bytes));
    CHECK(free_bytes == 64 * MIB && total_bytes == 64 * MIB);
    EXPECT(OK, stitchpool_device_memory(driver, STITCHPOOL_HOST, &free_bytes, &total_bytes));
    EXPECT(OK, stitchpool_device_link(driver, 0, 1, &link));
    CHECK(link == STITCHPOOL_LINK_DIRECT);
    EXPECT(OK, stitchpool_device_link(driver, 0, 0, &link));
    CHECK(link == STITCHPOOL_LINK_OWN);
    EXPECT(OK, stitchpool_device_link(driver, 0, STITCHPOOL_HOST, &link));
    CHECK(link == STITCHPOOL_LINK_BUS);
    EXPECT(OK, stitchpool_device_link(driver, STITCHPOOL_HOST, 0, &link));
    CHECK(link == STITCHPOOL_LINK_NONE);

    EXPECT(NULL_POINTER, stitchpool_driver_describe(driver, NULL));
    EXPECT(NULL_POINTER, stitchpool_device_describe(driver, 0, NULL));
    EXPECT(UNKNOWN_DEVICE, stitchpool_device_describe(driver, 2, &first));
    EXPECT(UNKNOWN_DEVICE, stitchpool_device_describe(driver, STITCHPOOL_HOST, &first));
    EXPECT(UNKNOWN_DEVICE, stitchpool_device_describe(driver, -7, &first));
    EXPECT(NULL_POINTER, stitchpool_device_memory(driver, 0, NULL, &total_bytes));
    EXPECT(NULL_POINTER, stitchpool_device_memory(driver, 0, &free_bytes, NULL));
    EXPECT(UNKNOWN_DEVICE, stitchpool_device_memory(driver, 2, &free_bytes, &total_bytes));
    EXPECT(NULL_POINTER, stitchpool_device_link(driver, 0, 1, NULL));
    EXPECT(UNKNOWN_DEVICE, stitchpool_device_link(driver, 0, 70000, &link));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void streams_come_and_go(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    void *raw = NULL;
    EXPECT(OK, stitchpool_driver_stream_create(driver, 0, &raw));
    EXPECT(OK, stitchpool_driver_stream_finish(driver, 0, raw));
    EXPECT(OK, stitchpool_driver_stream_destroy(driver, 0, raw));
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_stream_destroy(driver, 0, raw));
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_stream_finish(driver, 0, raw));
    EXPECT(INVALID_ARGUMENT, stitchpool_driver_stream_destroy(driver, 0, NULL));
    EXPECT(UNKNOWN_DEVICE, stitchpool_driver_stream_create(driver, 1, &raw));
    EXPECT(UNKNOWN_DEVICE, stitchpool_driver_stream_create(driver, STITCHPOOL_HOST, &raw));
    EXPECT(NULL_POINTER, stitchpool_driver_stream_create(driver, 0, NULL));
    EXPECT(OK, stitchpool_driver_close(driver));
}

static void a_closed_driver_is_a_status(void) {
    stitchpool_driver *closed = small_driver(1, 64 * MIB);
    EXPECT(OK, stitchpool_driver_close(closed));
    stitchpool_driver *open = small_driver(1, 64 * MIB);
    CHECK(open != closed);
    stitchpool_driver *wrong[] = {NULL, closed, FOREIGN_DRIVER};
    for (size_t i = 0; i < 3; i++) {
        stitchpool_status refused = wrong[i] == NULL ? STITCHPOOL_NULL_POINTER : STITCHPOOL_INVALID_HANDLE;
        stitchpool_driver_info info = {.struct_size = sizeof info};
        stitchpool_device_info device = {.struct_size = sizeof device};
        uint64_t bytes = 0;
        int32_t link = 0;
        void *raw = NULL;
        stitchpool_pool *pool = NULL;
        CHECK(stitchpool_driver_close(wrong[i]) == refused);
        CHECK(stitchpool_driver_describe(wrong[i], &info) == refused);
        CHECK(stitchpool_device_describe(wrong[i], 0, &device) == refused);
        CHECK(stitchpool_device_memory(wrong[i], 0, &bytes, &bytes) == refused);
        CHECK(stitchpool_device_link(wrong[i], 0, 0, &link) == refused);
        CHECK(stitchpool_driver_stream_create(wrong[i], 0, &raw) == refused);
        CHECK(stitchpool_driver_stream_destroy(wrong[i], 0, raw) == refused);
        CHECK(stitchpool_driver_stream_finish(wrong[i], 0, raw) == refused);
        CHECK(stitchpool_pool_create(wrong[i], NULL, &pool) == refused);
    }
    EXPECT(INVALID_HANDLE, stitchpool_driver_close(closed));
    SAYS("closed already");
    EXPECT(INVALID_HANDLE, stitchpool_driver_close(FOREIGN_DRIVER));
    SAYS("never gave it out");
    EXPECT(OK, stitchpool_driver_close(open));
}

int main(void) {
    the_library_says_what_it_is();
    a_driver_is_cuda_or_says_why_not();
    options_that_cannot_be_are_refused();
    a_driver_tells_of_its_devices();
    streams_come_and_go();
    a_closed_driver_is_a_status();
    puts("drivers: all as it should be");
    return 0;
}
