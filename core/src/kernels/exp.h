/* exp, silu and gelu of one number; the SIMD builds do the same operations on four. */
#ifndef HL_KERNELS_EXP_H
#define HL_KERNELS_EXP_H

#include <math.h>

#include "base/f16.h"

/* exp(x) = 2^n exp(r), n = round(x / ln 2), r = x - n ln 2, |r| <= ln 2 / 2 (Cody and Waite: n * EXP_LN2_HIGH
 * is exact). exp(r) = 1 + r + r^2 (c0 + c1 r + ... + c4 r^4), the minimax polynomial of relative error
 * 3e-9. */
#define EXP_MIN (-87.0f)
#define EXP_MAX 88.0f
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HIGH 0x1.63p-1f
#define EXP_LN2_LOW (-0x1.bd0106p-13f)
#define EXP_C0 0x1.fffffcp-2f
#define EXP_C1 0x1.555492p-3f
#define EXP_C2 0x1.5558f2p-5f
#define EXP_C3 0x1.123a20p-7f
#define EXP_C4 0x1.6a23d0p-10f

/* 2 sqrt(2 / pi) and that times 0.044715: gelu(x) = x / (1 + exp(-x (GELU_A + GELU_B x^2))) is the tanh form,
 * since (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)). */
#define GELU_A 1.5957691216f
#define GELU_B 0.0713548163f

static inline float exp_f32(float x) {
    if (x < EXP_MIN) return 0;
    if (x > EXP_MAX) return INFINITY;
    if (x != x) return x;
    float n = rintf(x * EXP_LOG2E);
    float r = (x - n * EXP_LN2_HIGH) - n * EXP_LN2_LOW;
    float c = (((EXP_C4 * r + EXP_C3) * r + EXP_C2) * r + EXP_C1) * r + EXP_C0;
    return ((c * r) * r + r + 1) * f32_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

static inline float silu_f32(float x) { return x / (1 + exp_f32(-x)); }

static inline float gelu_f32(float x) { return x / (1 + exp_f32(-x * (GELU_A + GELU_B * (x * x)))); }

/* cap * tanh(x / cap); double_inverse = 2 / cap. */
static inline float softcap_f32(float x, float cap, float double_inverse) {
    return cap * (1 - 2 / (exp_f32(x * double_inverse) + 1));
}

#endif
