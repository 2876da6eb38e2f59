/* Text to token ids and back, as the vocabulary in the file's metadata says. */
#ifndef HL_TOKENIZER_TOKENIZER_H
#define HL_TOKENIZER_TOKENIZER_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"
#include "gguf/gguf.h"

struct tokenizer;

/* As tokenizer.ggml.token_type has them. */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

struct token_ids {
    int bos, eos, eot, unk, pad; /* -1: none */
};

/* Builds the tokenizer from tokenizer.ggml.*; the gguf is not needed afterwards. Memory is MEM_TOKENIZER.
 * HL_EFORMAT (missing or contradictory entries), HL_EUNSUPPORTED (model or pre-tokenizer by name),
 * HL_EARGUMENT (forced, and it has none), HL_EMEMORY.
 *
 * forced  the pre-tokenizer to use instead of the one that the file names; NULL: the file's */
struct pretokenizer;
hl_status tokenizer_new(struct tokenizer **out, struct mem *mem, const struct gguf *g,
                        const struct pretokenizer *forced);
void tokenizer_free(struct tokenizer *t);

int tokenizer_n_vocab(const struct tokenizer *t);
struct token_ids tokenizer_ids(const struct tokenizer *t);
bool tokenizer_adds_bos(const struct tokenizer *t);
bool tokenizer_adds_eos(const struct tokenizer *t);
enum token_type tokenizer_type(const struct tokenizer *t, int32_t id);
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);

/* As hl_tokenize. */
int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, int flags, int32_t *ids, int capacity);

/* As hl_token_text: the token's bytes; NULL when id is out of range. */
const char *tokenizer_text(struct tokenizer *t, int32_t id, size_t *n);

/* Whether texts begin with a space that is not written (SentencePiece's dummy prefix). */
bool tokenizer_has_space_prefix(const struct tokenizer *t);

/* Steps (symbol pairs looked up and heap moves) that the last encode took: tests check that they grow
 * near-linearly. */
size_t tokenizer_steps(const struct tokenizer *t);

/* Whose memory it lives in. */
struct mem *tokenizer_mem(const struct tokenizer *t);

/* Streaming detokenizer, as hl_detokenizer_*. */
struct detokenizer;
struct detokenizer *detokenizer_new(struct tokenizer *t, int flags);
void detokenizer_free(struct detokenizer *d);
const char *detokenizer_push(struct detokenizer *d, int32_t id, size_t *n);
const char *detokenizer_flush(struct detokenizer *d, size_t *n);

#endif
