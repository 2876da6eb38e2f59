/* What the SIMD builds share: four floats at a time, with the bits of the scalar functions. */
#ifndef HL_KERNELS_SIMD_H
#define HL_KERNELS_SIMD_H

#include <wasm_simd128.h>

#include "kernels/exp.h"

/* For functions whose last arguments are constants that pick the code. */
#define INLINE static inline __attribute__((always_inline))

/* Four times a constant, in a register before a loop begins. V8 makes a v128.const anew at each use, by three
 * instructions; so neither clang nor binaryen must know the number. */
#define SPLAT_REGISTER(BITS)                                                                                 \
    ({                                                                                                       \
        static const volatile uint32_t bits = (BITS);                                                        \
        wasm_u32x4_splat(bits);                                                                              \
    })

#define SPLAT_REGISTER_F32(X)                                                                                \
    ({                                                                                                       \
        static const volatile float x = (X);                                                                 \
        wasm_f32x4_splat(x);                                                                                 \
    })

/* What f16 to f32 needs. */
struct f16_constants {
    v128_t magnitude, exponent, least_normal, sign;
};

INLINE struct f16_constants f16_constants(void) {
    struct f16_constants k;
    k.magnitude = SPLAT_REGISTER(0x7fff << 13);
    k.exponent = SPLAT_REGISTER(112 << 23);
    k.least_normal = SPLAT_REGISTER(113 << 23); /* 2^-14 */
    k.sign = SPLAT_REGISTER(0x80000000);
    return k;
}

/* Four f16 as f32. No infinity, no NaN. With m the value of the bits taken as f32 with an exponent 112
 * higher, a normal number is m, and a subnormal, which has no leading 1, is 2 m - 2^-14: the smaller of the
 * two in both cases. No step meets an f32 subnormal, which would be slow: whole matrices have only subnormal
 * scales. */
INLINE v128_t f32x4_from_f16(const void *p, struct f16_constants k) {
    v128_t h = wasm_i32x4_load16x4(p);
    v128_t m = wasm_i32x4_add(wasm_v128_and(wasm_i32x4_shl(h, 13), k.magnitude), k.exponent);
    v128_t subnormal = wasm_f32x4_sub(wasm_f32x4_add(m, m), k.least_normal);
    return wasm_v128_or(wasm_f32x4_pmin(m, subnormal), wasm_v128_and(h, k.sign));
}

/* The same in fewer steps where f16 subnormals are rare: they are f32 subnormals before the multiplication.
 * mask and two_112 are F16_MASK and F16_SCALE in registers. */
#define F16_MASK 0x8fffe000
#define F16_SCALE ((112 + 127) << 23)
INLINE v128_t f32x4_from_usual_f16(const void *p, v128_t mask, v128_t two_112) {
    return wasm_f32x4_mul(wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13), mask), two_112);
}

/* (0 + 1) + (2 + 3) */
INLINE float sum_lanes_f32x4(v128_t x) {
    return (wasm_f32x4_extract_lane(x, 0) + wasm_f32x4_extract_lane(x, 1)) +
           (wasm_f32x4_extract_lane(x, 2) + wasm_f32x4_extract_lane(x, 3));
}

/* Lane i: (0 + 1) + (2 + 3) of x[i]. */
INLINE v128_t sum_lanes_of_4(v128_t x0, v128_t x1, v128_t x2, v128_t x3) {
    v128_t even =
        wasm_f32x4_add(wasm_i32x4_shuffle(x0, x1, 0, 2, 4, 6), wasm_i32x4_shuffle(x0, x1, 1, 3, 5, 7));
    v128_t odd =
        wasm_f32x4_add(wasm_i32x4_shuffle(x2, x3, 0, 2, 4, 6), wasm_i32x4_shuffle(x2, x3, 1, 3, 5, 7));
    return wasm_f32x4_add(wasm_i32x4_shuffle(even, odd, 0, 2, 4, 6),
                          wasm_i32x4_shuffle(even, odd, 1, 3, 5, 7));
}

/* n = 1 .. 3 floats, the other lanes 0. */
INLINE v128_t load_f32_part(const float *p, int n) {
    v128_t x = n == 1 ? wasm_v128_load32_zero(p) : wasm_v128_load64_zero(p);
    return n == 3 ? wasm_v128_load32_lane(p + 2, x, 2) : x;
}

INLINE void store_f32_part(float *p, v128_t x, int n) {
    wasm_v128_store32_lane(p, x, 0);
    if (n > 1) wasm_v128_store32_lane(p + 1, x, 1);
    if (n > 2) wasm_v128_store32_lane(p + 2, x, 2);
}

/* What exp needs. */
struct exp_constants {
    v128_t log2e, to_int, ln2_high, ln2_low, c0, c1, c2, c3, c4, one, min, max, infinity;
};

INLINE struct exp_constants exp_constants(void) {
    return (struct exp_constants){.log2e = SPLAT_REGISTER_F32(EXP_LOG2E),
                                  .to_int = SPLAT_REGISTER_F32(0x1.8p23f),
                                  .ln2_high = SPLAT_REGISTER_F32(EXP_LN2_HIGH),
                                  .ln2_low = SPLAT_REGISTER_F32(EXP_LN2_LOW),
                                  .c0 = SPLAT_REGISTER_F32(EXP_C0),
                                  .c1 = SPLAT_REGISTER_F32(EXP_C1),
                                  .c2 = SPLAT_REGISTER_F32(EXP_C2),
                                  .c3 = SPLAT_REGISTER_F32(EXP_C3),
                                  .c4 = SPLAT_REGISTER_F32(EXP_C4),
                                  .one = SPLAT_REGISTER_F32(1),
                                  .min = SPLAT_REGISTER_F32(EXP_MIN),
                                  .max = SPLAT_REGISTER_F32(EXP_MAX),
                                  .infinity = SPLAT_REGISTER_F32(INFINITY)};
}

/* exp_f32 of four. Where |n| < 2^22, n + 1.5 2^23 is rounded to a whole number, which its lowest bits hold. */
INLINE v128_t exp_f32x4(v128_t x, struct exp_constants k) {
    v128_t shifted = wasm_f32x4_add(wasm_f32x4_mul(x, k.log2e), k.to_int);
    v128_t n = wasm_f32x4_sub(shifted, k.to_int);
    v128_t r = wasm_f32x4_sub(x, wasm_f32x4_mul(n, k.ln2_high));
    r = wasm_f32x4_sub(r, wasm_f32x4_mul(n, k.ln2_low));
    v128_t c = wasm_f32x4_add(wasm_f32x4_mul(k.c4, r), k.c3);
    c = wasm_f32x4_add(wasm_f32x4_mul(c, r), k.c2);
    c = wasm_f32x4_add(wasm_f32x4_mul(c, r), k.c1);
    c = wasm_f32x4_add(wasm_f32x4_mul(c, r), k.c0);
    v128_t y = wasm_f32x4_mul(wasm_f32x4_mul(c, r), r);
    y = wasm_f32x4_add(wasm_f32x4_add(y, r), k.one);
    y = wasm_f32x4_mul(y, wasm_i32x4_add(wasm_i32x4_shl(shifted, 23), k.one));
    y = wasm_v128_andnot(y, wasm_f32x4_lt(x, k.min));
    return wasm_v128_bitselect(k.infinity, y, wasm_f32x4_gt(x, k.max));
}

#endif
