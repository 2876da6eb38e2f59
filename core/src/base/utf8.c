#include "base/utf8.h"

#include <assert.h>

/* Smallest code point that needs a length; anything below is overlong. */
static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};

static int length_of(uint8_t lead) {
    if (lead < 0x80) return 1;
    if (lead < 0xc2) return 0; /* a continuation byte, or the lead of an overlong pair */
    if (lead < 0xe0) return 2;
    if (lead < 0xf0) return 3;
    return lead < 0xf5 ? 4 : 0;
}

int utf8_decode(const uint8_t *s, size_t n, uint32_t *cp) {
    int length = length_of(s[0]);
    if (length == 0 || (size_t)length > n) return 0;
    uint32_t c = length == 1 ? s[0] : s[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *cp = c;
    return length;
}

int utf8_encode(uint32_t cp, uint8_t out[4]) {
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    assert(cp <= 0x10ffff);
    int length = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3f));
    out[0] = (uint8_t)(lead[length] | cp);
    return length;
}
