/* Bytes that arrive in pieces to UTF-8 text in pieces: no character is split, and what cannot become one is
 * replaced. */
#ifndef HL_TOKENIZER_STREAM_H
#define HL_TOKENIZER_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. */
struct utf8_stream {
    uint8_t held[3]; /* [n] the beginning of a character, good so far */
    int n;
};

/* Most bytes that pushing n bytes writes. */
#define UTF8_STREAM_ROOM(n) (3 * ((n) + 3))

/* Writes to out what became complete with s: [n]; returns the length. Every longest part that cannot become a
 * character gives one U+FFFD. Source: the WHATWG Encoding standard's UTF-8 decoder, without its byte order
 * mark. */
size_t utf8_stream_push(struct utf8_stream *u, const uint8_t *s, size_t n, uint8_t *out);

/* Writes U+FFFD when something is held; returns the length, 0 or 3. */
size_t utf8_stream_flush(struct utf8_stream *u, uint8_t out[3]);

#endif
