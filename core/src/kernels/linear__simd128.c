#ifdef __wasm_simd128__

#include "kernels/linear_simd.h"

/* Weights of eight columns, as i16: lane 2 r holds the first, lane 2 r + 1 the second column of row r. */
struct pairs {
    v128_t c02, c13, c46, c57;
};

/* Columns 8 v .. 8 v + 7 of a block's four rows. */
INLINE struct pairs load_pairs(const unsigned char *block, int v, enum panel_type type) {
    const unsigned char *codes = block + panel_codes_at(type);
    v128_t nibble = wasm_i16x8_const_splat(15), byte = wasm_i16x8_const_splat(255);
    if (type == PANEL_Q8_0) {
        v128_t a = wasm_v128_load(codes + 32 * v), b = wasm_v128_load(codes + 32 * v + 16);
        return (struct pairs){wasm_i16x8_shr(wasm_i16x8_shl(a, 8), 8), wasm_i16x8_shr(a, 8),
                              wasm_i16x8_shr(wasm_i16x8_shl(b, 8), 8), wasm_i16x8_shr(b, 8)};
    }
    v128_t x = wasm_v128_load(codes + 16 * v);
    if (!panel_has_high(type)) {
        return (struct pairs){wasm_v128_and(x, nibble), wasm_v128_and(wasm_u16x8_shr(x, 8), nibble),
                              wasm_v128_and(wasm_u16x8_shr(x, 4), nibble), wasm_u16x8_shr(x, 12)};
    }
    v128_t high = wasm_v128_load(block + panel_high_at(type)), bit = wasm_i8x16_const_splat(16);
    v128_t high0 = v < 2 ? wasm_i16x8_shl(high, 4 - 2 * v) : wasm_u16x8_shr(high, 2 * v - 4);
    v128_t high1 = v < 2 ? wasm_i16x8_shl(high, 3 - 2 * v) : wasm_u16x8_shr(high, 2 * v - 3);
    v128_t a = wasm_v128_or(wasm_v128_and(x, wasm_i8x16_const_splat(15)), wasm_v128_and(high0, bit));
    v128_t b = wasm_v128_or(wasm_v128_and(wasm_u16x8_shr(x, 4), wasm_i8x16_const_splat(15)), wasm_v128_and(high1, bit));
    return (struct pairs){wasm_v128_and(a, byte), wasm_u16x8_shr(a, 8), wasm_v128_and(b, byte), wasm_u16x8_shr(b, 8)};
}

INLINE v128_t add_dot(v128_t sum, v128_t w, const int16_t *a) {
    return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, wasm_v128_load32_splat(a)));
}

INLINE void codes_tile(const struct tile *t, const struct act *a, enum panel_type type, int np, int nc) {
    int n_blocks = a->n_in / PANEL_BLOCK;
    v128_t acc[TILE_PANELS][TILE_COLUMNS];
    const unsigned char *block[TILE_PANELS];
    const int16_t *x[TILE_COLUMNS];
    for (int i = 0; i < np; i++) block[i] = t->panel[i];
    for (int j = 0; j < nc; j++) x[j] = a->codes16 + (size_t)t->col[j] * a->n_in;
    for (int i = 0; i < np; i++)
        for (int j = 0; j < nc; j++) acc[i][j] = wasm_i32x4_const_splat(0);
    for (int b = 0; b < n_blocks; b++) {
        v128_t sum[TILE_PANELS][TILE_COLUMNS];
        for (int i = 0; i < np; i++)
            for (int j = 0; j < nc; j++) sum[i][j] = wasm_i32x4_const_splat(0);
        for (int v = 0; v < 4; v++) {
            struct pairs w[TILE_PANELS];
            for (int i = 0; i < np; i++) w[i] = load_pairs(block[i], v, type);
            for (int j = 0; j < nc; j++) {
                for (int i = 0; i < np; i++) sum[i][j] = add_dot(sum[i][j], w[i].c02, x[j] + 8 * v);
                for (int i = 0; i < np; i++) sum[i][j] = add_dot(sum[i][j], w[i].c13, x[j] + 8 * v + 2);
                for (int i = 0; i < np; i++) sum[i][j] = add_dot(sum[i][j], w[i].c46, x[j] + 8 * v + 4);
                for (int i = 0; i < np; i++) sum[i][j] = add_dot(sum[i][j], w[i].c57, x[j] + 8 * v + 6);
            }
        }
        for (int i = 0; i < np; i++) {
            v128_t dw = f32x4_from_f16(block[i]), m = panel_has_m(type) ? f32x4_from_f16(block[i] + 8) : dw;
            for (int j = 0; j < nc; j++) {
                acc[i][j] = add_block(acc[i][j], sum[i][j], dw, m, a, (size_t)t->col[j] * n_blocks + b, type);
            }
            block[i] += panel_block_bytes(type);
        }
        for (int j = 0; j < nc; j++) x[j] += PANEL_BLOCK;
    }
    for (int i = 0; i < np; i++)
        for (int j = 0; j < nc; j++) wasm_v128_store(t->y[i][j], acc[i][j]);
}

/* Weights of one column's four rows. */
INLINE v128_t load_floats(const unsigned char *panel, int j, enum panel_type type) {
    if (type == PANEL_F32) return wasm_v128_load(panel + 16 * (size_t)j);
    if (type == PANEL_BF16) return wasm_i32x4_shl(wasm_u32x4_load16x4(panel + 8 * (size_t)j), 16);
    return f32x4_from_any_f16(panel + 8 * (size_t)j);
}

/* Adds column j's products to the partial sums j % 4 of each activation row. */
INLINE void add_column(v128_t acc[TILE_COLUMNS][4], int lane, v128_t w, const float *const *x, int j, int nc) {
    for (int c = 0; c < nc; c++) {
        acc[c][lane] = wasm_f32x4_add(acc[c][lane], wasm_f32x4_mul(w, wasm_v128_load32_splat(x[c] + j)));
    }
}

INLINE void floats_tile(const struct tile *t, const struct act *a, enum panel_type type, int np, int nc) {
    (void)np; /* 1 */
    v128_t acc[TILE_COLUMNS][4];
    const float *x[TILE_COLUMNS];
    for (int c = 0; c < nc; c++) {
        x[c] = a->f32 + (size_t)t->col[c] * a->n_in;
        for (int l = 0; l < 4; l++) acc[c][l] = wasm_f32x4_const_splat(0);
    }
    int j = 0;
    for (; j + 4 <= a->n_in; j += 4) {
        for (int l = 0; l < 4; l++) add_column(acc, l, load_floats(t->panel[0], j + l, type), x, j + l, nc);
    }
    if (j < a->n_in) add_column(acc, 0, load_floats(t->panel[0], j, type), x, j, nc);
    if (j + 1 < a->n_in) add_column(acc, 1, load_floats(t->panel[0], j + 1, type), x, j + 1, nc);
    if (j + 2 < a->n_in) add_column(acc, 2, load_floats(t->panel[0], j + 2, type), x, j + 2, nc);
    for (int c = 0; c < nc; c++) {
        v128_t even = wasm_f32x4_add(acc[c][0], acc[c][1]), odd = wasm_f32x4_add(acc[c][2], acc[c][3]);
        wasm_v128_store(t->y[0][c], wasm_f32x4_add(even, odd));
    }
}

LINEAR(f32__simd128, floats_tile, PANEL_F32, 1, 3)
LINEAR(f16__simd128, floats_tile, PANEL_F16, 1, 3)
LINEAR(bf16__simd128, floats_tile, PANEL_BF16, 1, 3)
LINEAR(q4_0__simd128, codes_tile, PANEL_Q4_0, 2, 4)
LINEAR(q4_1__simd128, codes_tile, PANEL_Q4_1, 2, 4)
LINEAR(q5_0__simd128, codes_tile, PANEL_Q5_0, 2, 4)
LINEAR(q5_1__simd128, codes_tile, PANEL_Q5_1, 2, 4)
LINEAR(q8_0__simd128, codes_tile, PANEL_Q8_0, 2, 4)

#endif
