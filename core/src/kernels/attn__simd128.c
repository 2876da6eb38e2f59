#ifdef __wasm_simd128__

#include "kernels/impl.h"
#include "kernels/simd.h"

enum { MAX_QUERIES = 4, MAX_KEYS = 4, MAX_VECTORS = 4 };

/* What rows of f16 need, in registers. */
struct row_constants {
    v128_t mask, two_112, high;
};

INLINE struct row_constants row_constants(bool f16) {
    struct row_constants k = {0};
    if (f16)
        k = (struct row_constants){SPLAT_REGISTER(F16_MASK), SPLAT_REGISTER(F16_SCALE),
                                   SPLAT_REGISTER(0x8fff8fff)};
    return k;
}

/* Row j of [n][stride] f32, or f16. */
INLINE const void *row_at(const void *rows, int j, int stride, bool f16) {
    return (const char *)rows + (size_t)j * (size_t)stride * (f16 ? sizeof(uint16_t) : sizeof(float));
}

/* Columns c .. c + 3 of a row. */
INLINE v128_t load_row(const void *row, int c, bool f16, struct row_constants k) {
    if (f16) return f32x4_from_usual_f16((const uint16_t *)row + c, k.mask, k.two_112);
    return wasm_v128_load((const float *)row + c);
}

/* Columns c .. c + 7. */
INLINE void load_row8(v128_t x[2], const void *row, int c, bool f16, struct row_constants k) {
    if (!f16) {
        x[0] = load_row(row, c, false, k);
        x[1] = load_row(row, c + 4, false, k);
        return;
    }
    v128_t h = wasm_v128_load((const uint16_t *)row + c);
    v128_t high = wasm_v128_and(wasm_i16x8_shr(h, 3), k.high), low = wasm_i16x8_shl(h, 13);
    x[0] = wasm_f32x4_mul(wasm_i16x8_shuffle(low, high, 0, 8, 1, 9, 2, 10, 3, 11), k.two_112);
    x[1] = wasm_f32x4_mul(wasm_i16x8_shuffle(low, high, 4, 12, 5, 13, 6, 14, 7, 15), k.two_112);
}

/* Columns c .. c + n - 1, n = 1 .. 3, the other lanes 0. */
INLINE v128_t load_row_part(const void *row, int c, int n, bool f16, struct row_constants k) {
    uint16_t part[4] = {0};
    if (!f16) return load_f32_part((const float *)row + c, n);
    for (int i = 0; i < n; i++) part[i] = ((const uint16_t *)row)[c + i];
    return load_row(part, 0, true, k);
}

/* Adds the products of columns c .. c + 3. */
INLINE void add_scores(v128_t acc[MAX_QUERIES][MAX_KEYS], const float *const *q, const void *const *key,
                       int c, int nq, int nk, bool f16, struct row_constants k) {
    v128_t query[MAX_QUERIES];
    for (int i = 0; i < nq; i++) query[i] = wasm_v128_load(q[i] + c);
    for (int j = 0; j < nk; j++) {
        v128_t x = load_row(key[j], c, f16, k);
        for (int i = 0; i < nq; i++) acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(query[i], x));
    }
}

/* Columns c .. c + 7. */
INLINE void add_scores8(v128_t acc[MAX_QUERIES][MAX_KEYS], const float *const *q, const void *const *key,
                        int c, int nq, int nk, bool f16, struct row_constants k) {
    v128_t x[MAX_KEYS][2];
    for (int j = 0; j < nk; j++) load_row8(x[j], key[j], c, f16, k);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < nq; i++) {
            v128_t query = wasm_v128_load(q[i] + c + 4 * l);
            for (int j = 0; j < nk; j++)
                acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(query, x[j][l]));
        }
}

/* Scores of nq queries with nk keys; a key may be named twice. q[i], key[j]: [d]. */
INLINE void scores_tile(v128_t s[MAX_QUERIES], const float *const *q, const void *const *key, int d, int nq,
                        int nk, bool f16, struct row_constants k) {
    v128_t acc[MAX_QUERIES][MAX_KEYS];
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < MAX_KEYS; j++) acc[i][j] = wasm_f32x4_const_splat(0);
    int c = 0;
    for (; c + 8 <= d; c += 8) add_scores8(acc, q, key, c, nq, nk, f16, k);
    for (; c + 4 <= d; c += 4) add_scores(acc, q, key, c, nq, nk, f16, k);
    if (c < d) {
        for (int j = 0; j < nk; j++) {
            v128_t x = load_row_part(key[j], c, d - c, f16, k);
            for (int i = 0; i < nq; i++)
                acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(load_f32_part(q[i] + c, d - c), x));
        }
    }
    for (int i = 0; i < nq; i++) s[i] = sum_lanes_of_4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

/* Scores of nq queries with all keys. As many keys at a time as leave registers for their sums. */
INLINE void scores_rows(float *s, int s_stride, const float *q, int q_stride, const void *rows, int k_stride,
                        int n_k, int d, int nq, bool f16) {
    int nk = nq > 2 ? 2 : 4;
    struct row_constants k = row_constants(f16);
    const float *query[MAX_QUERIES];
    const void *key[MAX_KEYS];
    for (int i = 0; i < nq; i++) query[i] = q + (size_t)i * q_stride;
    int step = (n_k + nk - 1) / nk;
    for (int j = 0; j < step; j++) {
        v128_t scores[MAX_QUERIES];
        int at[MAX_KEYS];
        for (int l = 0; l < nk; l++) {
            at[l] = j + l * step < n_k ? j + l * step : n_k - 1;
            key[l] = row_at(rows, at[l], k_stride, f16);
        }
        scores_tile(scores, query, key, d, nq, nk, f16, k);
        for (int i = 0; i < nq; i++) {
            float *to = s + (size_t)i * s_stride;
            wasm_v128_store32_lane(to + at[0], scores[i], 0);
            wasm_v128_store32_lane(to + at[1], scores[i], 1);
            if (nk == 2) continue;
            wasm_v128_store32_lane(to + at[2], scores[i], 2);
            wasm_v128_store32_lane(to + at[3], scores[i], 3);
        }
    }
}

INLINE void scores_all(float *s, int s_stride, const float *q, int q_stride, int n_q, const void *k,
                       int k_stride, int n_k, int d, bool f16) {
    for (int left = n_q, n; left > 0; left -= n, s += (size_t)n * s_stride, q += (size_t)n * q_stride) {
        n = left < MAX_QUERIES ? left : MAX_QUERIES;
        switch (n) {
        case 1: scores_rows(s, s_stride, q, q_stride, k, k_stride, n_k, d, 1, f16); break;
        case 2: scores_rows(s, s_stride, q, q_stride, k, k_stride, n_k, d, 2, f16); break;
        case 3: scores_rows(s, s_stride, q, q_stride, k, k_stride, n_k, d, 3, f16); break;
        default: scores_rows(s, s_stride, q, q_stride, k, k_stride, n_k, d, 4, f16);
        }
    }
}

void attn_scores__simd128(float *s, int s_stride, const float *q, int q_stride, int n_q, const float *k,
                          int k_stride, int n_k, int d) {
    scores_all(s, s_stride, q, q_stride, n_q, k, k_stride, n_k, d, false);
}

void attn_scores_f16__simd128(float *s, int s_stride, const float *q, int q_stride, int n_q,
                              const uint16_t *k, int k_stride, int n_k, int d) {
    scores_all(s, s_stride, q, q_stride, n_q, k, k_stride, n_k, d, true);
}

/* Columns c .. c + 4 nv - 1 of nq rows of out. */
INLINE void values_tile(float *out, int out_stride, const float *p, int p_stride, const void *v, int v_stride,
                        int n_k, int c, int nq, int nv, bool f16, struct row_constants k) {
    v128_t acc[MAX_QUERIES][MAX_VECTORS];
    for (int i = 0; i < nq; i++)
        for (int l = 0; l < nv; l++) acc[i][l] = wasm_f32x4_const_splat(0);
    for (int j = 0; j < n_k; j++, v = row_at(v, 1, v_stride, f16), p++) {
        v128_t weight[MAX_QUERIES];
        for (int i = 0; i < nq; i++) weight[i] = wasm_v128_load32_splat(p + (size_t)i * p_stride);
        if (nv == 1) {
            v128_t value = load_row(v, c, f16, k);
            for (int i = 0; i < nq; i++)
                acc[i][0] = wasm_f32x4_add(acc[i][0], wasm_f32x4_mul(weight[i], value));
        }
        for (int l = 0; l + 2 <= nv; l += 2) {
            v128_t value[2];
            load_row8(value, v, c + 4 * l, f16, k);
            for (int i = 0; i < nq; i++)
                for (int m = 0; m < 2; m++)
                    acc[i][l + m] = wasm_f32x4_add(acc[i][l + m], wasm_f32x4_mul(weight[i], value[m]));
        }
    }
    for (int i = 0; i < nq; i++)
        for (int l = 0; l < nv; l++) wasm_v128_store(out + (size_t)i * out_stride + c + 4 * l, acc[i][l]);
}

/* Columns c .. d - 1, fewer than four, of one row. */
INLINE void values_rest(float *out, const float *p, const void *v, int v_stride, int n_k, int c, int d,
                        bool f16, struct row_constants k) {
    v128_t acc = wasm_f32x4_const_splat(0);
    for (int j = 0; j < n_k; j++, v = row_at(v, 1, v_stride, f16)) {
        v128_t value = load_row_part(v, c, d - c, f16, k);
        acc = wasm_f32x4_add(acc, wasm_f32x4_mul(wasm_f32x4_splat(p[j]), value));
    }
    store_f32_part(out + c, acc, d - c);
}

INLINE void values_rows(float *out, int out_stride, const float *p, int p_stride, const void *v, int v_stride,
                        int n_k, int d, int nq, bool f16) {
    int nv = nq > 2 ? 2 : 4, c = 0;
    struct row_constants k = row_constants(f16);
    for (; c + 4 * nv <= d; c += 4 * nv)
        values_tile(out, out_stride, p, p_stride, v, v_stride, n_k, c, nq, nv, f16, k);
    for (; c + 4 <= d; c += 4) values_tile(out, out_stride, p, p_stride, v, v_stride, n_k, c, nq, 1, f16, k);
    for (int i = 0; i < nq && c < d; i++) {
        values_rest(out + (size_t)i * out_stride, p + (size_t)i * p_stride, v, v_stride, n_k, c, d, f16, k);
    }
}

INLINE void values_all(float *out, int out_stride, const float *p, int p_stride, int n_q, const void *v,
                       int v_stride, int n_k, int d, bool f16) {
    for (int left = n_q, n; left > 0; left -= n, out += (size_t)n * out_stride, p += (size_t)n * p_stride) {
        n = left < MAX_QUERIES ? left : MAX_QUERIES;
        switch (n) {
        case 1: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 1, f16); break;
        case 2: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 2, f16); break;
        case 3: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 3, f16); break;
        default: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 4, f16);
        }
    }
}

void attn_values__simd128(float *out, int out_stride, const float *p, int p_stride, int n_q, const float *v,
                          int v_stride, int n_k, int d) {
    values_all(out, out_stride, p, p_stride, n_q, v, v_stride, n_k, d, false);
}

void attn_values_f16__simd128(float *out, int out_stride, const float *p, int p_stride, int n_q,
                              const uint16_t *v, int v_stride, int n_k, int d) {
    values_all(out, out_stride, p, p_stride, n_q, v, v_stride, n_k, d, true);
}

#endif
