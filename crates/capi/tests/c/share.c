/* Memory in two processes, as C programs see it: this one, and itself once more after fork and exec. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND ((uint64_t)1000000)

static const stitchpool_grant READ[] = {{0, STITCHPOOL_RIGHTS_READ}}, WRITE[] = {{0, STITCHPOOL_RIGHTS_READ_WRITE}};

/* The importer: reads tickets from its input, says a letter when it is so far, and goes on at a letter. */
static int play_importer(void) {
    stitchpool_driver *driver = small_driver(1, 16 * GRANULE);
    stitchpool_ticket ticket;
    CHECK(read(0, &ticket, sizeof ticket) == sizeof ticket);
    stitchpool_importer *importer = NULL;
    EXPECT(OK, stitchpool_importer_connect(driver, &ticket, 10 * SECOND, &importer));
    int32_t device = -1;
    EXPECT(OK, stitchpool_importer_device(importer, &ticket, &device));
    CHECK(device == 0);
    EXPECT(OK, stitchpool_importer_watch(importer));
    stitchpool_import *import = NULL, *again = NULL;
    EXPECT(OK, stitchpool_import_open(importer, &ticket, WRITE, 1, &import));
    EXPECT(OK, stitchpool_import_open(importer, &ticket, WRITE, 1, &again));
    void *address = NULL, *same = NULL;
    uint64_t bytes = 0;
    EXPECT(OK, stitchpool_import_part(importer, import, 0, &address, &bytes));
    EXPECT(OK, stitchpool_import_part(importer, again, 0, &same, NULL));
    EXPECT(OUT_OF_RANGE, stitchpool_import_part(importer, import, 1, NULL, NULL));
    CHECK(bytes == 2 * GRANULE && same == address);
    CHECK(strcmp(address, "from the parent") == 0);
    strcpy((char *)address + GRANULE, "from the child");
    EXPECT(OK, stitchpool_import_drop(importer, again));
    EXPECT(INVALID_HANDLE, stitchpool_import_drop(importer, again));
    EXPECT(IN_USE, stitchpool_importer_close(importer));
    char letter = 'm';
    CHECK(write(1, &letter, 1) == 1 && read(0, &letter, 1) == 1);
    /* The parent has recalled it meanwhile. */
    EXPECT(GONE, stitchpool_import_part(importer, import, 0, &address, NULL));
    EXPECT(STALE, stitchpool_import_open(importer, &ticket, WRITE, 1, &again));
    EXPECT(OK, stitchpool_import_drop(importer, import));
    EXPECT(OK, stitchpool_importer_close(importer));
    EXPECT(INVALID_HANDLE, stitchpool_importer_poll(importer, 0, NULL));
    EXPECT(OK, stitchpool_driver_close(driver));
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1) return play_importer();
    signal(SIGPIPE, SIG_IGN);
    stitchpool_driver *driver = small_driver(1, 16 * GRANULE);
    stitchpool_settings settings = {.struct_size = sizeof settings};
    EXPECT(OK, stitchpool_settings_default(&settings));
    stitchpool_pool *private_pool = small_pool(driver), *pool = NULL;
    settings.handle_kind = STITCHPOOL_HANDLE_FILE_DESCRIPTOR;
    EXPECT(OK, stitchpool_pool_create(driver, &settings, &pool));
    stitchpool_request request = {.struct_size = sizeof request, .bytes = 2 * GRANULE, .exclusive = 1};
    request.stream = stream_on(driver, private_pool, 0);
    void *address = NULL;
    stitchpool_exporter *exporter = NULL;
    stitchpool_offer *offer = NULL, *second = NULL;
    stitchpool_ticket ticket, twin;

    /* Memory that was not made to leave does not. */
    EXPECT(OK, stitchpool_alloc_request(private_pool, &request, &address, NULL));
    stitchpool_part part = {address, 2 * GRANULE};
    EXPECT(OK, stitchpool_exporter_create(private_pool, NULL, &exporter));
    EXPECT(INVALID_ARGUMENT,
           stitchpool_offer_create(private_pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ, &offer, &ticket));
    SAYS("private");
    EXPECT(OK, stitchpool_free(private_pool, address));
    EXPECT(IN_USE, stitchpool_pool_destroy(private_pool));
    EXPECT(OK, stitchpool_exporter_drop(private_pool, exporter));
    EXPECT(OK, stitchpool_pool_destroy(private_pool));

    request.stream = stream_on(driver, pool, 0);
    EXPECT(OK, stitchpool_alloc_request(pool, &request, &address, NULL));
    strcpy(address, "from the parent");
    part.address = address;
    EXPECT(NULL_POINTER, stitchpool_exporter_create(pool, NULL, NULL));
    EXPECT(SOCKET, stitchpool_exporter_create(pool, "/nowhere/at/all.sock", &exporter));
    EXPECT(OK, stitchpool_exporter_create(pool, NULL, &exporter));
    EXPECT(OK, stitchpool_exporter_serve(pool, exporter));
    EXPECT(INVALID_ARGUMENT, stitchpool_offer_create(pool, exporter, &part, 1, 7, &offer, &ticket));
    EXPECT(INVALID_SIZE, stitchpool_offer_create(pool, exporter, NULL, 0, STITCHPOOL_RIGHTS_READ, &offer, &ticket));
    EXPECT(NULL_POINTER, stitchpool_offer_create(pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ, &offer, NULL));
    EXPECT(INVALID_ARGUMENT, stitchpool_offer_create_together(pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ, 0,
                                                              SECOND, &offer, &ticket));
    EXPECT(OK, stitchpool_offer_create(pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ_WRITE, &offer, &ticket));
    EXPECT(OK, stitchpool_offer_create(pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ_WRITE, &second, &twin));
    CHECK(memcmp(&ticket, &twin, sizeof ticket) == 0);
    EXPECT(OK, stitchpool_offer_drop(pool, second));
    EXPECT(HELD, stitchpool_suspend(pool, NULL, NULL, NULL));
    stitchpool_ticket_info info = {.struct_size = sizeof info};
    EXPECT(OK, stitchpool_ticket_describe(&ticket, &info));
    CHECK(info.bytes == 2 * GRANULE && info.mapped_bytes == 2 * GRANULE && info.parts == 1 && info.ranks == 0);
    CHECK(info.pid == (uint32_t)getpid() && info.handle_kind == STITCHPOOL_HANDLE_FILE_DESCRIPTOR);
    twin.bytes[40] ^= 1;
    EXPECT(INVALID_ARGUMENT, stitchpool_ticket_describe(&twin, &info));
    SAYS("checksum");

    int to_child[2], from_child[2];
    CHECK(pipe(to_child) == 0 && pipe(from_child) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* What the parent has is nothing here. */
        EXPECT(INVALID_HANDLE, stitchpool_exporter_answer(pool, exporter, 0, NULL));
        dup2(to_child[0], 0);
        dup2(from_child[1], 1);
        close(to_child[1]);
        execl("/proc/self/exe", arguments[0], "importer", (char *)NULL);
        _exit(1);
    }
    close(from_child[1]);
    CHECK(write(to_child[1], &ticket, sizeof ticket) == sizeof ticket);
    char letter = 0;
    CHECK(read(from_child[0], &letter, 1) == 1 && letter == 'm');
    CHECK(strcmp((char *)address + GRANULE, "from the child") == 0);
    EXPECT(OK, stitchpool_offer_recall(pool, exporter, offer, 10 * SECOND));
    EXPECT(OK, stitchpool_suspend(pool, NULL, NULL, NULL));
    CHECK(write(to_child[1], &letter, 1) == 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* In one process too, and without a thread. */
    EXPECT(OK, stitchpool_resume(pool, NULL, NULL));
    EXPECT(OK, stitchpool_offer_drop(pool, offer));
    EXPECT(OK, stitchpool_offer_create(pool, exporter, &part, 1, STITCHPOOL_RIGHTS_READ, &offer, &ticket));
    stitchpool_importer *importer = NULL;
    stitchpool_import *import = NULL;
    stitchpool_hold *hold = NULL;
    EXPECT(NULL_POINTER, stitchpool_importer_connect(driver, NULL, SECOND, &importer));
    EXPECT(OK, stitchpool_importer_connect(driver, &ticket, 10 * SECOND, &importer));
    EXPECT(NO_RIGHTS, stitchpool_import_open(importer, &ticket, WRITE, 1, &import));
    EXPECT(OK, stitchpool_import_open(importer, &ticket, READ, 1, &import));
    EXPECT(OK, stitchpool_import_hold(importer, import, &hold));
    EXPECT(HELD, stitchpool_offer_recall(pool, exporter, offer, 20000));
    SAYS("process ");
    uint64_t gone = 0;
    EXPECT(OK, stitchpool_importer_poll(importer, 10 * SECOND, &gone));
    CHECK(gone == 1);
    EXPECT(OK, stitchpool_hold_drop(importer, hold));
    EXPECT(OK, stitchpool_offer_recall(pool, exporter, offer, 10 * SECOND));
    EXPECT(OK, stitchpool_import_drop(importer, import));
    EXPECT(OK, stitchpool_importer_close(importer));

    EXPECT(OK, stitchpool_offer_drop(pool, offer));
    EXPECT(OK, stitchpool_exporter_drop(pool, exporter));
    EXPECT(OK, stitchpool_free(pool, address));
    EXPECT(OK, stitchpool_pool_destroy(pool));
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("share: all as it should be");
    return 0;
}
