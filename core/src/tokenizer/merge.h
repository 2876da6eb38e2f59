/* Merging neighbours, best pair first: what both kinds of BPE share. O(n log n) with a heap, no recursion. */
#ifndef HL_TOKENIZER_MERGE_H
#define HL_TOKENIZER_MERGE_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"

/* A stretch of the word that will be one token. It is known by its first byte: symbols[i] begins at byte
 * i. */
struct symbol {
    int32_t prev, next; /* first bytes of the neighbours, -1: none */
    int32_t n;          /* bytes; 0 when merged into the one before, or inside a symbol from the start */
    int32_t id;         /* token, -1: none; when merged away: the number of that merge, counted from 0 */
};

/* Two neighbours that can merge. */
struct pair {
    uint32_t order; /* lower ones first, then from left to right */
    int32_t at;     /* the left one's first byte */
    int32_t n;      /* bytes of both */
    int32_t id;     /* the token they become */
};

struct merger {
    struct mem *mem;
    struct symbol *symbols; /* [room] */
    struct pair *heap;      /* [heap_room] */
    int32_t room, heap_room, n_heap, n_merges;
    size_t steps; /* pairs looked up and heap moves, over all words since the caller set it to 0 */
};

/* Whether symbols a and b, its right neighbour, merge; a begins at text. Sets order and id. */
typedef bool merges_fn(const void *ctx, const struct symbol *a, const struct symbol *b, const uint8_t *text,
                       uint32_t *order, int32_t *id);

/* Makes room for the symbols of a word of n bytes; the caller then fills those that begin a symbol.
 * HL_EMEMORY. */
hl_status merger_reserve(struct merger *m, size_t n);

/* Merges the symbols of text until none fit; the first begins at byte 0. HL_EMEMORY. */
hl_status merger_run(struct merger *m, const uint8_t *text, merges_fn *merges, const void *ctx);

/* Gives back buffers beyond what ordinary words need. */
void merger_trim(struct merger *m);
void merger_free(struct merger *m);

#endif
