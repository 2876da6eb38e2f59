/* Byte-level BPE. Source: Sennrich et al. 2016, arXiv 1508.07909; on bytes: GPT-2. */
#include <assert.h>
#include <string.h>

#include "tokenizer/encoder.h"
#include "tokenizer/tokenizer.h"

static size_t slot_of(const struct bpe *b, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32) & (b->n_slots - 1);
}

/* Rank of the merge of two tokens; -1 when there is none. */
static int find_merge(const struct bpe *b, int32_t left, int32_t right) {
    for (size_t slot = slot_of(b, left, right); b->slots[slot]; slot = (slot + 1) & (b->n_slots - 1)) {
        int rank = (int)(b->slots[slot] - 1);
        if (b->merges[rank].left == left && b->merges[rank].right == right) return rank;
    }
    return -1;
}

/* The token of left and right together; -1 when there is none. */
static int32_t joined(const struct bpe *b, int32_t left, int32_t right) {
    size_t n_left, n_right;
    const struct vocab *v = b->vocab;
    const char *l = vocab_text(v, left, &n_left), *r = vocab_text(v, right, &n_right);
    uint8_t room[512];
    if (n_left + n_right > v->max_n) return -1;
    uint8_t *both = n_left + n_right <= sizeof room ? room : mem_alloc(v->mem, MEM_SCRATCH, n_left + n_right);
    if (!both) return -1;
    memcpy(both, l, n_left);
    memcpy(both + n_left, r, n_right);
    int32_t id = vocab_find(v, both, n_left + n_right);
    if (both != room) mem_free(v->mem, MEM_SCRATCH, both, n_left + n_right);
    return id;
}

/* Reads merge i, "left right" in GPT-2's alphabet. One whose parts or result are no tokens can never apply
 * and is left out. */
static void load_merge(struct bpe *b, struct str s, int i) {
    struct bpe_merge *m = &b->merges[i];
    *m = (struct bpe_merge){-1, -1, -1};
    const char *space = s.n > 1 ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
    if (!space) return;
    size_t n = (size_t)(space - s.p);
    m->left = vocab_find_encoded(b->vocab, (struct str){s.p, n});
    m->right = vocab_find_encoded(b->vocab, (struct str){space + 1, s.n - n - 1});
    if (m->left < 0 || m->right < 0) return;
    m->id = joined(b, m->left, m->right);
    if (m->id < 0 || find_merge(b, m->left, m->right) >= 0) return;
    size_t slot = slot_of(b, m->left, m->right);
    while (b->slots[slot]) slot = (slot + 1) & (b->n_slots - 1);
    b->slots[slot] = (uint32_t)i + 1;
}

hl_status bpe_load(struct bpe *b, const struct vocab *v, const struct pretokenizer *pre,
                   const struct gguf *g) {
    b->vocab = v;
    b->pre = pre;
    if (pre->nfc) {
        b->nfc = nfc_new(v->mem);
        CHECK(b->nfc, HL_EMEMORY, "tokenizer: no memory for the Unicode tables");
    }
    int at = gguf_find(g, "tokenizer.ggml.merges", strlen("tokenizer.ggml.merges"));
    CHECK(at >= 0, HL_EFORMAT, "tokenizer: tokenizer.ggml.merges is missing");
    struct gguf_value value = gguf_value(g, at);
    CHECK(value.is_array && value.type == HL_META_STRING, HL_EFORMAT,
          "tokenizer: tokenizer.ggml.merges is no list of texts");
    b->n_merges = value.n;
    b->n_slots = 16;
    while (b->n_slots < (size_t)b->n_merges * 2) b->n_slots *= 2;
    b->merges = mem_alloc(v->mem, MEM_TOKENIZER, mem_size((size_t)b->n_merges, sizeof *b->merges));
    b->slots = mem_alloc(v->mem, MEM_TOKENIZER, mem_size(b->n_slots, sizeof *b->slots));
    CHECK(b->merges && b->slots, HL_EMEMORY, "tokenizer: no memory for %d merges", b->n_merges);
    for (int i = 0; i < b->n_merges; i++) load_merge(b, gguf_string(g, at, i), i);
    return HL_OK;
}

void bpe_free(struct bpe *b) {
    if (!b->vocab) return;
    struct mem *mem = b->vocab->mem;
    nfc_free(b->nfc);
    mem_free(mem, MEM_TOKENIZER, b->merges, (size_t)b->n_merges * sizeof *b->merges);
    mem_free(mem, MEM_TOKENIZER, b->slots, b->n_slots * sizeof *b->slots);
}

static bool bpe_merges(const void *ctx, const struct symbol *a, const struct symbol *b, const uint8_t *text,
                       uint32_t *order, int32_t *id) {
    const struct bpe *bpe = ctx;
    (void)text;
    int rank = a->id >= 0 && b->id >= 0 ? find_merge(bpe, a->id, b->id) : -1;
    if (rank < 0) return false;
    *order = (uint32_t)rank;
    *id = bpe->merges[rank].id;
    return true;
}

struct word_sink {
    const struct bpe *bpe;
    struct merger *merger;
    struct id_list *out;
};

static hl_status encode_word(void *ctx, const uint8_t *s, size_t n) {
    struct word_sink *sink = ctx;
    const struct bpe *b = sink->bpe;
    struct merger *m = sink->merger;
    int32_t whole = b->pre->ignore_merges ? vocab_find(b->vocab, s, n) : -1;
    if (whole >= 0) {
        id_list_add(sink->out, whole);
        return HL_OK;
    }
    TRY(merger_reserve(m, n));
    for (int32_t i = 0; i < (int32_t)n; i++)
        m->symbols[i] = (struct symbol){i - 1, i + 1 < (int32_t)n ? i + 1 : -1, 1, b->vocab->byte_ids[s[i]]};
    TRY(merger_run(m, s, bpe_merges, b));
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        /* A byte without a token is left out, as Hugging Face's tokenizers do: the unknown token would end
         * the text. */
        if (m->symbols[i].id >= 0) id_list_add(sink->out, m->symbols[i].id);
    }
    return HL_OK;
}

hl_status bpe_encode(const struct bpe *b, struct merger *m, const uint8_t *s, size_t n, struct id_list *out) {
    struct word_sink sink = {b, m, out};
    if (b->nfc) TRY(nfc_compose(b->nfc, s, n, &s, &n));
    return pretokenize(b->pre, s, n, encode_word, &sink);
}
