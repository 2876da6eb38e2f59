/* The specification of everything but linear: every SIMD build gives these bits. */
#include <float.h>
#include <math.h>

#include "base/f16.h"
#include "kernels/exp.h"
#include "kernels/impl.h"

/* The largest |x|, compared as bits so that a NaN is larger than any number. x: [32]. */
static float block_amax(const float *x) {
    uint32_t amax = 0;
    for (int j = 0; j < PANEL_BLOCK; j++) {
        uint32_t bits = f32_bits(x[j]) & 0x7fffffff;
        if (bits > amax) amax = bits;
    }
    return f32_from_bits(amax);
}

float wide_limit(const struct act *a, int row) {
    int n_blocks = a->n_in / PANEL_BLOCK;
    float sum = 0;
    for (int b = 0; b < n_blocks; b++) {
        float amax = a->blocks[act_at(a, row, b)].d;
        sum += amax * amax;
    }
    return sum / (float)n_blocks;
}

static void quantize_block(const struct act *a, size_t at, const float *x, float range) {
    static const int place[4] = {0, 2, 1, 3}; /* codes16's order inside four columns */
    struct act_block *to = &a->blocks[at];
    struct act_halves *halves = &a->halves[at];
    float amax = to->d;
    bool has_codes = amax >= ACT_MIN && amax <= FLT_MAX, is_wide = range == RANGE_WIDE;
    int32_t sum = 0, first_half = 0;
    for (int j = 0; j < PANEL_BLOCK; j++) {
        if (j == PANEL_BLOCK / 2) first_half = sum;
        int32_t code = has_codes ? (int32_t)rintf(x[j] * (range / amax)) : 0;
        int32_t high = is_wide ? (code + (1 << (LOW_BITS - 1))) >> LOW_BITS : code;
        sum += code;
        a->codes16[at][j / 4 * 4 + place[j % 4]] = (int16_t)code;
        if (range == RANGE_HIGH) continue;
        to->codes8[j] = (int8_t)high;
        if (is_wide) a->low8[at][j] = (int8_t)(code - high * (1 << LOW_BITS));
    }
    to->d = amax < ACT_MIN ? 0 : amax / range;
    to->s = to->d * (float)sum;
    to->sum8 = 8 * sum;
    to->wide = is_wide;
    halves->sum[0] = first_half;
    halves->sum[1] = sum - first_half;
    for (int h = 0; h < 2; h++) halves->s[h] = to->d * (float)halves->sum[h];
}

void quantize__scalar(struct act *a, int row, const float *x, hl_precision precision) {
    int n = a->n_in / PANEL_BLOCK;
    for (int b = 0; b < n; b++) a->blocks[act_at(a, row, b)].d = block_amax(x + b * PANEL_BLOCK);
    float limit = wide_limit(a, row);
    for (int b = 0; b < n; b++) {
        size_t at = act_at(a, row, b);
        quantize_block(a, at, x + b * PANEL_BLOCK, act_range(a->blocks[at].d, limit, precision));
    }
}

static float sum_lanes(const float *lane) { return (lane[0] + lane[1]) + (lane[2] + lane[3]); }

void rms_norm__scalar(float *y, const float *x, const float *w, int n, float eps) {
    float lane[4] = {0};
    for (int i = 0; i < n; i++) lane[i % 4] += x[i] * x[i];
    float scale = 1 / sqrtf(sum_lanes(lane) / (float)n + eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] * scale) * w[i];
}

void add__scalar(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] += x[i];
}

void scale_add__scalar(float *y, float a, const float *x, float b, int n) {
    for (int i = 0; i < n; i++) y[i] = y[i] * a + x[i] * b;
}

void scale__scalar(float *y, float a, int n) {
    for (int i = 0; i < n; i++) y[i] *= a;
}

void silu_mul__scalar(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = silu_f32(g[i]) * u[i];
}

void gelu_mul__scalar(float *y, const float *g, const float *u, int n) {
    for (int i = 0; i < n; i++) y[i] = gelu_f32(g[i]) * u[i];
}

void relu2__scalar(float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = y[i] > 0 ? y[i] * y[i] : 0;
}

void softcap__scalar(float *y, float cap, int n) {
    float double_inverse = 2 / cap;
    for (int i = 0; i < n; i++) y[i] = softcap_f32(y[i], cap, double_inverse);
}

void rope__scalar(float *x, const float *cs, const float *sn, int n_rot, int interleaved) {
    for (int i = 0; i < n_rot / 2; i++) {
        float *x0 = interleaved ? x + 2 * i : x + i;
        float *x1 = interleaved ? x + 2 * i + 1 : x + i + n_rot / 2;
        float a = *x0, b = *x1;
        *x0 = a * cs[i] - b * sn[i];
        *x1 = a * sn[i] + b * cs[i];
    }
}

/* Column c of row j of [n][stride] f32, or f16. */
static float row_number(const void *rows, int j, int stride, int c, bool f16) {
    size_t at = (size_t)j * (size_t)stride + (size_t)c;
    return f16 ? f32_from_finite_f16(((const uint16_t *)rows)[at]) : ((const float *)rows)[at];
}

static void scores(float *s, int s_stride, const float *q, int q_stride, int n_q, const void *k, int k_stride,
                   int n_k, int d, bool f16) {
    for (int i = 0; i < n_q; i++) {
        for (int j = 0; j < n_k; j++) {
            const float *qi = q + (size_t)i * q_stride;
            float lane[4] = {0};
            for (int c = 0; c < d; c++) lane[c % 4] += qi[c] * row_number(k, j, k_stride, c, f16);
            s[(size_t)i * s_stride + j] = sum_lanes(lane);
        }
    }
}

static void values(float *out, int out_stride, const float *p, int p_stride, int n_q, const void *v,
                   int v_stride, int n_k, int d, bool f16) {
    for (int i = 0; i < n_q; i++) {
        float *y = out + (size_t)i * out_stride;
        for (int c = 0; c < d; c++) y[c] = 0;
        for (int j = 0; j < n_k; j++) {
            float pj = p[(size_t)i * p_stride + j];
            for (int c = 0; c < d; c++) y[c] += pj * row_number(v, j, v_stride, c, f16);
        }
    }
}

void attn_scores__scalar(float *s, int s_stride, const float *q, int q_stride, int n_q, const float *k,
                         int k_stride, int n_k, int d) {
    scores(s, s_stride, q, q_stride, n_q, k, k_stride, n_k, d, false);
}

void attn_scores_f16__scalar(float *s, int s_stride, const float *q, int q_stride, int n_q, const uint16_t *k,
                             int k_stride, int n_k, int d) {
    scores(s, s_stride, q, q_stride, n_q, k, k_stride, n_k, d, true);
}

void attn_values__scalar(float *out, int out_stride, const float *p, int p_stride, int n_q, const float *v,
                         int v_stride, int n_k, int d) {
    values(out, out_stride, p, p_stride, n_q, v, v_stride, n_k, d, false);
}

void attn_values_f16__scalar(float *out, int out_stride, const float *p, int p_stride, int n_q,
                             const uint16_t *v, int v_stride, int n_k, int d) {
    values(out, out_stride, p, p_stride, n_q, v, v_stride, n_k, d, true);
}

/* In lanes too, so that of two zeros the same one is returned in every build. */
float max__scalar(const float *x, int n) {
    float lane[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int i = 0; i < n; i++) lane[i % 4] = x[i] > lane[i % 4] ? x[i] : lane[i % 4];
    float a = lane[1] > lane[0] ? lane[1] : lane[0], b = lane[3] > lane[2] ? lane[3] : lane[2];
    return b > a ? b : a;
}

float exp_sum__scalar(float *p, const float *x, int n, float max) {
    float lane[4] = {0};
    for (int i = 0; i < n; i++) {
        p[i] = exp_f32(x[i] - max);
        lane[i % 4] += p[i];
    }
    return sum_lanes(lane);
}

void f32_from_f16_row__scalar(float *dst, const uint16_t *src, int n) {
    for (int i = 0; i < n; i++) dst[i] = f32_from_finite_f16(src[i]);
}

void f16_from_f32_row__scalar(uint16_t *dst, const float *src, int n) {
    for (int i = 0; i < n; i++) dst[i] = f16_from_f32(src[i]);
}
