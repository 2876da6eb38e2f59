#include "tokenizer/stream.h"

#include <stdbool.h>
#include <string.h>

static size_t put_replacement(uint8_t *out) {
    memcpy(out, "\xef\xbf\xbd", 3);
    return 3;
}

/* Length of the character that begins with byte lead; 0 when none does. */
static int length_of(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* Whether byte can follow what is held: the second byte's range leaves out overlong forms, surrogates and
 * what is above U+10FFFF. */
static bool continues(const struct utf8_stream *u, uint8_t byte) {
    uint8_t lo = 0x80, hi = 0xbf;
    if (u->n == 1) {
        if (u->held[0] == 0xe0) lo = 0xa0;
        if (u->held[0] == 0xed) hi = 0x9f;
        if (u->held[0] == 0xf0) lo = 0x90;
        if (u->held[0] == 0xf4) hi = 0x8f;
    }
    return byte >= lo && byte <= hi;
}

size_t utf8_stream_push(struct utf8_stream *u, const uint8_t *s, size_t n, uint8_t *out) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (u->n > 0 && !continues(u, s[i])) at += utf8_stream_flush(u, out + at);
        int length = length_of(u->n > 0 ? u->held[0] : s[i]);
        if (length == 0) {
            at += put_replacement(out + at);
        } else if (u->n + 1 < length) {
            u->held[u->n++] = s[i];
        } else {
            memcpy(out + at, u->held, (size_t)u->n);
            out[at + (size_t)u->n] = s[i];
            at += (size_t)length;
            u->n = 0;
        }
    }
    return at;
}

size_t utf8_stream_flush(struct utf8_stream *u, uint8_t out[3]) {
    if (u->n == 0) return 0;
    u->n = 0;
    return put_replacement(out);
}
