#ifdef __wasm_simd128__

#include "kernels/linear_simd.h"

/* Pairs of columns in a block. */
enum { PAIRS = 16 };

/* For codes in i16. */
static inline struct linear_constants constants(enum panel_type type) {
    struct linear_constants k = {0};
    (void)type;
    k.f16 = f16_constants();
    k.low = SPLAT_REGISTER(0x000f000f);
    k.high = SPLAT_REGISTER(0x00100010);
    return k;
}

/* w[2 g], w[2 g + 1]: columns 4 g and 4 g + 2, 4 g + 1 and 4 g + 3, two i16 a row. */
INLINE void unpack(v128_t *w, const unsigned char *block, enum panel_type type,
                   const struct linear_constants *k) {
    const unsigned char *codes = block + panel_codes_at(type);
    if (type == PANEL_Q8_0) {
#pragma clang loop unroll(full)
        for (int g = 0; g < PAIRS / 2; g++) {
            v128_t x = wasm_v128_load(codes + 16 * g);
            w[2 * g] = wasm_i16x8_shr(wasm_i16x8_shl(x, 8), 8);
            w[2 * g + 1] = wasm_i16x8_shr(x, 8);
        }
        return;
    }
#pragma clang loop unroll(full)
    for (int v = 0; v < PAIRS / 4; v++) {
        v128_t x = wasm_v128_load(codes + 16 * v);
        w[4 * v] = wasm_v128_and(x, k->low);
        w[4 * v + 1] = wasm_v128_and(wasm_u16x8_shr(x, 8), k->low);
        w[4 * v + 2] = wasm_v128_and(wasm_u16x8_shr(x, 4), k->low);
        w[4 * v + 3] = wasm_u16x8_shr(x, 12);
    }
    if (!panel_high_bits(type)) return;
    v128_t high = wasm_v128_load(block + panel_high_at(type));
#pragma clang loop unroll(full)
    for (int i = 0; i < PAIRS; i++) {
        int bit = i / 2 + i % 2 * 8; /* of the i16 */
        v128_t moved = bit <= 4 ? wasm_i16x8_shl(high, 4 - bit) : wasm_u16x8_shr(high, bit - 4);
        w[i] = wasm_v128_or(w[i], wasm_v128_and(moved, k->high));
    }
}

/* As unpack, for codes of other widths and values. */
INLINE void unpack_bytes(v128_t *w, const unsigned char *block, enum panel_type type,
                         const struct linear_constants *k) {
#pragma clang loop unroll(full)
    for (int g = 0; g < PAIRS / 2; g++) {
        v128_t x = group_codes(block, g, type, k);
        if (has_values(type)) x = look_up(k->values, x);
        else if (panel_code_offset(type)) x = wasm_i8x16_sub(x, k->offset);
        w[2 * g] = wasm_i16x8_shr(wasm_i16x8_shl(x, 8), 8);
        w[2 * g + 1] = wasm_i16x8_shr(x, 8);
    }
}

/* Activations come by broadcasting loads: shuffles would compete with the products for the same execution
 * units. */
#define PRODUCTS(P) wasm_i32x4_dot_i16x8(wasm_v128_load32_splat(a + 2 * (P)), w[P])

/* Eight columns. */
INLINE v128_t dot8(const v128_t *w, const int16_t *a) {
    v128_t sum = wasm_i32x4_add(PRODUCTS(0), PRODUCTS(1));
    return wasm_i32x4_add(wasm_i32x4_add(sum, PRODUCTS(2)), PRODUCTS(3));
}

INLINE struct sums dot(const v128_t *w, const struct cursor *at, enum panel_type type) {
    const int16_t *x = *at->codes16;
    v128_t low = wasm_i32x4_add(dot8(w, x), dot8(w + 4, x + 8));
    if (panel_groups(type) == 2)
        return (struct sums){low, wasm_i32x4_add(dot8(w + 8, x + 16), dot8(w + 12, x + 24))};
    low = wasm_i32x4_add(wasm_i32x4_add(low, dot8(w + 8, x + 16)), dot8(w + 12, x + 24));
    low = less_offset(low, at->x, type); /* the codes of the others are signed */
    return (struct sums){low, low};
}

LINEAR_CODES(q4_0__simd128, PANEL_Q4_0, PAIRS, unpack, dot, constants)
LINEAR_CODES(q4_1__simd128, PANEL_Q4_1, PAIRS, unpack, dot, constants)
LINEAR_CODES(q5_0__simd128, PANEL_Q5_0, PAIRS, unpack, dot, constants)
LINEAR_CODES(q5_1__simd128, PANEL_Q5_1, PAIRS, unpack, dot, constants)
LINEAR_CODES(q8_0__simd128, PANEL_Q8_0, PAIRS, unpack, dot, constants)
LINEAR_CODES(q2_k__simd128, PANEL_Q2_K, PAIRS, unpack_bytes, dot, byte_constants)
LINEAR_CODES(q3_k__simd128, PANEL_Q3_K, PAIRS, unpack_bytes, dot, byte_constants)
LINEAR_CODES(q6_k__simd128, PANEL_Q6_K, PAIRS, unpack_bytes, dot, byte_constants)
LINEAR_CODES(q4_k__simd128, PANEL_Q4_K, PAIRS, unpack, dot, constants)
LINEAR_CODES(q5_k__simd128, PANEL_Q5_K, PAIRS, unpack, dot, constants)
LINEAR_CODES(iq4_nl__simd128, PANEL_IQ4_NL, PAIRS, unpack_bytes, dot, byte_constants)
LINEAR_CODES(iq4_xs__simd128, PANEL_IQ4_XS, PAIRS, unpack_bytes, dot, byte_constants)
LINEAR_CODES(mxfp4__simd128, PANEL_MXFP4, PAIRS, unpack_bytes, dot, byte_constants)

/* Activation rows that a float panel meets at once: four partial sums of each are in registers. */
enum { FLOAT_COLUMNS = 3 };

/* Weights of one column's four rows. Packing has refused infinity and NaN. */
INLINE v128_t load_floats(const unsigned char *panel, int j, enum panel_type type, v128_t f16_mask,
                          v128_t f16_scale) {
    if (type == PANEL_F32) return wasm_v128_load(panel + 16 * (size_t)j);
    if (type == PANEL_BF16) return wasm_i32x4_shl(wasm_u32x4_load16x4(panel + 8 * (size_t)j), 16);
    return f32x4_from_usual_f16(panel + 8 * (size_t)j, f16_mask, f16_scale);
}

/* Adds column j's products to the partial sums j % 4 of each activation row. */
INLINE void add_column(v128_t acc[FLOAT_COLUMNS][4], int lane, v128_t w, const float *const *x, int j,
                       int nc) {
    for (int c = 0; c < nc; c++) {
        acc[c][lane] = wasm_f32x4_add(acc[c][lane], wasm_f32x4_mul(w, wasm_v128_load32_splat(x[c] + j)));
    }
}

INLINE void floats_tile(float *y, size_t y_stride, const unsigned char *panel, const struct act *a, int col0,
                        int nc, enum panel_type type) {
    v128_t mask = SPLAT_REGISTER(F16_MASK), scale = SPLAT_REGISTER(F16_SCALE);
    v128_t acc[FLOAT_COLUMNS][4];
    const float *x[FLOAT_COLUMNS];
    for (int c = 0; c < nc; c++) {
        x[c] = a->f32 + (size_t)(col0 + c) * a->n_in;
        for (int l = 0; l < 4; l++) acc[c][l] = wasm_f32x4_const_splat(0);
    }
    int j = 0;
    for (; j + 4 <= a->n_in; j += 4) {
        for (int l = 0; l < 4; l++)
            add_column(acc, l, load_floats(panel, j + l, type, mask, scale), x, j + l, nc);
    }
    if (j < a->n_in) add_column(acc, 0, load_floats(panel, j, type, mask, scale), x, j, nc);
    if (j + 1 < a->n_in) add_column(acc, 1, load_floats(panel, j + 1, type, mask, scale), x, j + 1, nc);
    if (j + 2 < a->n_in) add_column(acc, 2, load_floats(panel, j + 2, type, mask, scale), x, j + 2, nc);
    for (int c = 0; c < nc; c++) {
        v128_t even = wasm_f32x4_add(acc[c][0], acc[c][1]), odd = wasm_f32x4_add(acc[c][2], acc[c][3]);
        wasm_v128_store(y + c * y_stride, wasm_f32x4_add(even, odd));
    }
}

#define LINEAR_FLOATS(NAME, TYPE)                                                                            \
    void linear_##NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels,                 \
                       const struct act *a, int col0, int n_cols) {                                          \
        size_t bytes = panel_bytes(TYPE, a->n_in);                                                           \
        for (int p = 0; p < n_panels; p++, panels += bytes, y += PANEL_ROWS) {                               \
            int c = 0;                                                                                       \
            for (; c + FLOAT_COLUMNS <= n_cols; c += FLOAT_COLUMNS) {                                        \
                floats_tile(y + c * y_stride, y_stride, panels, a, col0 + c, FLOAT_COLUMNS, TYPE);           \
            }                                                                                                \
            for (; c < n_cols; c++) floats_tile(y + c * y_stride, y_stride, panels, a, col0 + c, 1, TYPE);   \
        }                                                                                                    \
    }
LINEAR_FLOATS(f32__simd128, PANEL_F32)
LINEAR_FLOATS(f16__simd128, PANEL_F16)
LINEAR_FLOATS(bf16__simd128, PANEL_BF16)

#endif
