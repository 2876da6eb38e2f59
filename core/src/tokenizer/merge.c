#include "tokenizer/merge.h"

#include <assert.h>

enum { KEEP = 4096 }; /* symbols that stay reserved between texts */

static bool before(const struct pair *a, const struct pair *b) {
    return a->order != b->order ? a->order < b->order : a->at < b->at;
}

static hl_status push(struct merger *m, struct pair p) {
    if (m->n_heap == m->heap_room) {
        int32_t room = m->heap_room < KEEP ? KEEP : m->heap_room * 2;
        size_t size = sizeof p, old = (size_t)m->heap_room * size;
        struct pair *heap = mem_grow(m->mem, MEM_TOKENIZER, m->heap, old, mem_size((size_t)room, size));
        CHECK(heap, HL_EMEMORY, "tokenizer: no memory to merge %d pairs", m->n_heap);
        m->heap = heap;
        m->heap_room = room;
    }
    int32_t i = m->n_heap++;
    for (; i > 0 && before(&p, &m->heap[(i - 1) / 2]); i = (i - 1) / 2, m->steps++)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = p;
    return HL_OK;
}

static struct pair pop(struct merger *m) {
    struct pair top = m->heap[0], last = m->heap[--m->n_heap];
    int32_t i = 0, child;
    while ((child = 2 * i + 1) < m->n_heap) {
        if (child + 1 < m->n_heap && before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!before(&m->heap[child], &last)) break;
        m->heap[i] = m->heap[child];
        i = child;
        m->steps++;
    }
    m->heap[i] = last;
    return top;
}

hl_status merger_reserve(struct merger *m, size_t n) {
    CHECK(n <= INT32_MAX / 4, HL_EARGUMENT, "tokenizer: a word of %zu bytes is too long", n);
    if ((int32_t)n <= m->room) return HL_OK;
    size_t size = sizeof *m->symbols, room = n < KEEP ? KEEP : n;
    mem_free(m->mem, MEM_TOKENIZER, m->symbols, (size_t)m->room * size);
    m->room = 0;
    m->symbols = mem_alloc(m->mem, MEM_TOKENIZER, mem_size(room, size));
    CHECK(m->symbols, HL_EMEMORY, "tokenizer: no memory for a word of %zu bytes", n);
    m->room = (int32_t)room;
    return HL_OK;
}

/* Looks at the symbol at byte i and its right neighbour. */
static hl_status offer(struct merger *m, const uint8_t *text, int32_t i, merges_fn *merges, const void *ctx) {
    const struct symbol *a = &m->symbols[i], *b = &m->symbols[a->next];
    struct pair p = {.at = i, .n = a->n + b->n};
    m->steps++;
    return merges(ctx, a, b, text + i, &p.order, &p.id) ? push(m, p) : HL_OK;
}

hl_status merger_run(struct merger *m, const uint8_t *text, merges_fn *merges, const void *ctx) {
    struct symbol *symbols = m->symbols;
    m->n_heap = 0;
    m->n_merges = 0;
    for (int32_t i = 0; symbols[i].next >= 0; i = symbols[i].next) TRY(offer(m, text, i, merges, ctx));
    while (m->n_heap > 0) {
        struct pair p = pop(m);
        struct symbol *a = &symbols[p.at];
        /* Pairs are never taken out when a side changes: then their size does not fit any more. */
        if (a->n == 0 || a->next < 0 || a->n + symbols[a->next].n != p.n) continue;
        struct symbol *b = &symbols[a->next];
        *a = (struct symbol){a->prev, b->next, p.n, p.id};
        b->n = 0;
        b->id = m->n_merges++;
        if (a->next >= 0) {
            symbols[a->next].prev = p.at;
            TRY(offer(m, text, p.at, merges, ctx));
        }
        if (a->prev >= 0) TRY(offer(m, text, a->prev, merges, ctx));
    }
    return HL_OK;
}

void merger_free(struct merger *m) {
    if (!m->mem) return;
    mem_free(m->mem, MEM_TOKENIZER, m->symbols, (size_t)m->room * sizeof *m->symbols);
    mem_free(m->mem, MEM_TOKENIZER, m->heap, (size_t)m->heap_room * sizeof *m->heap);
    *m = (struct merger){.mem = m->mem};
}

void merger_trim(struct merger *m) {
    if (m->room <= KEEP && m->heap_room <= KEEP) return;
    size_t steps = m->steps;
    merger_free(m);
    m->steps = steps;
}
