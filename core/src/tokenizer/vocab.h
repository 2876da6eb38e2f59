/* The token list: bytes of each token, look-up by bytes, and the matcher for markers in text. */
#ifndef HL_TOKENIZER_VOCAB_H
#define HL_TOKENIZER_VOCAB_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"
#include "gguf/gguf.h"

/* A node of the markers' tree: one byte; siblings share the bytes before. */
struct marker_node {
    int32_t child, sibling; /* node index, 0: none */
    int32_t id;             /* of the token that ends here, -1: none */
    uint8_t byte;
};

struct vocab {
    struct mem *mem;
    bool has_spaces; /* U+2581 in text is a space (not byte-level) */
    int n;           /* tokens */
    uint8_t *types;  /* [n] enum token_type */
    uint32_t *at;    /* [n + 1] where a token's bytes begin */
    char *bytes;     /* [at[n]] */
    uint32_t max_n;  /* bytes of the longest token */
    uint32_t *slots; /* [n_slots] hash table over bytes: id + 1 */
    size_t n_slots;
    int32_t byte_ids[256];       /* token of a single byte, -1: none */
    struct marker_node *markers; /* [markers_room]; node 0 is the root */
    int n_markers, markers_room;
    int32_t first[256]; /* the root's child for a byte, 0: none */
};

/* Reads tokenizer.ggml.tokens and token_type. Tokens of a byte-level vocabulary are written in GPT-2's byte
 * alphabet, the others' with U+2581 for a space: here they become the bytes that they stand for. v is zeroed;
 * free it even on failure. */
hl_status vocab_load(struct vocab *v, struct mem *mem, const struct gguf *g, bool byte_level);
void vocab_free(struct vocab *v);

static inline const char *vocab_text(const struct vocab *v, int32_t id, size_t *n) {
    *n = v->at[id + 1] - v->at[id];
    return v->bytes + v->at[id];
}

/* The token that is exactly s: [n]; -1 when there is none. Markers, byte and unknown tokens are not found. */
int32_t vocab_find(const struct vocab *v, const uint8_t *s, size_t n);

/* The token of a GPT-2 byte-alphabet word, as in merges; -1 when there is none. */
int32_t vocab_find_encoded(const struct vocab *v, struct str word);

/* The longest marker at the start of s: [n] and its length; -1 when there is none. User-defined tokens are
 * always markers, control tokens when special is set. */
int32_t vocab_match_marker(const struct vocab *v, const uint8_t *s, size_t n, bool special, size_t *length);

#endif
