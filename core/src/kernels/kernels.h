/* Arithmetic on arrays: plain pointers and sizes. Kernels allocate nothing and know no thread.
 *
 * One table, filled reference first: scalar C is the specification, SIMD builds overwrite its slots. Every
 * slot gives the same bits in every build: sums run in the order written here, no fused multiply-add, no
 * relaxed_madd.
 *   lane order   a sum over i is kept in 4 partial sums, element i in partial sum i % 4, each in order of i;
 *   then (0 + 1) + (2 + 3). */
#ifndef HL_KERNELS_KERNELS_H
#define HL_KERNELS_KERNELS_H

#include <stdint.h>

#include "headlight.h"
#include "quant/panel.h"

/* A block of 32 activations x as quantized matrices read it: x ~ d * code.
 *   codes are rounded to nearest even of x * (range / amax), d = amax / range, amax the block's largest |x|
 *   HL_FAST  range 127, and 16256 = 127 * 128 for wide blocks: those whose amax^2 is above the mean of all
 *            the row's blocks. They are about a fifth of all, and hold most of the error that 8 bits would
 *            make.
 *   HL_HIGH  range 32767
 * A block whose amax is below 2^-87 is 0: smaller scales would multiply to subnormals, which processors are
 * slow at. A block with a NaN or an infinity has codes 0 and d = NaN or infinity, so that the outputs are
 * NaN. */
struct act_block {
    float d, s;         /* s = d * (float)(sum of the codes) */
    int32_t sum8, wide; /* 8 times the sum of the codes; 1 or 0, HL_FAST only */
    /* HL_FAST: the code, or in a wide block (code - low8) / 128 */
    int8_t codes8[PANEL_BLOCK];
};

/* Of a block's columns 0 .. 15 and 16 .. 31. */
struct act_halves {
    float s[2];
    int32_t sum[2]; /* of the codes */
};

/* Activations of n_rows rows. What several rows have of one block lies side by side: a tile reads it so. Parts
 * that few kernels read have arrays of their own, since what an inner loop reads should fit the first-level
 * cache. */
struct act {
    int n_in; /* columns; a multiple of 32 when codes are used */
    int n_rows;
    const float *f32;            /* [n_rows][n_in] */
    struct act_block *blocks;    /* [n_in / 32][n_rows] */
    struct act_halves *halves;   /* [n_in / 32][n_rows] */
    int8_t (*low8)[PANEL_BLOCK]; /* [n_in / 32][n_rows], in [-64, 63]; only those of wide blocks are set */
    int16_t (
        *codes16)[PANEL_BLOCK]; /* [n_in / 32][n_rows]; the codes, inside each group of four columns in the
                                      order 0 2 1 3, so that two at a time meet the panels' bytes */
};

/* Where columns 32 b .. 32 b + 31 of a row are in these. */
static inline size_t act_at(const struct act *a, int row, int b) {
    return (size_t)b * (size_t)a->n_rows + (size_t)row;
}

/* y[c * y_stride + r] = dot(weight row r, activation row col0 + c), r in [0, 4 n_panels), c in [0, n_cols).
 * Quantized panels, for each output, over blocks b in order, starting from 0:
 *     acc += (dw * d) * (float)(sum of (codes w - offset) * codes a)      for each scale of the block: one,
 *     or one for each half
 *     acc += m * s                                                    for each offset m; s of its half where
 *     there are two
 * the inner sums are exact integers. Float panels: lane order over columns. panels: the first of n_panels
 * panels. */
typedef void linear_fn(float *y, size_t y_stride, const unsigned char *panels, int n_panels,
                       const struct act *a, int col0, int n_cols);

enum { Q8_GROUP = 32, Q8_BYTES = 34 };

struct kernels {
    linear_fn *linear_fast[PANEL_TYPES]; /* activations of HL_FAST; float panels: the same as linear_high */
    linear_fn *linear_high[PANEL_TYPES]; /* activations of HL_HIGH */

    /* Fills the blocks of row `row` from x [n_in]. */
    void (*quantize)(struct act *a, int row, const float *x, hl_precision precision);

    /* y[i] = (x[i] * scale) * w[i], scale = 1 / sqrt(sum(x^2) / n + eps), the sum in lane order. x, w, y:
     * [n]; y may be x. */
    void (*rms_norm)(float *y, const float *x, const float *w, int n, float eps);

    /* y[i] += x[i].   [n] */
    void (*add)(float *y, const float *x, int n);
    /* y[i] = y[i] * a + x[i] * b.   [n] */
    void (*scale_add)(float *y, float a, const float *x, float b, int n);
    /* y[i] *= a.   [n] */
    void (*scale)(float *y, float a, int n);

    /* y[i] = silu(g[i]) * u[i], silu(x) = x / (1 + exp(-x)), exp as exp_sum's.   [n]; y may be g or u. */
    void (*silu_mul)(float *y, const float *g, const float *u, int n);
    /* y[i] = gelu(g[i]) * u[i], the tanh form: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).   [n]; y
     * may be g or u. */
    void (*gelu_mul)(float *y, const float *g, const float *u, int n);

    /* y[i] = max(y[i], 0)^2.   [n] */
    void (*relu2)(float *y, int n);
    /* y[i] = cap * tanh(y[i] / cap), as cap * (1 - 2 / (exp(2 y / cap) + 1)).   [n] */
    void (*softcap)(float *y, float cap, int n);

    /* Rotates the first n_rot of x [n]: pairs (2i, 2i + 1) when interleaved, else (i, i + n_rot / 2). cs:
     * cosines, sn: sines [n_rot / 2].
     *     x0' = x0 * cos - x1 * sin,  x1' = x0 * sin + x1 * cos */
    void (*rope)(float *x, const float *cs, const float *sn, int n_rot, int interleaved);

    /* Scores of n_q query rows with n_k key rows of d floats (d a multiple of 4 or not): s[i * s_stride + j]
     * = dot(q_i, k_j), lane order. q: [n_q][q_stride], k: [n_k][k_stride], s: [n_q][s_stride]. */
    void (*attn_scores)(float *s, int s_stride, const float *q, int q_stride, int n_q, const float *k,
                        int k_stride, int n_k, int d);
    /* out_i = sum over j in order of p[i * p_stride + j] * v_j, starting from 0. v: [n_k][v_stride], out:
     * [n_q][out_stride] (overwritten), d floats. */
    void (*attn_values)(float *out, int out_stride, const float *p, int p_stride, int n_q, const float *v,
                        int v_stride, int n_k, int d);
    /* The same of rows as the cache keeps them. Bit-equal to the above on f32_from_f16_row's numbers. */
    void (*attn_scores_f16)(float *s, int s_stride, const float *q, int q_stride, int n_q, const uint16_t *k,
                            int k_stride, int n_k, int d);
    void (*attn_values_f16)(float *out, int out_stride, const float *p, int p_stride, int n_q,
                            const uint16_t *v, int v_stride, int n_k, int d);
    /* Largest of x [n], n >= 1. */
    float (*max)(const float *x, int n);
    /* p[i] = exp(x[i] - max); returns the sum in lane order. p may be x.   [n]
     * exp is one polynomial for all builds, within 2 ulp, 0 below -87, infinity above 88. */
    float (*exp_sum)(float *p, const float *x, int n, float max);

    /* Rows of the cache.   [n]  Its f16 are finite: exponent 31 means 2^16, one step above exponent 30. */
    void (*f32_from_f16_row)(float *dst, const uint16_t *src, int n);
    void (*f16_from_f32_row)(uint16_t *dst, const float *src, int n);
    /* Groups of Q8_GROUP numbers as {f16 scale, i8 [32]}, Q8_BYTES each; n a multiple of Q8_GROUP. */
    void (*f32_from_q8_row)(float *dst, const unsigned char *src, int n);
    void (*q8_from_f32_row)(unsigned char *dst, const float *src, int n);
};

/* This build's table. */
const struct kernels *kernels_get(void);

/* The scalar table, for tests. */
const struct kernels *kernels_scalar(void);

#endif
