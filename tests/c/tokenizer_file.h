/* Tokenizers out of GGUF files or bytes, of which only the header is read. */
#ifndef HL_TEST_TOKENIZER_FILE_H
#define HL_TEST_TOKENIZER_FILE_H

#include <stdio.h>
#include <string.h>

#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

static inline hl_status header_ignored(void *ctx, const struct gguf *g) {
    (void)ctx, (void)g;
    return HL_OK;
}

static inline hl_status begin_skipped(void *ctx, const struct gguf *g, int i, uint8_t **dst) {
    (void)ctx, (void)g, (void)i;
    *dst = NULL;
    return HL_OK;
}

static inline hl_status done_ignored(void *ctx, const struct gguf *g, int i) {
    (void)ctx, (void)g, (void)i;
    return HL_OK;
}

/* Copies the next part of a file to dst: [room]; returns how much, 0 at the end. */
typedef size_t read_fn(void *ctx, uint8_t *dst, size_t room);

/* The tokenizer in the file that read gives; *t is NULL on failure. */
static inline hl_status tokenizer_from(struct tokenizer **t, struct mem *mem, read_fn *read, void *ctx) {
    struct gguf_sink sink = {NULL, header_ignored, begin_skipped, done_ignored};
    struct gguf *g = gguf_new(mem, &sink);
    hl_status status = g ? HL_OK : HL_EMEMORY;
    *t = NULL;
    while (status == HL_OK && !gguf_has_header(g)) {
        size_t room = 0, n = 0;
        uint8_t *window = gguf_window(g, &room);
        if (window) n = read(ctx, window, room);
        status = n > 0 ? gguf_commit(g, n) : HL_ETRUNCATED;
    }
    if (status == HL_OK) status = tokenizer_new(t, mem, g, NULL);
    if (g) gguf_free(g);
    return status;
}

static inline size_t read_from_file(void *ctx, uint8_t *dst, size_t room) {
    FILE *f = (FILE *)ctx;
    return fread(dst, 1, room, f);
}

struct byte_source {
    const uint8_t *p;
    size_t n;
};

static inline size_t read_from_bytes(void *ctx, uint8_t *dst, size_t room) {
    struct byte_source *s = (struct byte_source *)ctx;
    size_t n = room < s->n ? room : s->n;
    memcpy(dst, s->p, n);
    s->p += n;
    s->n -= n;
    return n;
}

static inline struct tokenizer *tokenizer_open(const char *path, struct mem *mem) {
    struct tokenizer *t = NULL;
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    tokenizer_from(&t, mem, read_from_file, f);
    fclose(f);
    return t;
}

/* Whether all memory was given back. */
static inline bool mem_is_empty(const struct mem *mem) {
    for (int i = 0; i < MEM_KINDS; i++)
        if (mem->used[i] != 0) return false;
    return true;
}

#endif
