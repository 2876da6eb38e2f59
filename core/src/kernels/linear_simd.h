/* The skeleton of linear in the SIMD builds: which panels and columns make a tile, and what happens to a block's integer sums.
 *
 * A tile is NP panels (of 4 rows, one a lane) by NC activation rows. Where the matrix or the batch ends inside a tile, its last
 * panel or column is taken again, and the same numbers are stored twice. */
#ifndef HL_KERNELS_LINEAR_SIMD_H
#define HL_KERNELS_LINEAR_SIMD_H

#include "kernels/impl.h"
#include "kernels/simd.h"

enum { TILE_PANELS = 2, TILE_COLUMNS = 4 };

/* Panels and columns of a tile. */
struct tile {
    const unsigned char *panel[TILE_PANELS];
    int col[TILE_COLUMNS];      /* rows of the activations */
    float *y[TILE_PANELS][TILE_COLUMNS]; /* [4] */
};

typedef void tile_fn(const struct tile *t, const struct act *a);

/* acc + (dw * d) * (sum - offset * a's sum) [+ m * s] */
INLINE v128_t add_block(v128_t acc, v128_t sum, v128_t dw, v128_t m, const struct act *a, size_t at, enum panel_type type) {
    if (panel_code_offset(type)) {
        v128_t offset = wasm_i32x4_shl(wasm_v128_load32_splat(a->sum + at), type == PANEL_Q4_0 ? 3 : 4);
        sum = wasm_i32x4_sub(sum, offset);
    }
    v128_t scale = wasm_f32x4_mul(dw, wasm_v128_load32_splat(a->d + at));
    acc = wasm_f32x4_add(acc, wasm_f32x4_mul(scale, wasm_f32x4_convert_i32x4(sum)));
    if (panel_has_m(type)) acc = wasm_f32x4_add(acc, wasm_f32x4_mul(m, wasm_v128_load32_splat(a->s + at)));
    return acc;
}

static inline int min_int(int a, int b) {
    return a < b ? a : b;
}

/* Runs `tile` on np panels and nc columns at a time, gemv on np panels and one column where half of nc or fewer are left. */
static inline void for_each_tile(float *y, size_t y_stride, const unsigned char *panels, size_t bytes, int n_panels,
                                 const struct act *a, int col0, int n_cols, int np, int nc, tile_fn *gemv, tile_fn *tile) {
    for (int p = 0; p < n_panels; p += np) {
        for (int c = 0, width; c < n_cols; c += width) {
            width = n_cols - c <= nc / 2 ? 1 : nc;
            struct tile t;
            for (int i = 0; i < np; i++) {
                int panel = min_int(p + i, n_panels - 1);
                t.panel[i] = panels + bytes * (size_t)panel;
                for (int j = 0; j < width; j++) {
                    int col = min_int(c + j, n_cols - 1);
                    t.col[j] = col0 + col;
                    t.y[i][j] = y + col * y_stride + (size_t)panel * PANEL_ROWS;
                }
            }
            (width == 1 ? gemv : tile)(&t, a);
        }
    }
}

/* Defines linear_NAME from the always-inlined BODY(t, a, TYPE, np, nc). The tiles are functions of their own, which get pointers
 * only: binaryen 120 fails when it evaluates a relaxed dot of constants. */
#define LINEAR(NAME, BODY, TYPE, NP, NC)                                                                               \
    static __attribute__((noinline)) void gemv_##NAME(const struct tile *t, const struct act *a) {                     \
        BODY(t, a, TYPE, NP, 1);                                                                                       \
    }                                                                                                                  \
    static __attribute__((noinline)) void tile_##NAME(const struct tile *t, const struct act *a) {                     \
        BODY(t, a, TYPE, NP, NC);                                                                                      \
    }                                                                                                                  \
    void linear_##NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels, const struct act *a,      \
                       int col0, int n_cols) {                                                                         \
        for_each_tile(y, y_stride, panels, panel_bytes(TYPE, a->n_in), n_panels, a, col0, n_cols, NP, NC, gemv_##NAME, \
                      tile_##NAME);                                                                                    \
    }

#endif
