#ifdef __wasm_simd128__

#include <float.h>

#include "kernels/impl.h"
#include "kernels/simd.h"

/* The largest |x|, compared as bits. x: [8] vectors */
INLINE float block_amax(const v128_t *x) {
    v128_t amax = wasm_i32x4_const_splat(0);
    for (int i = 0; i < 8; i++)
        amax = wasm_i32x4_max(amax, wasm_v128_and(x[i], wasm_i32x4_const_splat(INT32_MAX)));
    amax = wasm_i32x4_max(amax, wasm_i32x4_shuffle(amax, amax, 2, 3, 0, 1));
    amax = wasm_i32x4_max(amax, wasm_i32x4_shuffle(amax, amax, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(amax, 0);
}

/* Rounded to the nearest even integer: 1.5 * 2^23 has the unit 1 in its last place. |x| < 2^22 */
INLINE v128_t round_i32x4(v128_t x) {
    v128_t magic = wasm_f32x4_const_splat(0x1.8p23f);
    return wasm_i32x4_sub(wasm_f32x4_add(x, magic), magic);
}

INLINE int32_t sum_lanes_i32x4(v128_t x) {
    x = wasm_i32x4_add(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
    return wasm_i32x4_extract_lane(x, 0) + wasm_i32x4_extract_lane(x, 1);
}

/* Codes of one block: x times inverse. sum: [2] those of its halves. pair: [4] vectors of codes in order. x:
 * [8] vectors; codes16: [32]. */
INLINE void store_codes(int32_t *sum, int16_t *codes16, v128_t *pair, const v128_t *x, float inverse) {
    v128_t scale = wasm_f32x4_splat(inverse), sums[4];
    for (int i = 0; i < 4; i++) {
        v128_t low = round_i32x4(wasm_f32x4_mul(x[2 * i], scale)),
               high = round_i32x4(wasm_f32x4_mul(x[2 * i + 1], scale));
        sums[i] = wasm_i32x4_add(low, high);
        pair[i] = wasm_i16x8_narrow_i32x4(low, high);
        wasm_v128_store(codes16 + 8 * i, wasm_i16x8_shuffle(pair[i], pair[i], 0, 2, 1, 3, 4, 6, 5, 7));
    }
    sum[0] = sum_lanes_i32x4(wasm_i32x4_add(sums[0], sums[1]));
    sum[1] = sum_lanes_i32x4(wasm_i32x4_add(sums[2], sums[3]));
}

/* pair: [4] vectors of i16; dst: [32]. */
INLINE void store_i8(int8_t *dst, const v128_t *pair) {
    wasm_v128_store(dst, wasm_i8x16_narrow_i16x8(pair[0], pair[1]));
    wasm_v128_store(dst + 16, wasm_i8x16_narrow_i16x8(pair[2], pair[3]));
}

INLINE void store_wide(int8_t *high8, int8_t *low8, const v128_t *pair) {
    v128_t high[4], low[4];
    for (int i = 0; i < 4; i++) {
        high[i] =
            wasm_i16x8_shr(wasm_i16x8_add(pair[i], wasm_i16x8_const_splat(1 << (LOW_BITS - 1))), LOW_BITS);
        low[i] = wasm_i16x8_sub(pair[i], wasm_i16x8_shl(high[i], LOW_BITS));
    }
    store_i8(high8, high);
    store_i8(low8, low);
}

INLINE void load_block(v128_t *v, const float *x) {
    for (int i = 0; i < 8; i++) v[i] = wasm_v128_load(x + 4 * i);
}

INLINE void quantize_block(const struct act *a, size_t at, const float *x, float range) {
    struct act_block *to = &a->blocks[at];
    struct act_halves *halves = &a->halves[at];
    v128_t v[8] = {0}, pair[4];
    float amax = to->d, d = amax < ACT_MIN ? 0 : amax / range;
    bool has_codes = amax >= ACT_MIN && amax <= FLT_MAX;
    if (has_codes) load_block(v, x);
    store_codes(halves->sum, a->codes16[at], pair, v, has_codes ? range / amax : 0);
    if (range == RANGE_WIDE) store_wide(to->codes8, a->low8[at], pair);
    else if (range == RANGE_NARROW) store_i8(to->codes8, pair);
    int32_t sum = halves->sum[0] + halves->sum[1];
    to->d = d;
    to->s = d * (float)sum;
    to->sum8 = 8 * sum;
    to->wide = range == RANGE_WIDE;
    for (int h = 0; h < 2; h++) halves->s[h] = d * (float)halves->sum[h];
}

void quantize__simd128(struct act *a, int row, const float *x, hl_precision precision) {
    int n = a->n_in / PANEL_BLOCK;
    for (int b = 0; b < n; b++) {
        v128_t v[8];
        load_block(v, x + b * PANEL_BLOCK);
        a->blocks[act_at(a, row, b)].d = block_amax(v);
    }
    float limit = wide_limit(a, row);
    for (int b = 0; b < n; b++) {
        size_t at = act_at(a, row, b);
        quantize_block(a, at, x + b * PANEL_BLOCK, act_range(a->blocks[at].d, limit, precision));
    }
}

void rms_norm__simd128(float *y, const float *x, const float *w, int n, float eps) {
    v128_t sum = wasm_f32x4_const_splat(0);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t v = wasm_v128_load(x + i);
        sum = wasm_f32x4_add(sum, wasm_f32x4_mul(v, v));
    }
    if (i < n) {
        v128_t v = load_f32_part(x + i, n - i);
        sum = wasm_f32x4_add(sum, wasm_f32x4_mul(v, v));
    }
    float scale = 1 / sqrtf(sum_lanes_f32x4(sum) / (float)n + eps);
    v128_t scales = wasm_f32x4_splat(scale);
    for (i = 0; i + 4 <= n; i += 4) {
        wasm_v128_store(y + i,
                        wasm_f32x4_mul(wasm_f32x4_mul(wasm_v128_load(x + i), scales), wasm_v128_load(w + i)));
    }
    for (; i < n; i++) y[i] = (x[i] * scale) * w[i];
}

void add__simd128(float *y, const float *x, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(y + i, wasm_f32x4_add(wasm_v128_load(y + i), wasm_v128_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}

void scale_add__simd128(float *y, float a, const float *x, float b, int n) {
    v128_t va = wasm_f32x4_splat(a), vb = wasm_f32x4_splat(b);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t ya = wasm_f32x4_mul(wasm_v128_load(y + i), va);
        wasm_v128_store(y + i, wasm_f32x4_add(ya, wasm_f32x4_mul(wasm_v128_load(x + i), vb)));
    }
    for (; i < n; i++) y[i] = y[i] * a + x[i] * b;
}

void scale__simd128(float *y, float a, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4)
        wasm_v128_store(y + i, wasm_f32x4_mul(wasm_v128_load(y + i), wasm_f32x4_splat(a)));
    for (; i < n; i++) y[i] *= a;
}

void silu_mul__simd128(float *y, const float *g, const float *u, int n) {
    struct exp_constants k = exp_constants();
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t x = wasm_v128_load(g + i);
        v128_t silu = wasm_f32x4_div(x, wasm_f32x4_add(k.one, exp_f32x4(wasm_f32x4_neg(x), k)));
        wasm_v128_store(y + i, wasm_f32x4_mul(silu, wasm_v128_load(u + i)));
    }
    for (; i < n; i++) y[i] = silu_f32(g[i]) * u[i];
}

void gelu_mul__simd128(float *y, const float *g, const float *u, int n) {
    struct exp_constants k = exp_constants();
    v128_t gelu_a = SPLAT_REGISTER_F32(GELU_A), gelu_b = SPLAT_REGISTER_F32(GELU_B);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t x = wasm_v128_load(g + i);
        v128_t z = wasm_f32x4_mul(gelu_b, wasm_f32x4_mul(x, x));
        z = wasm_f32x4_mul(wasm_f32x4_neg(x), wasm_f32x4_add(gelu_a, z));
        v128_t gelu = wasm_f32x4_div(x, wasm_f32x4_add(k.one, exp_f32x4(z, k)));
        wasm_v128_store(y + i, wasm_f32x4_mul(gelu, wasm_v128_load(u + i)));
    }
    for (; i < n; i++) y[i] = gelu_f32(g[i]) * u[i];
}

void relu2__simd128(float *y, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t x = wasm_v128_load(y + i);
        x = wasm_v128_and(x, wasm_f32x4_gt(x, wasm_f32x4_const_splat(0)));
        wasm_v128_store(y + i, wasm_f32x4_mul(x, x));
    }
    for (; i < n; i++) y[i] = y[i] > 0 ? y[i] * y[i] : 0;
}

void softcap__simd128(float *y, float cap, int n) {
    struct exp_constants k = exp_constants();
    v128_t two = SPLAT_REGISTER_F32(2), caps = wasm_f32x4_splat(cap);
    float double_inverse = 2 / cap;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t e = exp_f32x4(wasm_f32x4_mul(wasm_v128_load(y + i), wasm_f32x4_splat(double_inverse)), k);
        v128_t tanh = wasm_f32x4_sub(k.one, wasm_f32x4_div(two, wasm_f32x4_add(e, k.one)));
        wasm_v128_store(y + i, wasm_f32x4_mul(caps, tanh));
    }
    for (; i < n; i++) y[i] = softcap_f32(y[i], cap, double_inverse);
}

/* Rotates four pairs: (x0, x1) by the angles at cs, sn. */
INLINE void rotate(v128_t *x0, v128_t *x1, const float *cs, const float *sn) {
    v128_t c = wasm_v128_load(cs), s = wasm_v128_load(sn), a = *x0, b = *x1;
    *x0 = wasm_f32x4_sub(wasm_f32x4_mul(a, c), wasm_f32x4_mul(b, s));
    *x1 = wasm_f32x4_add(wasm_f32x4_mul(a, s), wasm_f32x4_mul(b, c));
}

void rope__simd128(float *x, const float *cs, const float *sn, int n_rot, int interleaved) {
    int half = n_rot / 2, i = 0;
    for (; i + 4 <= half; i += 4) {
        if (interleaved) {
            v128_t a = wasm_v128_load(x + 2 * i), b = wasm_v128_load(x + 2 * i + 4);
            v128_t x0 = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6), x1 = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
            rotate(&x0, &x1, cs + i, sn + i);
            wasm_v128_store(x + 2 * i, wasm_i32x4_shuffle(x0, x1, 0, 4, 1, 5));
            wasm_v128_store(x + 2 * i + 4, wasm_i32x4_shuffle(x0, x1, 2, 6, 3, 7));
        } else {
            v128_t x0 = wasm_v128_load(x + i), x1 = wasm_v128_load(x + half + i);
            rotate(&x0, &x1, cs + i, sn + i);
            wasm_v128_store(x + i, x0);
            wasm_v128_store(x + half + i, x1);
        }
    }
    for (; i < half; i++) {
        float *x0 = interleaved ? x + 2 * i : x + i, *x1 = interleaved ? x + 2 * i + 1 : x + half + i;
        float a = *x0, b = *x1;
        *x0 = a * cs[i] - b * sn[i];
        *x1 = a * sn[i] + b * cs[i];
    }
}

float max__simd128(const float *x, int n) {
    v128_t max = wasm_f32x4_const_splat(-INFINITY);
    int i = 0;
    for (; i + 4 <= n; i += 4) max = wasm_f32x4_pmax(max, wasm_v128_load(x + i)); /* b > a ? b : a */
    float lane[4];
    wasm_v128_store(lane, max);
    for (; i < n; i++) lane[i % 4] = x[i] > lane[i % 4] ? x[i] : lane[i % 4];
    float a = lane[1] > lane[0] ? lane[1] : lane[0], b = lane[3] > lane[2] ? lane[3] : lane[2];
    return b > a ? b : a;
}

float exp_sum__simd128(float *p, const float *x, int n, float max) {
    struct exp_constants k = exp_constants();
    v128_t sum = wasm_f32x4_const_splat(0), maxima = wasm_f32x4_splat(max);
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t y = exp_f32x4(wasm_f32x4_sub(wasm_v128_load(x + i), maxima), k);
        wasm_v128_store(p + i, y);
        sum = wasm_f32x4_add(sum, y);
    }
    float lane[4];
    wasm_v128_store(lane, sum);
    for (; i < n; i++) {
        p[i] = exp_f32(x[i] - max);
        lane[i % 4] += p[i];
    }
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

void f32_from_f16_row__simd128(float *dst, const uint16_t *src, int n) {
    v128_t mask = SPLAT_REGISTER(F16_MASK), two_112 = SPLAT_REGISTER(F16_SCALE);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = i; j < i + 16; j += 4)
            wasm_v128_store(dst + j, f32x4_from_usual_f16(src + j, mask, two_112));
    for (; i + 4 <= n; i += 4) wasm_v128_store(dst + i, f32x4_from_usual_f16(src + i, mask, two_112));
    for (; i < n; i++) dst[i] = f32_from_finite_f16(src[i]);
}

/* f16_from_f32 of four. */
INLINE v128_t f16_from_f32x4(v128_t x) {
    v128_t sign = wasm_v128_and(wasm_u32x4_shr(x, 16), wasm_i32x4_const_splat(0x8000));
    v128_t rest = wasm_v128_and(x, wasm_i32x4_const_splat(INT32_MAX)), shifted = wasm_u32x4_shr(rest, 13);
    v128_t odd = wasm_v128_and(shifted, wasm_i32x4_const_splat(1));
    v128_t rounded = wasm_i32x4_add(wasm_i32x4_add(rest, wasm_i32x4_const_splat(0xfff - 0x38000000)), odd);
    v128_t half = wasm_f32x4_const_splat(0.5f);
    v128_t subnormal = wasm_i32x4_sub(wasm_f32x4_add(rest, half), half);
    v128_t y = wasm_v128_bitselect(subnormal, wasm_u32x4_shr(rounded, 13),
                                   wasm_i32x4_lt(rest, wasm_i32x4_const_splat(0x38800000)));
    y = wasm_v128_bitselect(wasm_i32x4_const_splat(0x7c00), y,
                            wasm_i32x4_ge(rest, wasm_i32x4_const_splat(0x477ff000)));
    v128_t nan =
        wasm_v128_or(wasm_v128_and(shifted, wasm_i32x4_const_splat(0x3ff)), wasm_i32x4_const_splat(0x7e00));
    y = wasm_v128_bitselect(nan, y, wasm_i32x4_gt(rest, wasm_i32x4_const_splat(0x7f800000)));
    return wasm_v128_or(sign, y);
}

void f16_from_f32_row__simd128(uint16_t *dst, const float *src, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = f16_from_f32x4(wasm_v128_load(src + i)),
               high = f16_from_f32x4(wasm_v128_load(src + i + 4));
        wasm_v128_store(dst + i, wasm_u16x8_narrow_i32x4(low, high));
    }
    for (; i < n; i++) dst[i] = f16_from_f32(src[i]);
}

#endif
