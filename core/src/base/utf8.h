/* UTF-8 to code points and back. */
#ifndef HL_BASE_UTF8_H
#define HL_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes one code point at s (n >= 1 bytes left) into *cp and returns its length, 1 .. 4.
 * Returns 0 when the bytes are no valid character (overlong, surrogate, above U+10FFFF, cut off). */
int utf8_decode(const uint8_t *s, size_t n, uint32_t *cp);

/* Encodes cp (a valid scalar value) into out and returns its length, 1 .. 4. */
int utf8_encode(uint32_t cp, uint8_t out[4]);

#endif
