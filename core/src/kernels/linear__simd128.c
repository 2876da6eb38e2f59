#ifdef __wasm_simd128__

#include <string.h>

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

/* Where `fast` has relaxed kernels for a type, these are for `high` alone, and small code is worth more. */
#ifdef __wasm_relaxed_simd__
enum { TWIN_STREAMS = 1 };
#else
enum { TWIN_STREAMS = 2 };
#endif

LINEAR_CODES(q4_0__simd128, PANEL_Q4_0, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(q4_1__simd128, PANEL_Q4_1, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(q5_0__simd128, PANEL_Q5_0, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(q5_1__simd128, PANEL_Q5_1, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(q8_0__simd128, PANEL_Q8_0, PAIRS, unpack, dot, constants, 2)
LINEAR_CODES(q2_k__simd128, PANEL_Q2_K, PAIRS, unpack_bytes, dot, byte_constants, TWIN_STREAMS)
LINEAR_CODES(q3_k__simd128, PANEL_Q3_K, PAIRS, unpack_bytes, dot, byte_constants, TWIN_STREAMS)
LINEAR_CODES(q6_k__simd128, PANEL_Q6_K, PAIRS, unpack_bytes, dot, byte_constants, TWIN_STREAMS)
LINEAR_CODES(q4_k__simd128, PANEL_Q4_K, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(q5_k__simd128, PANEL_Q5_K, PAIRS, unpack, dot, constants, TWIN_STREAMS)
LINEAR_CODES(iq4_nl__simd128, PANEL_IQ4_NL, PAIRS, unpack_bytes, dot, byte_constants, 2)
LINEAR_CODES(iq4_xs__simd128, PANEL_IQ4_XS, PAIRS, unpack_bytes, dot, byte_constants, 2)
LINEAR_CODES(mxfp4__simd128, PANEL_MXFP4, PAIRS, unpack_bytes, dot, byte_constants, TWIN_STREAMS)

/* Products of floats: 4 columns x 2 panels leave registers for what is loaded. A chunk of the panels' columns is
 * turned into f32 once for a tile, and stays in the first-level cache while the four partial sums of lane order are
 * made one after another. */
enum { FLOAT_COLUMNS = 4, FLOAT_PANELS = 2, FLOAT_CHUNK = 128, FLOAT_GROUPS = TILE_COLUMNS / FLOAT_COLUMNS };

/* Weights of one column's four rows. Packing has refused infinity and NaN. */
INLINE v128_t load_floats(const unsigned char *panel, int j, enum panel_type type, v128_t f16_mask,
                          v128_t f16_scale) {
    if (type == PANEL_F32) return wasm_v128_load(panel + 16 * (size_t)j);
    if (type == PANEL_BF16) return wasm_i32x4_shl(wasm_u32x4_load16x4(panel + 8 * (size_t)j), 16);
    return f32x4_from_usual_f16(panel + 8 * (size_t)j, f16_mask, f16_scale);
}

/* Panel number p of each stream times one column, whose length is a multiple of 4. */
INLINE void floats_gemv(float *y, const unsigned char *panels, int p, int step, int n_panels,
                        const struct act *a, int col, enum panel_type type) {
    v128_t mask = SPLAT_REGISTER(F16_MASK), scale = SPLAT_REGISTER(F16_SCALE);
    v128_t acc[FLOAT_PANELS][4];
    const unsigned char *panel[FLOAT_PANELS];
    const float *x = a->f32 + (size_t)col * (size_t)a->n_in;
    for (int i = 0; i < FLOAT_PANELS; i++) {
        panel[i] = panels + (size_t)stream_panel(p, i, step, n_panels) * panel_bytes(type, a->n_in);
        for (int l = 0; l < 4; l++) acc[i][l] = wasm_f32x4_const_splat(0);
    }
    for (int j = 0; j < a->n_in; j += 4) {
        for (int l = 0; l < 4; l++) {
            v128_t activation = wasm_v128_load32_splat(x + j + l);
            for (int i = 0; i < FLOAT_PANELS; i++)
                acc[i][l] =
                    add_product(acc[i][l], load_floats(panel[i], j + l, type, mask, scale), activation);
        }
    }
    for (int i = 0; i < FLOAT_PANELS; i++) {
        v128_t even = wasm_f32x4_add(acc[i][0], acc[i][1]), odd = wasm_f32x4_add(acc[i][2], acc[i][3]);
        wasm_v128_store(y + stream_panel(p, i, step, n_panels) * PANEL_ROWS, wasm_f32x4_add(even, odd));
    }
}

/* Four partial sums of lane order of each column and panel. */
typedef v128_t float_sums[4][FLOAT_COLUMNS][FLOAT_PANELS];

/* Adds the products of n columns of the panels, w[i]: [n][4], with x[c]: [n]. */
static __attribute__((noinline)) void add_chunk(float_sums sums, const float *const w[FLOAT_PANELS],
                                                const float *const x[FLOAT_COLUMNS], int n) {
    NO_UNROLL for (int l = 0; l < 4; l++) {
        v128_t acc[FLOAT_COLUMNS][FLOAT_PANELS];
        memcpy(acc, sums[l], sizeof acc);
        for (int j = l; j < n; j += 4) {
            v128_t weights[FLOAT_PANELS];
            for (int i = 0; i < FLOAT_PANELS; i++) weights[i] = wasm_v128_load(w[i] + 4 * j);
            for (int c = 0; c < FLOAT_COLUMNS; c++) {
                v128_t activation = wasm_v128_load32_splat(x[c] + j);
                for (int i = 0; i < FLOAT_PANELS; i++)
                    acc[c][i] = add_product(acc[c][i], weights[i], activation);
            }
        }
        memcpy(sums[l], acc, sizeof acc);
    }
}

INLINE void widen_as(float *room, const unsigned char *panel, int j, int n, enum panel_type type) {
    v128_t mask = SPLAT_REGISTER(F16_MASK), scale = SPLAT_REGISTER(F16_SCALE);
    for (int i = 0; i < n; i++) wasm_v128_store(room + 4 * i, load_floats(panel, j + i, type, mask, scale));
}

/* n columns of a panel from column j on, as f32: where they are or in room [n][4]. */
static const float *widen(float *room, const unsigned char *panel, int j, int n, enum panel_type type) {
    if (type == PANEL_F32) return (const float *)(const void *)panel + 4 * (size_t)j;
    if (type == PANEL_F16) widen_as(room, panel, j, n, PANEL_F16);
    else widen_as(room, panel, j, n, PANEL_BF16);
    return room;
}

/* Panel number p of each stream times n_cols columns, 1 .. TILE_COLUMNS; a group's missing ones repeat its last. */
static __attribute__((noinline)) void floats_tile(float *y, size_t y_stride, const unsigned char *panels,
                                                  int p, int step, int n_panels, const struct act *a,
                                                  int col0, int n_cols, enum panel_type type) {
    float_sums sums[FLOAT_GROUPS] = {0};
    float room[FLOAT_PANELS][4 * FLOAT_CHUNK];
    const float *w[FLOAT_PANELS], *x[FLOAT_COLUMNS];
    for (int j = 0; j < a->n_in; j += FLOAT_CHUNK) {
        int n = a->n_in - j < FLOAT_CHUNK ? a->n_in - j : FLOAT_CHUNK;
        for (int i = 0; i < FLOAT_PANELS; i++) {
            const unsigned char *panel =
                panels + (size_t)stream_panel(p, i, step, n_panels) * panel_bytes(type, a->n_in);
            w[i] = widen(room[i], panel, j, n, type);
        }
        for (int g = 0; g * FLOAT_COLUMNS < n_cols; g++) {
            for (int c = 0; c < FLOAT_COLUMNS; c++) {
                int col = g * FLOAT_COLUMNS + c < n_cols ? g * FLOAT_COLUMNS + c : n_cols - 1;
                x[c] = a->f32 + (size_t)(col0 + col) * (size_t)a->n_in + j;
            }
            add_chunk(sums[g], w, x, n);
        }
    }
    for (int c = 0; c < n_cols; c++) {
        v128_t(*s)[FLOAT_COLUMNS][FLOAT_PANELS] = sums[c / FLOAT_COLUMNS];
        for (int i = 0, k = c % FLOAT_COLUMNS; i < FLOAT_PANELS; i++) {
            v128_t even = wasm_f32x4_add(s[0][k][i], s[1][k][i]),
                   odd = wasm_f32x4_add(s[2][k][i], s[3][k][i]);
            int row = stream_panel(p, i, step, n_panels) * PANEL_ROWS;
            wasm_v128_store(y + (size_t)c * y_stride + row, wasm_f32x4_add(even, odd));
        }
    }
}

INLINE void linear_floats(float *y, size_t y_stride, const unsigned char *panels, int n_panels,
                          const struct act *a, int col0, int n_cols, enum panel_type type) {
    int step = (n_panels + FLOAT_PANELS - 1) / FLOAT_PANELS;
    for (int p = 0; p < step; p++) {
        if (n_cols == 1 && a->n_in % 4 == 0) {
            floats_gemv(y, panels, p, step, n_panels, a, col0, type);
            continue;
        }
        for (int c = 0; c < n_cols; c += TILE_COLUMNS) {
            int width = n_cols - c < TILE_COLUMNS ? n_cols - c : TILE_COLUMNS;
            floats_tile(y + (size_t)c * y_stride, y_stride, panels, p, step, n_panels, a, col0 + c, width,
                        type);
        }
    }
}

#define LINEAR_FLOATS(NAME, TYPE)                                                                            \
    void linear_##NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels,                 \
                       const struct act *a, int col0, int n_cols) {                                          \
        linear_floats(y, y_stride, panels, n_panels, a, col0, n_cols, TYPE);                                 \
    }
LINEAR_FLOATS(f32__simd128, PANEL_F32)
LINEAR_FLOATS(f16__simd128, PANEL_F16)
LINEAR_FLOATS(bf16__simd128, PANEL_BF16)

#endif
