/* What linear shares in the SIMD builds.
 *
 * A panel's four rows are the four lanes, so sums need no shuffling and a row's scale is a lane. Weights of a block are unpacked
 * into vectors once and meet one activation row after another: lane by lane the order of sums is the scalar kernel's. */
#ifndef HL_KERNELS_LINEAR_SIMD_H
#define HL_KERNELS_LINEAR_SIMD_H

#include "kernels/impl.h"
#include "kernels/simd.h"

/* Activation rows that share an unpacked block: enough to make unpacking cheap, few enough for their codes to stay in the
 * first-level cache from block to block. */
enum { TILE_COLUMNS = 16 };

/* Constants of the inner loops. */
struct linear_constants {
    struct f16_constants f16;
    v128_t nibble, bit; /* of codes; `bit` is the fifth */
};

/* The scales of a block's four rows; m only where the type has one. */
struct scales {
    v128_t d, m;
};

INLINE struct scales load_scales(const unsigned char *block, enum panel_type type, const struct linear_constants *k) {
    struct scales s;
    s.d = f32x4_from_f16(block, k->f16);
    s.m = panel_has_m(type) ? f32x4_from_f16(block + 8, k->f16) : s.d;
    return s;
}

/* acc + (dw * d) * (sum - offset * a's sum) [+ m * s]; d, s, sum8 point at the block of the activations. */
INLINE v128_t add_block(v128_t acc, v128_t sum, struct scales w, const float *d, const float *s, const int32_t *sum8,
                        enum panel_type type) {
    if (panel_code_offset(type)) {
        v128_t offset = wasm_v128_load32_splat(sum8);
        sum = wasm_i32x4_sub(sum, offset);
        if (panel_code_offset(type) == 16) sum = wasm_i32x4_sub(sum, offset);
    }
    v128_t scale = wasm_f32x4_mul(w.d, wasm_v128_load32_splat(d));
    acc = wasm_f32x4_add(acc, wasm_f32x4_mul(scale, wasm_f32x4_convert_i32x4(sum)));
    if (panel_has_m(type)) acc = wasm_f32x4_add(acc, wasm_f32x4_mul(w.m, wasm_v128_load32_splat(s)));
    return acc;
}

/* Defines linear_NAME for panels of codes, given
 *     UNPACK(v128_t w[N], block, TYPE, k)     the weights of a block
 *     DOT(w, a, at, TYPE)                     i32x4 sums of the products with block number `at` of the activations
 * The loops are functions of their own, which get pointers only: binaryen 120 fails when it evaluates a relaxed dot of constants. */
#define LINEAR_CODES(NAME, TYPE, N, UNPACK, DOT, K)                                                                    \
    static __attribute__((noinline)) void gemv_##NAME(float *y, const unsigned char *block, const struct act *a, int col) { \
        int n_blocks = a->n_in / PANEL_BLOCK;                                                                          \
        size_t at = (size_t)col * n_blocks;                                                                            \
        const float *d = a->d + at, *s = a->s + at;                                                                    \
        const int32_t *sum8 = a->sum8 + at;                                                                            \
        struct linear_constants k = K();                                                                               \
        v128_t acc = wasm_f32x4_const_splat(0);                                                                        \
        for (int b = 0; b < n_blocks; b++) {                                                                           \
            v128_t w[N];                                                                                               \
            UNPACK(w, block, TYPE, &k);                                                                                \
            acc = add_block(acc, DOT(w, a, at + b, TYPE), load_scales(block, TYPE, &k), d++, s++, sum8++, TYPE);       \
            block += panel_block_bytes(TYPE);                                                                          \
        }                                                                                                              \
        wasm_v128_store(y, acc);                                                                                       \
    }                                                                                                                  \
    /* n_cols: 1 .. TILE_COLUMNS */                                                                                    \
    static __attribute__((noinline)) void tile_##NAME(float *y, size_t y_stride, const unsigned char *block,           \
                                                      const struct act *a, int col0, int n_cols) {                     \
        int n_blocks = a->n_in / PANEL_BLOCK;                                                                          \
        struct linear_constants k = K();                                                                               \
        v128_t acc[TILE_COLUMNS];                                                                                      \
        for (int c = 0; c < n_cols; c++) acc[c] = wasm_f32x4_const_splat(0);                                           \
        for (int b = 0; b < n_blocks; b++) {                                                                           \
            v128_t w[N];                                                                                               \
            UNPACK(w, block, TYPE, &k);                                                                                \
            struct scales scales = load_scales(block, TYPE, &k);                                                       \
            size_t at = (size_t)col0 * n_blocks + b;                                                                   \
            const float *d = a->d + at, *s = a->s + at;                                                                \
            const int32_t *sum8 = a->sum8 + at;                                                                        \
            _Pragma("clang loop unroll(disable)") for (int c = 0; c < n_cols; c++) {                                   \
                acc[c] = add_block(acc[c], DOT(w, a, at, TYPE), scales, d, s, sum8, TYPE);                             \
                at += n_blocks;                                                                                        \
                d += n_blocks;                                                                                         \
                s += n_blocks;                                                                                         \
                sum8 += n_blocks;                                                                                      \
            }                                                                                                          \
            block += panel_block_bytes(TYPE);                                                                          \
        }                                                                                                              \
        for (int c = 0; c < n_cols; c++) wasm_v128_store(y + c * y_stride, acc[c]);                                    \
    }                                                                                                                  \
    void linear_##NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels, const struct act *a,      \
                       int col0, int n_cols) {                                                                         \
        size_t bytes = panel_bytes(TYPE, a->n_in);                                                                     \
        for (int p = 0; p < n_panels; p++, panels += bytes, y += PANEL_ROWS) {                                         \
            if (n_cols == 1) {                                                                                         \
                gemv_##NAME(y, panels, a, col0);                                                                       \
                continue;                                                                                              \
            }                                                                                                          \
            for (int c = 0; c < n_cols; c += TILE_COLUMNS) {                                                           \
                int width = n_cols - c < TILE_COLUMNS ? n_cols - c : TILE_COLUMNS;                                     \
                tile_##NAME(y + c * y_stride, y_stride, panels, a, col0 + c, width);                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

#endif
