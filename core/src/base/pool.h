/* Worker threads for parallel phases. Waiting threads spin for a moment, then sleep. */
#ifndef HL_BASE_POOL_H
#define HL_BASE_POOL_H

struct pool;

/* Does unit number `unit` of a phase; thread is in [0, n_threads), for per-thread scratch. Units run in any
 * order, on any thread. */
typedef void pool_fn(void *arg, int unit, int thread);

/* n_threads counts the caller; NULL when threads or memory cannot be had. */
struct pool *pool_new(int n_threads);
void pool_free(struct pool *p);
int pool_threads(const struct pool *p);

/* Runs fn for units 0 .. n_units - 1 and returns when all are done. Not reentrant. */
void pool_run(struct pool *p, pool_fn *fn, void *arg, int n_units);

#endif
