/* IEEE half and bfloat16, exact both ways (subnormals, infinities and NaN included). */
#ifndef HL_BASE_F16_H
#define HL_BASE_F16_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Exponent and mantissa are moved into f32's places; 2^112 corrects the bias, also for subnormals. Exponent 31 is
 * one more than 30: neither infinity nor NaN. */
static inline float f32_from_finite_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    return f32_from_bits(sign | f32_bits(f32_from_bits(rest) * 0x1p112f));
}

static inline float f32_from_f16(uint16_t h) {
    if ((h & 0x7c00) != 0x7c00) return f32_from_finite_f16(h);
    return f32_from_bits((uint32_t)(h & 0x8000) << 16 | 0x7f800000 | (uint32_t)(h & 0x3ff) << 13);
}

/* Rounds to nearest, ties to even. */
uint16_t f16_from_f32(float f);

static inline float f32_from_bf16(uint16_t h) { return f32_from_bits((uint32_t)h << 16); }

#endif
