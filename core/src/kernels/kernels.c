#include "kernels/kernels.h"

#include "kernels/impl.h"

#define MATH_SLOTS(ISA)                                                                                      \
    .quantize = quantize__##ISA, .rms_norm = rms_norm__##ISA, .add = add__##ISA,                             \
    .scale_add = scale_add__##ISA, .scale = scale__##ISA, .silu_mul = silu_mul__##ISA,                       \
    .gelu_mul = gelu_mul__##ISA, .relu2 = relu2__##ISA, .softcap = softcap__##ISA, .rope = rope__##ISA,      \
    .attn_scores = attn_scores__##ISA, .attn_values = attn_values__##ISA,                                    \
    .attn_scores_f16 = attn_scores_f16__##ISA, .attn_values_f16 = attn_values_f16__##ISA, .max = max__##ISA, \
    .exp_sum = exp_sum__##ISA, .f32_from_f16_row = f32_from_f16_row__##ISA,                                  \
    .f16_from_f32_row = f16_from_f32_row__##ISA, .f32_from_q8_row = f32_from_q8_row__##ISA,                  \
    .q8_from_f32_row = q8_from_f32_row__scalar

#define FLOAT_SLOTS(ISA)                                                                                     \
    [PANEL_F32] = linear_f32__##ISA, [PANEL_F16] = linear_f16__##ISA, [PANEL_BF16] = linear_bf16__##ISA

#define CODE_SLOTS(ISA)                                                                                      \
    [PANEL_Q4_0] = linear_q4_0__##ISA, [PANEL_Q4_1] = linear_q4_1__##ISA, [PANEL_Q5_0] = linear_q5_0__##ISA, \
    [PANEL_Q5_1] = linear_q5_1__##ISA, [PANEL_Q2_K] = linear_q2_k__##ISA, [PANEL_Q3_K] = linear_q3_k__##ISA, \
    [PANEL_Q4_K] = linear_q4_k__##ISA, [PANEL_Q5_K] = linear_q5_k__##ISA, [PANEL_Q6_K] = linear_q6_k__##ISA, \
    [PANEL_MXFP4] = linear_mxfp4__##ISA

/* Types that read codes16 in both precisions. */
#define CODE16_SLOTS(ISA)                                                                                    \
    [PANEL_Q8_0] = linear_q8_0__##ISA, [PANEL_IQ4_NL] = linear_iq4_nl__##ISA,                                \
    [PANEL_IQ4_XS] = linear_iq4_xs__##ISA

static const struct kernels scalar = {
    .linear_fast = {FLOAT_SLOTS(scalar), CODE_SLOTS(scalar), CODE16_SLOTS(scalar)},
    .linear_high = {FLOAT_SLOTS(scalar), CODE_SLOTS(scalar), CODE16_SLOTS(scalar)},
    MATH_SLOTS(scalar),
};

const struct kernels *kernels_scalar(void) { return &scalar; }

#ifdef __wasm_simd128__

#ifdef __wasm_relaxed_simd__
#define FAST_SLOTS CODE_SLOTS(relaxed)
#else
#define FAST_SLOTS CODE_SLOTS(simd128)
#endif

static const struct kernels simd = {
    .linear_fast = {FLOAT_SLOTS(simd128), FAST_SLOTS, CODE16_SLOTS(simd128)},
    .linear_high = {FLOAT_SLOTS(simd128), CODE_SLOTS(simd128), CODE16_SLOTS(simd128)},
    MATH_SLOTS(simd128),
};

const struct kernels *kernels_get(void) { return &simd; }

#else

const struct kernels *kernels_get(void) { return &scalar; }

#endif
