#include "base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 }; /* a cache line, and more than any vector load needs */

static void count(struct mem *m, enum mem_kind kind, size_t n) {
    size_t sum = 0;
    m->used[kind] += n;
    for (int i = 0; i < MEM_KINDS; i++) sum += m->used[i];
    if (sum > m->peak) m->peak = sum;
}

void *mem_alloc(struct mem *m, enum mem_kind kind, size_t n) {
    if (n > SIZE_MAX - 2 * ALIGN) return NULL;
    size_t rounded =
        n == 0 ? ALIGN : (n + ALIGN - 1) / ALIGN * ALIGN; /* what aligned_alloc asks of its size */
    void *p = aligned_alloc(ALIGN, rounded);
    if (p == NULL) return NULL;
    memset(p, 0, rounded);
    count(m, kind, n);
    return p;
}

void mem_free(struct mem *m, enum mem_kind kind, void *p, size_t n) {
    if (p == NULL) return;
    assert(m->used[kind] >= n);
    m->used[kind] -= n;
    free(p);
}

void *mem_grow(struct mem *m, enum mem_kind kind, void *p, size_t n, size_t n_new) {
    assert(n_new >= n);
    void *q = mem_alloc(m, kind, n_new);
    if (q == NULL) return NULL;
    if (n > 0) memcpy(q, p, n);
    mem_free(m, kind, p, n);
    return q;
}

size_t mem_size(size_t a, size_t b) { return a != 0 && b > SIZE_MAX / a ? SIZE_MAX : a * b; }
