/* The specification of linear: every SIMD build gives these bits. */
#include <string.h>

#include "base/f16.h"
#include "kernels/impl.h"

/* Activation codes of one block, columns in order. codes: [32]. */
static void act_codes(int16_t *codes, const int16_t *codes16) {
    static const int column[4] = {0, 2, 1, 3}; /* codes16's order inside four columns */
    for (int j = 0; j < PANEL_BLOCK; j++) codes[j / 4 * 4 + column[j % 4]] = codes16[j];
}

static int32_t dot_codes(const int8_t *w, const int16_t *a, int n) {
    int32_t sum = 0;
    for (int j = 0; j < n; j++) sum += w[j] * a[j];
    return sum;
}

/* Adds block b of row r of a panel to the outputs y[c * y_stride] of all columns. */
static void add_block(float *y, size_t y_stride, enum panel_type t, const unsigned char *panel, int r, int b,
                      const struct act *a, int col0, int n_cols) {
    int8_t w[PANEL_BLOCK];
    float d[2], m[2];
    int n_groups = panel_groups(t), width = PANEL_BLOCK / n_groups;
    panel_block_codes(w, t, panel_block_at(t, panel, b), r);
    panel_block_scales(d, m, t, panel, b, r);
    for (int c = 0; c < n_cols; c++) {
        int16_t codes[PANEL_BLOCK];
        size_t at = act_at(a, col0 + c, b);
        const struct act_block *x = &a->blocks[at];
        act_codes(codes, a->codes16[at]);
        for (int g = 0; g < n_groups; g++)
            y[c * y_stride] += (d[g] * x->d) * (float)dot_codes(w + g * width, codes + g * width, width);
        for (int g = 0; panel_has_m(t) && g < n_groups; g++)
            y[c * y_stride] += m[g] * (n_groups == 1 ? x->s : a->halves[at].s[g]);
    }
}

static void linear_codes(float *y, size_t y_stride, enum panel_type t, const unsigned char *panels,
                         int n_panels, const struct act *a, int col0, int n_cols) {
    for (int c = 0; c < n_cols; c++) memset(y + c * y_stride, 0, (size_t)n_panels * PANEL_ROWS * sizeof *y);
    for (int p = 0; p < n_panels; p++, panels += panel_bytes(t, a->n_in)) {
        for (int b = 0; b < a->n_in / PANEL_BLOCK; b++) {
            for (int r = 0; r < PANEL_ROWS; r++)
                add_block(y + p * PANEL_ROWS + r, y_stride, t, panels, r, b, a, col0, n_cols);
        }
    }
}

/* Weight i of a panel of single weights. */
static float float_weight(enum panel_type t, const unsigned char *panel, size_t i) {
    uint16_t h;
    if (t == PANEL_F32) {
        float f;
        memcpy(&f, panel + 4 * i, 4);
        return f;
    }
    memcpy(&h, panel + 2 * i, 2);
    return t == PANEL_F16 ? f32_from_f16(h) : f32_from_bf16(h);
}

static void linear_floats(float *y, size_t y_stride, enum panel_type t, const unsigned char *panels,
                          int n_panels, const struct act *a, int col0, int n_cols) {
    for (int p = 0; p < n_panels; p++, panels += panel_bytes(t, a->n_in)) {
        for (int c = 0; c < n_cols; c++) {
            const float *x = a->f32 + (size_t)(col0 + c) * a->n_in;
            for (int r = 0; r < PANEL_ROWS; r++) {
                float sum[4] = {0};
                for (int j = 0; j < a->n_in; j++)
                    sum[j % 4] += float_weight(t, panels, 4 * (size_t)j + r) * x[j];
                y[c * y_stride + p * PANEL_ROWS + r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            }
        }
    }
}

#define LINEAR_CODES(NAME, TYPE)                                                                             \
    void NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels, const struct act *a,     \
              int col0, int n_cols) {                                                                        \
        linear_codes(y, y_stride, TYPE, panels, n_panels, a, col0, n_cols);                                  \
    }
LINEAR_CODES(linear_q4_0__scalar, PANEL_Q4_0)
LINEAR_CODES(linear_q4_1__scalar, PANEL_Q4_1)
LINEAR_CODES(linear_q5_0__scalar, PANEL_Q5_0)
LINEAR_CODES(linear_q5_1__scalar, PANEL_Q5_1)
LINEAR_CODES(linear_q8_0__scalar, PANEL_Q8_0)
LINEAR_CODES(linear_q2_k__scalar, PANEL_Q2_K)
LINEAR_CODES(linear_q3_k__scalar, PANEL_Q3_K)
LINEAR_CODES(linear_q6_k__scalar, PANEL_Q6_K)
LINEAR_CODES(linear_q4_k__scalar, PANEL_Q4_K)
LINEAR_CODES(linear_q5_k__scalar, PANEL_Q5_K)
LINEAR_CODES(linear_iq4_nl__scalar, PANEL_IQ4_NL)
LINEAR_CODES(linear_iq4_xs__scalar, PANEL_IQ4_XS)
LINEAR_CODES(linear_mxfp4__scalar, PANEL_MXFP4)

#define LINEAR_FLOATS(NAME, TYPE)                                                                            \
    void NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels, const struct act *a,     \
              int col0, int n_cols) {                                                                        \
        linear_floats(y, y_stride, TYPE, panels, n_panels, a, col0, n_cols);                                 \
    }
LINEAR_FLOATS(linear_f32__scalar, PANEL_F32)
LINEAR_FLOATS(linear_f16__scalar, PANEL_F16)
LINEAR_FLOATS(linear_bf16__scalar, PANEL_BF16)
