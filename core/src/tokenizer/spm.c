/* SentencePiece's BPE: neighbours merge when their text is a token, the one of the highest score first;
 * characters that are no tokens fall back to bytes. Source: Kudo and Richardson 2018, arXiv 1808.06226. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "base/utf8.h"
#include "tokenizer/encoder.h"
#include "tokenizer/tokenizer.h"

/* Maps scores to integers of the opposite order. */
static uint32_t order_of(float score) {
    uint32_t bits = f32_bits(score + 0.0f); /* -0 becomes 0 */
    return bits >> 31 ? bits : bits ^ 0x7fffffffu;
}

/* A word can end where a space follows a byte that no token holds before a space: no merge crosses that
 * place. */
static void find_inner_spaces(struct spm *s) {
    const struct vocab *v = s->vocab;
    for (int id = 0; id < v->n; id++) {
        size_t n;
        const char *text = vocab_text(v, id, &n);
        for (size_t i = 1; i < n; i++)
            if (text[i] == ' ') s->space_after[(uint8_t)text[i - 1]] = true;
    }
}

hl_status spm_load(struct spm *s, const struct vocab *v, const struct gguf *g, bool space_prefix,
                   int32_t unk) {
    s->vocab = v;
    s->space_prefix = space_prefix;
    s->unk = unk;
    int at = gguf_find(g, "tokenizer.ggml.scores", strlen("tokenizer.ggml.scores"));
    CHECK(at >= 0, HL_EFORMAT, "tokenizer: tokenizer.ggml.scores is missing");
    struct gguf_value value = gguf_value(g, at);
    CHECK(value.is_array && value.n == v->n, HL_EFORMAT, "tokenizer: %d scores for %d tokens", value.n, v->n);
    s->order = mem_alloc(v->mem, MEM_TOKENIZER, mem_size((size_t)v->n, sizeof *s->order));
    CHECK(s->order, HL_EMEMORY, "tokenizer: no memory for %d scores", v->n);
    for (int i = 0; i < v->n; i++) {
        double score = gguf_number(g, at, i);
        CHECK(!isnan(score), HL_EFORMAT, "tokenizer: the score of token %d is no number", i);
        s->order[i] = order_of((float)score);
    }
    find_inner_spaces(s);
    return HL_OK;
}

void spm_free(struct spm *s) {
    if (s->vocab) mem_free(s->vocab->mem, MEM_TOKENIZER, s->order, (size_t)s->vocab->n * sizeof *s->order);
}

static bool spm_merges(const void *ctx, const struct symbol *a, const struct symbol *b, const uint8_t *text,
                       uint32_t *order, int32_t *id) {
    const struct spm *spm = ctx;
    *id = vocab_find(spm->vocab, text, (size_t)(a->n + b->n));
    if (*id < 0) return false;
    *order = spm->order[*id];
    return true;
}

/* One symbol for each character of s: [n]. */
static void set_symbols(const struct spm *spm, struct symbol *symbols, const uint8_t *s, int32_t n) {
    int32_t prev = -1;
    for (int32_t i = 0; i < n;) {
        uint32_t cp;
        int length = utf8_decode(s + i, (size_t)(n - i), &cp);
        if (length == 0) length = 1;
        int32_t id = vocab_find(spm->vocab, s + i, (size_t)length);
        symbols[i] = (struct symbol){prev, i + length < n ? i + length : -1, length, id};
        for (int k = 1; k < length; k++) symbols[i + k] = (struct symbol){-1, -1, 0, -1};
        prev = i;
        i += length;
    }
}

/* Adds the token of s: [n], a whole symbol; without one its bytes, and where these are no tokens, the unknown
 * token. */
static void add_piece(const struct spm *spm, const uint8_t *s, size_t n, int32_t id, struct id_list *out) {
    const int32_t *bytes = spm->vocab->byte_ids;
    size_t known = 0;
    if (id >= 0 && spm->vocab->types[id] != TOKEN_UNUSED) {
        id_list_add(out, id);
        return;
    }
    while (known < n && bytes[s[known]] >= 0) known++;
    if (known == n) {
        for (size_t i = 0; i < n; i++) id_list_add(out, bytes[s[i]]);
    } else if (spm->unk >= 0) {
        id_list_add(out, spm->unk);
    }
}

/* Unused tokens take part in merging but are none: they come apart again where their parts were merged last.
 * The places between characters inside the symbol at start know by their ids when they were merged. */
static void add_unused(const struct spm *spm, const struct symbol *symbols, const uint8_t *s, int32_t start,
                       int32_t n, struct id_list *out) {
    int32_t all = start + n;
    while (start < all) {
        int32_t end = all;
        for (int32_t i = start + 1; i < end; i++) /* the part of the enclosing merge that begins here */
            if (start > all - n && symbols[i].id > symbols[start].id) end = i;
        int32_t id = vocab_find(spm->vocab, s + start, (size_t)(end - start));
        while (id >= 0 && spm->vocab->types[id] == TOKEN_UNUSED) {
            int32_t cut = -1;
            for (int32_t i = start + 1; i < end; i++)
                if (symbols[i].id >= 0 && (cut < 0 || symbols[i].id > symbols[cut].id)) cut = i;
            if (cut < 0) break;
            end = cut;
            id = vocab_find(spm->vocab, s + start, (size_t)(end - start));
        }
        add_piece(spm, s + start, (size_t)(end - start), id, out);
        start = end;
    }
}

static hl_status encode_word(const struct spm *spm, struct merger *m, const uint8_t *s, size_t n,
                             struct id_list *out) {
    TRY(merger_reserve(m, n));
    set_symbols(spm, m->symbols, s, (int32_t)n);
    TRY(merger_run(m, s, spm_merges, spm));
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        const struct symbol *a = &m->symbols[i];
        if (a->id >= 0 && spm->vocab->types[a->id] == TOKEN_UNUSED)
            add_unused(spm, m->symbols, s, i, a->n, out);
        else add_piece(spm, s + i, (size_t)a->n, a->id, out);
    }
    return HL_OK;
}

/* Copies text: [n] behind the space prefix with spaces for U+2581; returns the length. */
static size_t write_spaces(const struct spm *spm, const uint8_t *text, size_t n, uint8_t *out) {
    size_t at = 0;
    if (spm->space_prefix) out[at++] = ' ';
    for (size_t i = 0; i < n;) {
        bool space = n - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        out[at++] = space ? ' ' : text[i];
        i += space ? 3 : 1;
    }
    return at;
}

hl_status spm_encode(const struct spm *spm, struct merger *m, const uint8_t *text, size_t n,
                     struct id_list *out) {
    struct mem *mem = spm->vocab->mem;
    uint8_t *s = mem_alloc(mem, MEM_SCRATCH, n + 1);
    CHECK(s, HL_EMEMORY, "tokenizer: no memory for a text of %zu bytes", n);
    size_t length = write_spaces(spm, text, n, s), start = 0;
    hl_status status = HL_OK;
    for (size_t i = 1; i <= length && status == HL_OK; i++) {
        if (i < length && (s[i] != ' ' || spm->space_after[s[i - 1]])) continue;
        status = encode_word(spm, m, s + start, i - start, out);
        start = i;
    }
    mem_free(mem, MEM_SCRATCH, s, n + 1);
    return status;
}
