#include "base/pool.h"

#include <stdatomic.h>

#include "model_file.h"

enum { MAX_UNITS = 1000 };

struct count {
    _Atomic int units[MAX_UNITS];
    _Atomic int bad_thread;
    int n_threads;
};

static void count_unit(void *arg, int unit, int thread) {
    struct count *c = arg;
    atomic_fetch_add(&c->units[unit], 1);
    if (thread < 0 || thread >= c->n_threads) atomic_store(&c->bad_thread, 1);
}

TEST(every_unit_of_every_phase_runs_once) {
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        struct pool *p = pool_new(threads);
        REQUIRE(p);
        EXPECT_EQ(pool_threads(p), threads);
        for (int round = 0; round < 300; round++) {
            int n = round % 7 == 0 ? MAX_UNITS : round % 5;
            struct count c = {.n_threads = threads};
            pool_run(p, count_unit, &c, n);
            for (int i = 0; i < MAX_UNITS; i++) EXPECT_EQ(c.units[i], i < n);
            EXPECT_EQ(c.bad_thread, 0);
        }
        pool_free(p);
    }
}

TEST(a_pool_that_slept_wakes_up) {
    struct pool *p = pool_new(TEST_THREADS);
    REQUIRE(p);
    for (int round = 0; round < 5; round++) {
        volatile int wait = 0;
        while (wait < 2000000) wait = wait + 1; /* longer than workers spin */
        struct count c = {.n_threads = TEST_THREADS};
        pool_run(p, count_unit, &c, 100);
        for (int i = 0; i < 100; i++) EXPECT_EQ(c.units[i], 1);
    }
    pool_free(p);
}

TEST(a_pool_that_never_worked_ends) { pool_free(pool_new(TEST_THREADS)); }
