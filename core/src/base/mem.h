/* The allocator: malloc with counts by purpose, so that what the caller is told are true bytes. */
#ifndef HL_BASE_MEM_H
#define HL_BASE_MEM_H

#include <stddef.h>

enum mem_kind { MEM_WEIGHTS, MEM_CACHE, MEM_SCRATCH, MEM_TOKENIZER, MEM_KINDS };

/* Counts of one model and its sessions. Zero-initialise. Used by one thread. */
struct mem {
    size_t used[MEM_KINDS]; /* bytes now, by kind */
    size_t peak;            /* largest sum of used so far */
};

/* n bytes (n may be 0), zeroed, aligned to 64; NULL when there is no memory. */
void *mem_alloc(struct mem *m, enum mem_kind kind, size_t n);

/* Gives back what mem_alloc(m, kind, n) returned; p may be NULL. */
void mem_free(struct mem *m, enum mem_kind kind, void *p, size_t n);

/* Moves to n_new bytes, the new ones zeroed; NULL when there is no memory, p is then still good. */
void *mem_grow(struct mem *m, enum mem_kind kind, void *p, size_t n, size_t n_new);

/* a * b, or SIZE_MAX when that does not fit. */
size_t mem_size(size_t a, size_t b);

#endif
