/* Byte-level BPE's first step: cuts a text into words that merges never cross. */
#ifndef HL_TOKENIZER_PRETOKENIZER_H
#define HL_TOKENIZER_PRETOKENIZER_H

#include <stdbool.h>

#include "base/status.h"
#include "gguf/gguf.h"

/* Length of the first piece of s: [n], n >= 1; at least 1. */
typedef size_t split_fn(const uint8_t *s, size_t n);

enum { MAX_STAGES = 6 };

/* A row for each value of tokenizer.ggml.pre. */
struct pretokenizer {
    const char *name;
    split_fn *stages[MAX_STAGES + 1]; /* each cuts the pieces of the one before; NULL behind the last */
    bool ignore_merges;               /* a word that is a token is taken without looking at merges */
    bool add_bos;                     /* where the file does not say */
    bool nfc;                         /* text is composed first (Unicode normalization form C) */
    bool is_alias;                    /* another row does the same */
};

/* NULL when the name is not known. */
const struct pretokenizer *pretokenizer_find(struct str name);

/* Names of all rows but aliases, separated by ", ", into out [size], terminated. */
void pretokenizer_names(char *out, size_t size);

/* Takes the word s: [n]. */
typedef hl_status word_fn(void *ctx, const uint8_t *s, size_t n);

/* Calls fn for the words of s: [n] in order; ends with the first status that is not HL_OK. */
hl_status pretokenize(const struct pretokenizer *p, const uint8_t *s, size_t n, word_fn *fn, void *ctx);

#endif
