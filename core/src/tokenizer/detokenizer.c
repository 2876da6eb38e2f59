#include <string.h>

#include "tokenizer/stream.h"
#include "tokenizer/tokenizer.h"

struct detokenizer {
    struct tokenizer *tokenizer;
    struct mem *mem;
    int flags;
    bool at_start; /* nothing was shown yet */
    struct utf8_stream stream;
    uint8_t *out; /* [room] */
    size_t room;
};

static void restart(struct detokenizer *d) { d->at_start = !(d->flags & HL_CONTINUE); }

struct detokenizer *detokenizer_new(struct tokenizer *t, int flags) {
    struct mem *mem = tokenizer_mem(t);
    struct detokenizer *d = mem_alloc(mem, MEM_TOKENIZER, sizeof *d);
    if (!d) {
        status_set(HL_EMEMORY, "detokenizer: no memory");
        return NULL;
    }
    d->tokenizer = t;
    d->mem = mem;
    d->flags = flags;
    restart(d);
    return d;
}

void detokenizer_free(struct detokenizer *d) {
    if (!d) return;
    mem_free(d->mem, MEM_TOKENIZER, d->out, d->room);
    mem_free(d->mem, MEM_TOKENIZER, d, sizeof *d);
}

static hl_status reserve(struct detokenizer *d, size_t n) {
    if (n <= d->room) return HL_OK;
    size_t room = n < 256 ? 256 : n;
    uint8_t *out = mem_grow(d->mem, MEM_TOKENIZER, d->out, d->room, room);
    CHECK(out, HL_EMEMORY, "detokenizer: no memory for %zu bytes", n);
    d->out = out;
    d->room = room;
    return HL_OK;
}

/* The bytes that token id shows. A text's first space is SentencePiece's prefix, which was not written. */
static const char *shown(struct detokenizer *d, int32_t id, size_t *n) {
    const char *text = tokenizer_text(d->tokenizer, id, n);
    enum token_type type = tokenizer_type(d->tokenizer, id);
    if (!text) return NULL;
    if ((type == TOKEN_CONTROL || type == TOKEN_UNKNOWN) && !(d->flags & HL_SPECIAL)) *n = 0;
    if (*n == 0) return text;
    bool strip = d->at_start && tokenizer_has_space_prefix(d->tokenizer) && text[0] == ' ';
    d->at_start = false;
    *n -= strip;
    return text + strip;
}

const char *detokenizer_push(struct detokenizer *d, int32_t id, size_t *n) {
    size_t length;
    *n = 0;
    const char *text = shown(d, id, &length);
    if (!text || reserve(d, UTF8_STREAM_ROOM(length)) != HL_OK) return NULL;
    *n = utf8_stream_push(&d->stream, (const uint8_t *)text, length, d->out);
    return (const char *)d->out;
}

const char *detokenizer_flush(struct detokenizer *d, size_t *n) {
    *n = 0;
    if (reserve(d, UTF8_STREAM_ROOM(0)) != HL_OK) return NULL;
    *n = utf8_stream_flush(&d->stream, d->out);
    restart(d);
    return (const char *)d->out;
}
