#include "kernels/kernels.h"

#include "kernels/impl.h"

#define MATH_SLOTS(ISA)                                                                                                \
    .quantize = quantize__##ISA, .rms_norm = rms_norm__##ISA, .add = add__##ISA, .scale_add = scale_add__##ISA,        \
    .scale = scale__##ISA, .silu_mul = silu_mul__##ISA, .gelu_mul = gelu_mul__##ISA, .rope = rope__##ISA,              \
    .attn_scores = attn_scores__##ISA, .attn_values = attn_values__##ISA, .max = max__##ISA, .exp_sum = exp_sum__##ISA, \
    .f32_from_f16_row = f32_from_f16_row__##ISA, .f16_from_f32_row = f16_from_f32_row__##ISA

/* HIGH: what follows the panel type in the name of the function that reads activations of HL_HIGH. */
#define LINEAR_SLOTS(ISA, HIGH)                                                                                        \
    [PANEL_F32] = linear_f32__##ISA, [PANEL_F16] = linear_f16__##ISA, [PANEL_BF16] = linear_bf16__##ISA,               \
    [PANEL_Q4_0] = linear_q4_0##HIGH##__##ISA, [PANEL_Q4_1] = linear_q4_1##HIGH##__##ISA,                              \
    [PANEL_Q5_0] = linear_q5_0##HIGH##__##ISA, [PANEL_Q5_1] = linear_q5_1##HIGH##__##ISA,                              \
    [PANEL_Q8_0] = linear_q8_0##HIGH##__##ISA

static const struct kernels scalar = {
    .linear_fast = {LINEAR_SLOTS(scalar, )},
    .linear_high = {LINEAR_SLOTS(scalar, _high)},
    MATH_SLOTS(scalar),
};

const struct kernels *kernels_scalar(void) {
    return &scalar;
}

const struct kernels *kernels_get(void) {
    return &scalar;
}
