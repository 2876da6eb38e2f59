#ifdef __wasm_relaxed_simd__

#include "kernels/linear_simd.h"

/* Codes of eight columns, four bytes a row: low those of columns 8 v .. 8 v + 3, high those of 8 v + 4 .. 8 v + 7. */
struct quads {
    v128_t low, high;
};

INLINE struct quads load_quads(const unsigned char *block, int v, enum panel_type type) {
    v128_t x = wasm_v128_load(block + panel_codes_at(type) + 16 * v), nibble = wasm_i8x16_const_splat(15);
    struct quads w = {wasm_v128_and(x, nibble), wasm_v128_and(wasm_u16x8_shr(x, 4), nibble)};
    if (!panel_has_high(type)) return w;
    v128_t high = wasm_v128_load(block + panel_high_at(type)), bit = wasm_i8x16_const_splat(16);
    v128_t high0 = v < 2 ? wasm_i16x8_shl(high, 4 - 2 * v) : wasm_u16x8_shr(high, 2 * v - 4);
    v128_t high1 = v < 2 ? wasm_i16x8_shl(high, 3 - 2 * v) : wasm_u16x8_shr(high, 2 * v - 3);
    w.low = wasm_v128_or(w.low, wasm_v128_and(high0, bit));
    w.high = wasm_v128_or(w.high, wasm_v128_and(high1, bit));
    return w;
}

/* The instruction gives the same on every machine since the codes of weights, its second operand, are 0 .. 127. */
INLINE v128_t dot(v128_t w, const int8_t *a) {
    return wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load32_splat(a), w);
}

/* Sums stay in i16 as long as they fit: a lane gets two products an addition. Codes to 15: 8 * 2 * 15 * 127 = 30480, a whole
 * block. Codes to 31: 4 * 2 * 31 * 127 = 31496, half a block. */
INLINE void codes_tile(const struct tile *t, const struct act *a, enum panel_type type, int np, int nc) {
    int n_blocks = a->n_in / PANEL_BLOCK;
    v128_t acc[TILE_PANELS][TILE_COLUMNS];
    const unsigned char *block[TILE_PANELS];
    const int8_t *x[TILE_COLUMNS];
    for (int i = 0; i < np; i++) block[i] = t->panel[i];
    for (int j = 0; j < nc; j++) x[j] = a->codes8 + (size_t)t->col[j] * a->n_in;
    for (int i = 0; i < np; i++)
        for (int j = 0; j < nc; j++) acc[i][j] = wasm_i32x4_const_splat(0);
    for (int b = 0; b < n_blocks; b++) {
        v128_t sum16[TILE_PANELS][TILE_COLUMNS], half[TILE_PANELS][TILE_COLUMNS];
        for (int v = 0; v < 4; v++) {
            bool starts = v == 0 || (v == 2 && panel_has_high(type));
            struct quads w[TILE_PANELS];
            for (int i = 0; i < np; i++) w[i] = load_quads(block[i], v, type);
            for (int j = 0; j < nc; j++) {
                for (int i = 0; i < np; i++) {
                    v128_t products = dot(w[i].low, x[j] + 8 * v);
                    sum16[i][j] = starts ? products : wasm_i16x8_add(sum16[i][j], products);
                }
                for (int i = 0; i < np; i++) {
                    sum16[i][j] = wasm_i16x8_add(sum16[i][j], dot(w[i].high, x[j] + 8 * v + 4));
                    if (v == 1 && panel_has_high(type)) half[i][j] = wasm_i32x4_extadd_pairwise_i16x8(sum16[i][j]);
                }
            }
        }
        for (int i = 0; i < np; i++) {
            v128_t dw = f32x4_from_f16(block[i]), m = panel_has_m(type) ? f32x4_from_f16(block[i] + 8) : dw;
            for (int j = 0; j < nc; j++) {
                v128_t sum = wasm_i32x4_extadd_pairwise_i16x8(sum16[i][j]);
                if (panel_has_high(type)) sum = wasm_i32x4_add(sum, half[i][j]);
                acc[i][j] = add_block(acc[i][j], sum, dw, m, a, (size_t)t->col[j] * n_blocks + b, type);
            }
            block[i] += panel_block_bytes(type);
        }
        for (int j = 0; j < nc; j++) x[j] += PANEL_BLOCK;
    }
    for (int i = 0; i < np; i++)
        for (int j = 0; j < nc; j++) wasm_v128_store(t->y[i][j], acc[i][j]);
}

LINEAR(q4_0__relaxed, codes_tile, PANEL_Q4_0, 2, 4)
LINEAR(q4_1__relaxed, codes_tile, PANEL_Q4_1, 2, 4)
LINEAR(q5_0__relaxed, codes_tile, PANEL_Q5_0, 2, 4)
LINEAR(q5_1__relaxed, codes_tile, PANEL_Q5_1, 2, 4)

#endif
