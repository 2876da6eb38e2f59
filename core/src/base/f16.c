#include "base/f16.h"

/* A f16 keeps 10 of f32's 23 mantissa bits; below 2^-14 (0x38800000 as f32 bits) its unit is 2^-24. */
uint16_t f16_from_f32(float f) {
    uint32_t bits = f32_bits(f);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff)); /* NaN stays NaN, made quiet */
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);    /* 65520 and more round to infinity */
    if (rest >= 0x38800000) {
        uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
        return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
    }
    /* 2^-24 is the last mantissa bit of numbers in [0.5, 1): adding 0.5 rounds to it. */
    float shifted = f32_from_bits(rest) + 0.5f;
    return (uint16_t)(sign | (f32_bits(shifted) - f32_bits(0.5f)));
}
