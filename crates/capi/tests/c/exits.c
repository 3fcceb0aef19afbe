/* The end of a process whose pool is static and never closed: in the parent, and in the child of a fork. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static stitchpool_driver *driver;
static stitchpool_pool *pool;
static unsigned char *block, *second;
static pid_t parent;

/* Runs in both processes, after all of main, as destructors of static objects do. The words of a refusal are the
 * thread's, which has no place for them any more: they say what the status means. The block and the pool are left to
 * the end of the process. */
static void free_at_exit(void) {
    if (getpid() == parent) {
        EXPECT(OK, stitchpool_free(pool, second));
        EXPECT(UNKNOWN_ADDRESS, stitchpool_free(pool, second));
        SAYS("Not the address of a live block.");
    } else {
        EXPECT(INVALID_HANDLE, stitchpool_free(pool, second));
        SAYS("Not an open driver or pool");
        EXPECT(INVALID_HANDLE, stitchpool_pool_destroy(pool));
        EXPECT(INVALID_HANDLE, stitchpool_driver_close(driver));
    }
}

__attribute__((destructor)) static void after_all_handlers(void) {
    if (getpid() == parent) CHECK(block[0] == 7 && block[4 * MIB - 1] == 7);
}

static int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

int main(void) {
    stitchpool_stream stream;
    pid_t child;
    parent = getpid();
    CHECK(atexit(free_at_exit) == 0);
    driver = small_driver(1, 64 * MIB);
    pool = small_pool(driver);
    stream = stream_on(driver, pool, 0);
    EXPECT(OK, stitchpool_alloc(pool, stream, 4 * MIB, (void **)&block));
    EXPECT(OK, stitchpool_alloc(pool, stream, 4 * MIB, (void **)&second));
    memset(block, 7, 4 * MIB);

    child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(0); /* with all handlers */
    CHECK(status_of(child) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(0); /* with none */
    CHECK(status_of(child) == 0);
    CHECK(block[0] == 7 && block[4 * MIB - 1] == 7);
    CHECK(stats_of(pool).live_blocks == 2);
    printf("exits: all as it should be\n");
    return 0;
}
