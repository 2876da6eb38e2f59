/* Private to tokenizer/: the two encoders, byte-level BPE and SentencePiece BPE. Both turn a stretch of text
 * without markers into ids. */
#ifndef HL_TOKENIZER_ENCODER_H
#define HL_TOKENIZER_ENCODER_H

#include "tokenizer/merge.h"
#include "tokenizer/nfc.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/vocab.h"

/* Where ids go: counts all, keeps as many as fit. */
struct id_list {
    int32_t *ids; /* [capacity] */
    int64_t n, capacity;
};

static inline void id_list_add(struct id_list *out, int32_t id) {
    if (out->n < out->capacity) out->ids[out->n] = id;
    out->n++;
}

struct bpe_merge {
    int32_t left, right, id; /* tokens */
};

struct bpe {
    const struct vocab *vocab;
    const struct pretokenizer *pre;
    struct nfc *nfc;          /* NULL where text stays as it is */
    struct bpe_merge *merges; /* [n_merges], by rank */
    uint32_t *slots;          /* [n_slots] hash table over (left, right): rank + 1 */
    size_t n_slots;
    int n_merges;
};

/* Reads tokenizer.ggml.merges. b is zeroed; free it even on failure. */
hl_status bpe_load(struct bpe *b, const struct vocab *v, const struct pretokenizer *pre,
                   const struct gguf *g);
void bpe_free(struct bpe *b);
hl_status bpe_encode(const struct bpe *b, struct merger *m, const uint8_t *s, size_t n, struct id_list *out);

struct spm {
    const struct vocab *vocab;
    uint32_t *order;       /* [vocab->n] by score: the best has the lowest */
    bool space_after[256]; /* whether some token holds this byte and then a space */
    bool space_prefix;     /* text begins with a space that is not written */
    int32_t unk;
};

/* Reads tokenizer.ggml.scores. s is zeroed; free it even on failure. */
hl_status spm_load(struct spm *s, const struct vocab *v, const struct gguf *g, bool space_prefix,
                   int32_t unk);
void spm_free(struct spm *s);
hl_status spm_encode(const struct spm *s, struct merger *m, const uint8_t *text, size_t n,
                     struct id_list *out);

#endif
