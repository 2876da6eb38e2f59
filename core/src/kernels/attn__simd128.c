#ifdef __wasm_simd128__

#include "kernels/impl.h"
#include "kernels/simd.h"

enum { KEYS = 4, MAX_QUERIES = 4 };

/* Scores of nq queries with four keys; a key may be named twice. s[i]: [4], q[i], k[j]: [d]. */
INLINE void scores_tile(v128_t *s, const float *const *q, const float *const *k, int d, int nq) {
    v128_t acc[MAX_QUERIES][KEYS];
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < KEYS; j++) acc[i][j] = wasm_f32x4_const_splat(0);
    int c = 0;
    for (; c + 4 <= d; c += 4) {
        v128_t key[KEYS];
        for (int j = 0; j < KEYS; j++) key[j] = wasm_v128_load(k[j] + c);
        for (int i = 0; i < nq; i++) {
            v128_t query = wasm_v128_load(q[i] + c);
            for (int j = 0; j < KEYS; j++)
                acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(query, key[j]));
        }
    }
    if (c < d) {
        for (int i = 0; i < nq; i++) {
            v128_t query = load_f32_part(q[i] + c, d - c);
            for (int j = 0; j < KEYS; j++) {
                acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(query, load_f32_part(k[j] + c, d - c)));
            }
        }
    }
    for (int i = 0; i < nq; i++) s[i] = sum_lanes_of_4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

/* Scores of nq queries with all keys. */
INLINE void scores_rows(float *s, int s_stride, const float *q, int q_stride, const float *k, int k_stride,
                        int n_k, int d, int nq) {
    const float *query[MAX_QUERIES], *key[KEYS];
    for (int i = 0; i < nq; i++) query[i] = q + (size_t)i * q_stride;
    for (int j = 0; j < n_k; j += KEYS) {
        v128_t scores[MAX_QUERIES];
        for (int l = 0; l < KEYS; l++) key[l] = k + (size_t)(j + l < n_k ? j + l : n_k - 1) * k_stride;
        scores_tile(scores, query, key, d, nq);
        for (int i = 0; i < nq; i++) {
            float *to = s + (size_t)i * s_stride + j;
            if (n_k - j >= KEYS) wasm_v128_store(to, scores[i]);
            else store_f32_part(to, scores[i], n_k - j);
        }
    }
}

void attn_scores__simd128(float *s, int s_stride, const float *q, int q_stride, int n_q, const float *k,
                          int k_stride, int n_k, int d) {
    int i = 0;
    for (; i + 2 <= n_q; i += 2) {
        scores_rows(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, k_stride, n_k,
                    d, 2);
    }
    if (i < n_q) {
        scores_rows(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, k_stride, n_k,
                    d, 1);
    }
}

/* Columns of out: nv vectors of nq rows. */
INLINE void values_tile(float *out, int out_stride, const float *p, int p_stride, const float *v,
                        int v_stride, int n_k, int nq, int nv) {
    v128_t acc[MAX_QUERIES][2];
    for (int i = 0; i < nq; i++)
        for (int l = 0; l < nv; l++) acc[i][l] = wasm_f32x4_const_splat(0);
    for (int j = 0; j < n_k; j++, v += v_stride, p++) {
        v128_t value[2];
        for (int l = 0; l < nv; l++) value[l] = wasm_v128_load(v + 4 * l);
        for (int i = 0; i < nq; i++) {
            v128_t weight = wasm_v128_load32_splat(p + (size_t)i * p_stride);
            for (int l = 0; l < nv; l++)
                acc[i][l] = wasm_f32x4_add(acc[i][l], wasm_f32x4_mul(weight, value[l]));
        }
    }
    for (int i = 0; i < nq; i++)
        for (int l = 0; l < nv; l++) wasm_v128_store(out + (size_t)i * out_stride + 4 * l, acc[i][l]);
}

/* Column c of one row. */
static float value_column(const float *p, const float *v, int v_stride, int n_k) {
    float sum = 0;
    for (int j = 0; j < n_k; j++) sum += p[j] * v[(size_t)j * v_stride];
    return sum;
}

INLINE void values_rows(float *out, int out_stride, const float *p, int p_stride, const float *v,
                        int v_stride, int n_k, int d, int nq) {
    int c = 0;
    for (; c + 8 <= d; c += 8) values_tile(out + c, out_stride, p, p_stride, v + c, v_stride, n_k, nq, 2);
    for (; c + 4 <= d; c += 4) values_tile(out + c, out_stride, p, p_stride, v + c, v_stride, n_k, nq, 1);
    for (; c < d; c++) {
        for (int i = 0; i < nq; i++) {
            out[(size_t)i * out_stride + c] = value_column(p + (size_t)i * p_stride, v + c, v_stride, n_k);
        }
    }
}

void attn_values__simd128(float *out, int out_stride, const float *p, int p_stride, int n_q, const float *v,
                          int v_stride, int n_k, int d) {
    for (int left = n_q, n; left > 0; left -= n, out += (size_t)n * out_stride, p += (size_t)n * p_stride) {
        n = left < MAX_QUERIES ? left : MAX_QUERIES;
        switch (n) {
        case 1: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 1); break;
        case 2: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 2); break;
        case 3: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 3); break;
        default: values_rows(out, out_stride, p, p_stride, v, v_stride, n_k, d, 4);
        }
    }
}

#endif
