#include "base/pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/profile.h"

#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)

/* Builds without shared memory: the caller does everything. */
struct pool {
    int n_threads;
};

struct pool *pool_new(int n_threads) {
    struct pool *p = n_threads == 1 ? malloc(sizeof *p) : NULL;
    if (p) p->n_threads = 1;
    return p;
}

void pool_free(struct pool *p) { free(p); }

int pool_threads(const struct pool *p) { return p->n_threads; }

void pool_run(struct pool *p, pool_fn *fn, void *arg, int n_units) {
    (void)p;
    for (int unit = 0; unit < n_units; unit++) fn(arg, unit, 0);
}

#else

#include <pthread.h>

enum {
    SPINS = 4000
}; /* looks at a word before sleeping on it: some 10 us, longer than the serial code between two phases */

struct worker {
    pthread_t thread;
    struct pool *pool;
    int index;
};

/* A phase is published by writing fn and arg and then `ticket`: its number in the high half, the units nobody
 * has taken yet in the low half. Whoever takes a unit by compare-and-swap pins the phase until the unit is
 * done, so a worker that comes late (it was descheduled) finds nothing to take and nobody waits for it. */
struct pool {
    int n_threads, n_started;
    pool_fn *fn;
    void *arg;
    int n_units;
    _Atomic uint64_t ticket;
    _Atomic int phase;    /* what idle workers sleep on; changes with every phase */
    _Atomic int sleepers; /* workers asleep or about to be */
    _Atomic int done;     /* finished units of this phase: what the caller sleeps on */
    _Atomic bool caller_sleeps, quit;
#ifndef __EMSCRIPTEN__
    pthread_mutex_t mutex;
    pthread_cond_t changed;
#endif
    struct worker workers[];
};

/* Sleeps while *word == seen (it may also return early), and wakes everyone who does. */
#ifdef __EMSCRIPTEN__
static void word_wait(struct pool *p, _Atomic int *word, int seen) {
    (void)p;
    __builtin_wasm_memory_atomic_wait32((int *)word, seen, -1);
}

static void word_wake(struct pool *p, _Atomic int *word) {
    (void)p;
    __builtin_wasm_memory_atomic_notify((int *)word, UINT32_MAX);
}
#else
static void word_wait(struct pool *p, _Atomic int *word, int seen) {
    pthread_mutex_lock(&p->mutex);
    while (atomic_load(word) == seen) pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

static void word_wake(struct pool *p, _Atomic int *word) {
    (void)word;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}
#endif

static bool has_units(struct pool *p) {
    return (uint32_t)atomic_load_explicit(&p->ticket, memory_order_relaxed) != 0;
}

/* Takes units until none is left. */
static void work(struct pool *p, int thread) {
    uint64_t ticket = atomic_load(&p->ticket);
    while ((uint32_t)ticket != 0) {
        if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1)) continue;
        int n_units = p->n_units;
        p->fn(p->arg, n_units - (int)(uint32_t)ticket, thread);
        if (atomic_fetch_add(&p->done, 1) + 1 == n_units && atomic_load(&p->caller_sleeps))
            word_wake(p, &p->done);
        ticket = atomic_load(&p->ticket);
    }
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    struct pool *p = w->pool;
    while (!atomic_load(&p->quit)) {
        int phase = atomic_load(&p->phase);
        work(p, w->index);
        int spins = 0;
        while (atomic_load_explicit(&p->phase, memory_order_relaxed) == phase && spins < SPINS) spins++;
        if (spins < SPINS) continue;
        atomic_fetch_add(&p->sleepers, 1);
        if (!atomic_load(&p->quit) && !has_units(p)) word_wait(p, &p->phase, phase);
        atomic_fetch_sub(&p->sleepers, 1);
    }
    return NULL;
}

static void next_phase(struct pool *p) {
    atomic_fetch_add(&p->phase, 1);
    if (atomic_load(&p->sleepers) > 0) word_wake(p, &p->phase);
}

struct pool *pool_new(int n_threads) {
    struct pool *p = calloc(1, sizeof *p + (size_t)n_threads * sizeof p->workers[0]);
    if (!p) return NULL;
    p->n_threads = n_threads;
#ifndef __EMSCRIPTEN__
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
#endif
    for (int i = 1; i < n_threads; i++) {
        struct worker *w = &p->workers[i];
        w->pool = p;
        w->index = i;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            pool_free(p);
            return NULL;
        }
        p->n_started++;
    }
    return p;
}

void pool_free(struct pool *p) {
    if (!p) return;
    atomic_store(&p->quit, true);
    next_phase(p);
    for (int i = 1; i <= p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
#ifndef __EMSCRIPTEN__
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
#endif
    free(p);
}

int pool_threads(const struct pool *p) { return p->n_threads; }

void pool_run(struct pool *p, pool_fn *fn, void *arg, int n_units) {
    if (n_units <= 1 || p->n_threads == 1) {
        for (int unit = 0; unit < n_units; unit++) fn(arg, unit, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->n_units = n_units;
    atomic_store(&p->done, 0);
    uint64_t number = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store(&p->ticket, number << 32 | (uint32_t)n_units);
    next_phase(p);
    work(p, 0);
    PROFILE(WAIT);
    for (int spins = 0; spins < SPINS && atomic_load(&p->done) != n_units; spins++) continue;
    atomic_store(&p->caller_sleeps, true);
    for (int done; (done = atomic_load(&p->done)) != n_units;) word_wait(p, &p->done, done);
    atomic_store(&p->caller_sleeps, false);
    PROFILE(RESUME);
}

#endif
