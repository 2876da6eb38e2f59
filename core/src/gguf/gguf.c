#include "gguf/gguf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "gguf/parser.h"

struct gguf *gguf_new(struct mem *mem, const struct gguf_sink *sink) {
    struct gguf *g = mem_alloc(mem, MEM_SCRATCH, sizeof *g);
    if (g == NULL) return NULL;
    g->mem = mem;
    g->sink = *sink;
    return g;
}

void gguf_free(struct gguf *g) {
    if (g == NULL) return;
    struct mem *mem = g->mem;
    size_t n_values = (size_t)g->n_entries, n_tensors = (size_t)g->n_infos;
    mem_free(mem, MEM_TOKENIZER, g->head, g->head_cap);
    mem_free(mem, MEM_TOKENIZER, g->rest, g->rest_cap);
    mem_free(mem, MEM_TOKENIZER, g->entries, (size_t)g->cap_entries * sizeof *g->entries);
    mem_free(mem, MEM_TOKENIZER, g->marks, (size_t)g->cap_marks * sizeof *g->marks);
    mem_free(mem, MEM_TOKENIZER, g->infos, (size_t)g->cap_infos * sizeof *g->infos);
    mem_free(mem, MEM_TOKENIZER, g->keys, n_values * sizeof *g->keys);
    mem_free(mem, MEM_TOKENIZER, g->names, n_tensors * sizeof *g->names);
    mem_free(mem, MEM_TOKENIZER, g->order, n_tensors * sizeof *g->order);
    mem_free(mem, MEM_SCRATCH, g, sizeof *g);
}

/* Makes the first failure final and remembers its words. */
static hl_status settle(struct gguf *g, hl_status status) {
    assert(status != NEED_MORE);
    if (status == HL_OK || g->status != HL_OK) return status;
    g->status = status;
    snprintf(g->message, sizeof g->message, "%s", status_message());
    return status;
}

static hl_status failed_before(const struct gguf *g) {
    return g->status == HL_OK ? HL_OK : status_set(g->status, "%s", g->message);
}

static bool in_header(const struct gguf *g) { return g->stage < STAGE_DATA; }

/* ---- header ---- */

static hl_status grow_head(struct gguf *g) {
    if (g->head_n < g->head_cap) return HL_OK;
    CHECK(g->head_cap < MAX_HEADER, HL_EFORMAT, "gguf: the header has more than %zu bytes", MAX_HEADER);
    size_t cap = g->head_cap == 0 ? FIRST_WINDOW : 2 * g->head_cap;
    uint8_t *grown = mem_grow(g->mem, MEM_TOKENIZER, g->head, g->head_cap, cap);
    CHECK(grown != NULL, HL_EMEMORY, "gguf: no memory for %zu bytes of header", cap);
    g->head = grown;
    g->head_cap = cap;
    return HL_OK;
}

/* Keeps exactly the header's bytes; what arrived behind them waits in rest. */
static hl_status trim_head(struct gguf *g) {
    uint8_t *exact = mem_alloc(g->mem, MEM_TOKENIZER, g->pos);
    CHECK(exact != NULL, HL_EMEMORY, "gguf: no memory for %zu bytes of header", g->pos);
    memcpy(exact, g->head, g->pos);
    g->rest = g->head;
    g->rest_cap = g->head_cap;
    g->rest_n = g->head_n;
    g->rest_pos = g->pos;
    g->head = exact;
    g->head_cap = g->head_n = g->pos;
    return HL_OK;
}

static void free_rest(struct gguf *g) {
    mem_free(g->mem, MEM_TOKENIZER, g->rest, g->rest_cap);
    g->rest = NULL;
}

static hl_status parse_header(struct gguf *g) {
    hl_status status = header_parse(g);
    if (status == NEED_MORE) return HL_OK;
    TRY(status);
    TRY(trim_head(g));
    TRY(header_index(g));
    g->at = g->pos;
    g->stage = g->n_infos > 0 ? STAGE_DATA : STAGE_END;
    return g->sink.header(g->sink.ctx, g);
}

/* ---- data ---- */

static const struct gguf_tensor *current(const struct gguf *g) {
    return &g->infos[g->order[g->next].index].tensor;
}

static uint64_t start_of(const struct gguf *g, const struct gguf_tensor *t) {
    return g->data_start + t->offset;
}

/* Where the next data bytes go, and how many of them (as far as size_t reaches). */
static hl_status next_place(struct gguf *g, uint8_t **p, size_t *size) {
    const struct gguf_tensor *t = current(g);
    uint64_t start = start_of(g, t), want = start - g->at;
    if (g->at >= start) {
        if (!g->begun) TRY(g->sink.begin(g->sink.ctx, g, g->order[g->next].index, &g->dst));
        g->begun = true;
        want = start + t->n_bytes - g->at;
    }
    bool skipped = !g->begun || g->dst == NULL;
    *p = skipped ? g->skip : g->dst + (size_t)(g->at - start);
    *size = skipped && want > SKIP_WINDOW ? SKIP_WINDOW : (size_t)want;
    return HL_OK;
}

/* n bytes are where next_place wanted them. */
static hl_status place_bytes(struct gguf *g, size_t n) {
    const struct gguf_tensor *t = current(g);
    g->at += n;
    if (!g->begun || g->at < start_of(g, t) + t->n_bytes) return HL_OK;
    g->begun = false;
    g->dst = NULL;
    TRY(g->sink.done(g->sink.ctx, g, g->order[g->next].index));
    if (++g->next == g->n_infos) g->stage = STAGE_END;
    return HL_OK;
}

/* Deals out the data bytes that arrived in one piece with the header's end. */
static hl_status place_rest(struct gguf *g) {
    if (g->rest == NULL) return HL_OK;
    while (g->stage == STAGE_DATA && g->rest_pos < g->rest_n) {
        uint8_t *p;
        size_t size, n = g->rest_n - g->rest_pos;
        TRY(next_place(g, &p, &size));
        if (n > size) n = size;
        memcpy(p, g->rest + g->rest_pos, n);
        g->rest_pos += n;
        TRY(place_bytes(g, n));
    }
    free_rest(g);
    return HL_OK;
}

/* ---- the three calls ---- */

static hl_status open_window(struct gguf *g, uint8_t **p, size_t *size) {
    TRY(failed_before(g));
    if (in_header(g)) {
        TRY(grow_head(g));
        *p = g->head + g->head_n;
        *size = g->head_cap - g->head_n < MAX_WINDOW ? g->head_cap - g->head_n : MAX_WINDOW;
        return HL_OK;
    }
    TRY(place_rest(g));
    *p = g->skip;
    *size = 0;
    return g->stage == STAGE_END ? HL_OK : next_place(g, p, size);
}

uint8_t *gguf_window(struct gguf *g, size_t *size) {
    uint8_t *p = NULL;
    *size = 0;
    if (settle(g, open_window(g, &p, size)) != HL_OK) return NULL;
    g->window = *size;
    return p;
}

hl_status gguf_commit(struct gguf *g, size_t n) {
    TRY(failed_before(g));
    CHECK(n <= g->window, HL_EARGUMENT, "gguf: %zu bytes committed; the window has %zu", n, g->window);
    g->window = 0;
    if (n == 0) return HL_OK;
    g->arrived += n;
    if (!in_header(g)) return settle(g, place_bytes(g, n));
    g->head_n += n;
    return settle(g, parse_header(g));
}

static hl_status check_complete(struct gguf *g) {
    unsigned long long arrived = g->arrived;
    if (arrived < 4) return header_refuse_magic(g->head, (size_t)arrived);
    CHECK(!in_header(g), HL_ETRUNCATED,
          "gguf: the file ends after %llu bytes, inside its header: not a complete GGUF file", arrived);
    TRY(place_rest(g));
    CHECK(g->stage == STAGE_END, HL_ETRUNCATED,
          "gguf: the file ends after %llu of %llu bytes, before the end of tensor '%s'", arrived,
          (unsigned long long)g->file_bytes, gguf_label(current(g)->name).text);
    return HL_OK;
}

hl_status gguf_finish(struct gguf *g) {
    TRY(failed_before(g));
    return settle(g, check_complete(g));
}

bool gguf_has_header(const struct gguf *g) { return !in_header(g); }

bool gguf_complete(const struct gguf *g) { return g->stage == STAGE_END && g->status == HL_OK; }
