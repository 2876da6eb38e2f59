/* The functions that fill the tables, by build. Only for kernels/ itself. */
#ifndef HL_KERNELS_IMPL_H
#define HL_KERNELS_IMPL_H

#include "kernels/kernels.h"

/* Blocks of activations whose largest |x| is smaller are 0. */
#define ACT_MIN 0x1p-87f

/* Largest codes. */
#define RANGE_NARROW 127.0f
#define RANGE_WIDE 16256.0f
#define RANGE_HIGH 32767.0f

/* Bits of a wide code that are in low8. */
enum { LOW_BITS = 7 };

#define DECLARE_LINEAR(ISA)                                                                                  \
    linear_fn linear_f32__##ISA, linear_f16__##ISA, linear_bf16__##ISA;                                      \
    linear_fn linear_q4_0__##ISA, linear_q4_1__##ISA, linear_q5_0__##ISA, linear_q5_1__##ISA,                \
        linear_q8_0__##ISA;                                                                                  \
    linear_fn linear_q2_k__##ISA, linear_q3_k__##ISA, linear_q4_k__##ISA, linear_q5_k__##ISA,                \
        linear_q6_k__##ISA;                                                                                  \
    linear_fn linear_iq4_nl__##ISA, linear_iq4_xs__##ISA, linear_mxfp4__##ISA;

#define DECLARE_MATH(ISA)                                                                                    \
    void quantize__##ISA(struct act *a, int row, const float *x, hl_precision precision);                    \
    void rms_norm__##ISA(float *y, const float *x, const float *w, int n, float eps);                        \
    void add__##ISA(float *y, const float *x, int n);                                                        \
    void scale_add__##ISA(float *y, float a, const float *x, float b, int n);                                \
    void scale__##ISA(float *y, float a, int n);                                                             \
    void silu_mul__##ISA(float *y, const float *g, const float *u, int n);                                   \
    void gelu_mul__##ISA(float *y, const float *g, const float *u, int n);                                   \
    void relu2__##ISA(float *y, int n);                                                                      \
    void softcap__##ISA(float *y, float cap, int n);                                                         \
    void rope__##ISA(float *x, const float *cs, const float *sn, int n_rot, int interleaved);                \
    void attn_scores__##ISA(float *s, int s_stride, const float *q, int q_stride, int n_q, const float *k,   \
                            int k_stride, int n_k, int d);                                                   \
    void attn_values__##ISA(float *out, int out_stride, const float *p, int p_stride, int n_q,               \
                            const float *v, int v_stride, int n_k, int d);                                   \
    void attn_scores_f16__##ISA(float *s, int s_stride, const float *q, int q_stride, int n_q,               \
                                const uint16_t *k, int k_stride, int n_k, int d);                            \
    void attn_values_f16__##ISA(float *out, int out_stride, const float *p, int p_stride, int n_q,           \
                                const uint16_t *v, int v_stride, int n_k, int d);                            \
    float max__##ISA(const float *x, int n);                                                                 \
    float exp_sum__##ISA(float *p, const float *x, int n, float max);                                        \
    void f32_from_f16_row__##ISA(float *dst, const uint16_t *src, int n);                                    \
    void f16_from_f32_row__##ISA(uint16_t *dst, const float *src, int n);                                    \
    void f32_from_q8_row__##ISA(float *dst, const unsigned char *src, int n);

/* One for all builds. The mean of amax^2 over a row's blocks, whose d are their amax: those above are wide. */
float wide_limit(const struct act *a, int row);

/* The largest code of a block. limit: wide_limit's. */
static inline float act_range(float amax, float limit, hl_precision precision) {
    return precision == HL_HIGH ? RANGE_HIGH : amax * amax > limit ? RANGE_WIDE : RANGE_NARROW;
}

/* One for all builds: a step adds few rows to the cache. */
void q8_from_f32_row__scalar(unsigned char *dst, const float *src, int n);

DECLARE_LINEAR(scalar)
DECLARE_MATH(scalar)

/* Reads codes16, so one function serves both precisions. */
DECLARE_LINEAR(simd128)
DECLARE_MATH(simd128)

/* HL_FAST only: reads codes8. */
linear_fn linear_q4_0__relaxed, linear_q4_1__relaxed, linear_q5_0__relaxed, linear_q5_1__relaxed,
    linear_q2_k__relaxed, linear_q3_k__relaxed, linear_q4_k__relaxed, linear_q5_k__relaxed,
    linear_q6_k__relaxed, linear_mxfp4__relaxed;

#endif
