/* Threads use a pool while another destroys it: each call is served whole or refused whole. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 40 };

struct shared {
    stitchpool_pool *pool;
    stitchpool_stream stream;
    int leaking;
};

/* Allocates and frees until the pool is gone. */
static void *use_until_gone(void *user_data) {
    const struct shared *shared = user_data;
    for (;;) {
        void *block = NULL;
        stitchpool_status status = stitchpool_alloc(shared->pool, shared->stream, 4096, &block);
        if (status == STITCHPOOL_INVALID_HANDLE) return NULL;
        EXPECT(OK, status);
        ((unsigned char *)block)[4095] = 1;
        status = stitchpool_free(shared->pool, block);
        if (shared->leaking && status == STITCHPOOL_INVALID_HANDLE) return NULL;
        EXPECT(OK, status);
        sched_yield();
    }
}

int main(void) {
    stitchpool_driver *driver = small_driver(1, 64 * MIB);
    for (int round = 0; round < ROUNDS; round++) {
        struct shared shared = {small_pool(driver), 0, round % 2};
        pthread_t threads[THREADS];
        shared.stream = stream_on(driver, shared.pool, 0);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, use_until_gone, &shared) == 0);
        if (shared.leaking) {
            EXPECT(OK, stitchpool_pool_destroy_leaking(shared.pool));
        } else {
            /* Refused while a block is live, which never becomes one that nobody can free. */
            stitchpool_status status;
            do status = stitchpool_pool_destroy(shared.pool);
            while (status == STITCHPOOL_IN_USE);
            EXPECT(OK, status);
        }
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
        EXPECT(INVALID_HANDLE, stitchpool_pool_destroy(shared.pool));
    }
    EXPECT(OK, stitchpool_driver_close(driver));
    puts("threads: all as it should be");
    return 0;
}
