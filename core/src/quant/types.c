#include "quant/types.h"

#include <string.h>

#include "base/f16.h"
#include "quant/blocks.h"
#include "quant/k_blocks.h"

static void f32_to_f32(float *dst, const void *src, size_t n) { memcpy(dst, src, n * sizeof *dst); }

static void f16_to_f32(float *dst, const void *src, size_t n) {
    const uint16_t *w = src;
    for (size_t i = 0; i < n; i++) dst[i] = f32_from_f16(w[i]);
}

static void bf16_to_f32(float *dst, const void *src, size_t n) {
    const uint16_t *w = src;
    for (size_t i = 0; i < n; i++) dst[i] = f32_from_bf16(w[i]);
}

/* Code i of a block whose low nibbles are weights 0 .. 15 and whose high ones 16 .. 31. */
static int nibble(const uint8_t *qs, int i) { return i < QK / 2 ? qs[i] & 15 : qs[i - QK / 2] >> 4; }

static int five_bits(const uint8_t *qs, const uint8_t *qh, int i) {
    return nibble(qs, i) | (qh[i / 8] >> i % 8 & 1) << 4;
}

static void q4_0_to_f32(float *dst, const void *src, size_t n) {
    const struct block_q4_0 *b = src;
    for (; n > 0; n -= QK, dst += QK, b++) {
        float d = f32_from_f16(b->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)(nibble(b->qs, i) - 8);
    }
}

static void q4_1_to_f32(float *dst, const void *src, size_t n) {
    const struct block_q4_1 *b = src;
    for (; n > 0; n -= QK, dst += QK, b++) {
        float d = f32_from_f16(b->d), m = f32_from_f16(b->m);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)nibble(b->qs, i) + m;
    }
}

static void q5_0_to_f32(float *dst, const void *src, size_t n) {
    const struct block_q5_0 *b = src;
    for (; n > 0; n -= QK, dst += QK, b++) {
        float d = f32_from_f16(b->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)(five_bits(b->qs, b->qh, i) - 16);
    }
}

static void q5_1_to_f32(float *dst, const void *src, size_t n) {
    const struct block_q5_1 *b = src;
    for (; n > 0; n -= QK, dst += QK, b++) {
        float d = f32_from_f16(b->d), m = f32_from_f16(b->m);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)five_bits(b->qs, b->qh, i) + m;
    }
}

static void q8_0_to_f32(float *dst, const void *src, size_t n) {
    const struct block_q8_0 *b = src;
    for (; n > 0; n -= QK, dst += QK, b++) {
        float d = f32_from_f16(b->d);
        for (int i = 0; i < QK; i++) dst[i] = d * (float)b->qs[i];
    }
}

/* Types whose blocks are decoded into parts. */
#define PARTS_TO_F32(NAME, N_WEIGHTS, N_BYTES)                                                               \
    static void NAME##_to_f32(float *dst, const void *src, size_t n) {                                       \
        parts_to_f32(dst, src, n, decode_##NAME, N_WEIGHTS, N_BYTES);                                        \
    }
PARTS_TO_F32(q2_k, 256, 84)
PARTS_TO_F32(q3_k, 256, 110)
PARTS_TO_F32(q4_k, 256, 144)
PARTS_TO_F32(q5_k, 256, 176)
PARTS_TO_F32(q6_k, 256, 210)
PARTS_TO_F32(iq4_nl, 32, 18)
PARTS_TO_F32(iq4_xs, 256, 136)
PARTS_TO_F32(mxfp4, 32, 17)

/* Block sizes of types that are not built in: ggml's table of types. */
static const struct type_info types[] = {
    [TYPE_F32] = {"F32", 1, 4, PANEL_F32, f32_to_f32, NULL},
    [TYPE_F16] = {"F16", 1, 2, PANEL_F16, f16_to_f32, NULL},
    [TYPE_Q4_0] = {"Q4_0", QK, sizeof(struct block_q4_0), PANEL_Q4_0, q4_0_to_f32, NULL},
    [TYPE_Q4_1] = {"Q4_1", QK, sizeof(struct block_q4_1), PANEL_Q4_1, q4_1_to_f32, NULL},
    [4] = {.name = "Q4_2"},
    [5] = {.name = "Q4_3"},
    [TYPE_Q5_0] = {"Q5_0", QK, sizeof(struct block_q5_0), PANEL_Q5_0, q5_0_to_f32, NULL},
    [TYPE_Q5_1] = {"Q5_1", QK, sizeof(struct block_q5_1), PANEL_Q5_1, q5_1_to_f32, NULL},
    [TYPE_Q8_0] = {"Q8_0", QK, sizeof(struct block_q8_0), PANEL_Q8_0, q8_0_to_f32, NULL},
    [9] = {.name = "Q8_1", .n_weights = 32, .n_bytes = 36},
    [TYPE_Q2_K] = {"Q2_K", 256, 84, PANEL_Q2_K, q2_k_to_f32, decode_q2_k},
    [TYPE_Q3_K] = {"Q3_K", 256, 110, PANEL_Q3_K, q3_k_to_f32, decode_q3_k},
    [TYPE_Q4_K] = {"Q4_K", 256, 144, PANEL_Q4_K, q4_k_to_f32, decode_q4_k},
    [TYPE_Q5_K] = {"Q5_K", 256, 176, PANEL_Q5_K, q5_k_to_f32, decode_q5_k},
    [TYPE_Q6_K] = {"Q6_K", 256, 210, PANEL_Q6_K, q6_k_to_f32, decode_q6_k},
    [15] = {.name = "Q8_K", .n_weights = 256, .n_bytes = 292},
    [16] = {.name = "IQ2_XXS", .n_weights = 256, .n_bytes = 66},
    [17] = {.name = "IQ2_XS", .n_weights = 256, .n_bytes = 74},
    [18] = {.name = "IQ3_XXS", .n_weights = 256, .n_bytes = 98},
    [19] = {.name = "IQ1_S", .n_weights = 256, .n_bytes = 50},
    [TYPE_IQ4_NL] = {"IQ4_NL", 32, 18, PANEL_IQ4_NL, iq4_nl_to_f32, decode_iq4_nl},
    [21] = {.name = "IQ3_S", .n_weights = 256, .n_bytes = 110},
    [22] = {.name = "IQ2_S", .n_weights = 256, .n_bytes = 82},
    [TYPE_IQ4_XS] = {"IQ4_XS", 256, 136, PANEL_IQ4_XS, iq4_xs_to_f32, decode_iq4_xs},
    [24] = {.name = "I8", .n_weights = 1, .n_bytes = 1},
    [25] = {.name = "I16", .n_weights = 1, .n_bytes = 2},
    [26] = {.name = "I32", .n_weights = 1, .n_bytes = 4},
    [27] = {.name = "I64", .n_weights = 1, .n_bytes = 8},
    [28] = {.name = "F64", .n_weights = 1, .n_bytes = 8},
    [29] = {.name = "IQ1_M", .n_weights = 256, .n_bytes = 56},
    [TYPE_BF16] = {"BF16", 1, 2, PANEL_BF16, bf16_to_f32, NULL},
    [31] = {.name = "Q4_0_4_4"},
    [32] = {.name = "Q4_0_4_8"},
    [33] = {.name = "Q4_0_8_8"},
    [34] = {.name = "TQ1_0", .n_weights = 256, .n_bytes = 54},
    [35] = {.name = "TQ2_0", .n_weights = 256, .n_bytes = 66},
    [36] = {.name = "IQ4_NL_4_4"},
    [37] = {.name = "IQ4_NL_4_8"},
    [38] = {.name = "IQ4_NL_8_8"},
    [TYPE_MXFP4] = {"MXFP4", 32, 17, PANEL_MXFP4, mxfp4_to_f32, decode_mxfp4},
    [40] = {.name = "NVFP4", .n_weights = 64, .n_bytes = 36},
    [41] = {.name = "Q1_0", .n_weights = 128, .n_bytes = 18},
};

const struct type_info *type_info(uint32_t type) {
    return type < sizeof types / sizeof types[0] && types[type].name != NULL ? &types[type] : NULL;
}
