#ifdef __wasm_simd128__

#include <string.h>

#include "base/f16.h"
#include "kernels/impl.h"
#include "kernels/simd.h"

/* Columns that are read at a time, queries that share a row, keys whose scores are made together. */
enum { COLUMNS = 8, MAX_QUERIES = 4, MAX_KEYS = 4 };

/* What rows of f16 need, in registers. */
struct row_constants {
    v128_t high, two_112;
};

INLINE struct row_constants row_constants(bool f16) {
    struct row_constants k = {0};
    if (f16) k = (struct row_constants){SPLAT_REGISTER(0x8fff8fff), SPLAT_REGISTER(F16_SCALE)};
    return k;
}

INLINE size_t number_bytes(bool f16) { return f16 ? sizeof(uint16_t) : sizeof(float); }

/* Row j of [n][stride] f32, or f16. */
INLINE const void *row_at(const void *rows, int j, int stride, bool f16) {
    return (const char *)rows + (size_t)j * (size_t)stride * number_bytes(f16);
}

/* Columns c .. c + 7 of a row. An f16's exponent and mantissa are moved into f32's places in two halves. */
INLINE void load_row(v128_t x[2], const void *row, int c, bool f16, struct row_constants k) {
    if (f16) {
        v128_t h = wasm_v128_load((const uint16_t *)row + c);
        v128_t high = wasm_v128_and(wasm_i16x8_shr(h, 3), k.high), low = wasm_i16x8_shl(h, 13);
        x[0] = wasm_f32x4_mul(wasm_i16x8_shuffle(low, high, 0, 8, 1, 9, 2, 10, 3, 11), k.two_112);
        x[1] = wasm_f32x4_mul(wasm_i16x8_shuffle(low, high, 4, 12, 5, 13, 6, 14, 7, 15), k.two_112);
    } else {
        x[0] = wasm_v128_load((const float *)row + c);
        x[1] = wasm_v128_load((const float *)row + c + 4);
    }
}

/* The last columns of n rows, from c on, with zeros behind them: these change no sum. */
static __attribute__((noinline)) void pad(float (*room)[COLUMNS], const void *const *rows, int n, int c,
                                          int d, size_t bytes) {
    memset(room, 0, (size_t)n * sizeof *room);
    for (int i = 0; i < n; i++)
        memcpy(room[i], (const char *)rows[i] + (size_t)c * bytes, (size_t)(d - c) * bytes);
}

/* Scores of nq queries with nk keys. q[i], key[j]: [d]; both are overwritten. */
INLINE void scores_tile(v128_t s[MAX_QUERIES], const void *q[MAX_QUERIES], const void *key[MAX_KEYS], int d,
                        int nq, int nk, bool f16, struct row_constants k) {
    float last_q[MAX_QUERIES][COLUMNS], last_keys[MAX_KEYS][COLUMNS];
    v128_t acc[MAX_QUERIES][MAX_KEYS];
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < MAX_KEYS; j++) acc[i][j] = wasm_f32x4_const_splat(0);
    for (int c = 0; c < d; c += COLUMNS) {
        if (d - c < COLUMNS) {
            const void *q_rows[MAX_QUERIES], *key_rows[MAX_KEYS];
            for (int i = 0; i < nq; i++) q_rows[i] = q[i];
            for (int j = 0; j < nk; j++) key_rows[j] = key[j];
            pad(last_q, q_rows, nq, c, d, sizeof(float));
            pad(last_keys, key_rows, nk, c, d, number_bytes(f16));
            for (int i = 0; i < nq; i++) q[i] = (const char *)last_q[i] - (size_t)c * sizeof(float);
            for (int j = 0; j < nk; j++) key[j] = (const char *)last_keys[j] - (size_t)c * number_bytes(f16);
        }
        v128_t x[MAX_KEYS][2];
        for (int j = 0; j < nk; j++) load_row(x[j], key[j], c, f16, k);
        for (int l = 0; l < 2; l++) {
            for (int i = 0; i < nq; i++) {
                v128_t query = wasm_v128_load((const float *)q[i] + c + 4 * l);
                for (int j = 0; j < nk; j++)
                    acc[i][j] = wasm_f32x4_add(acc[i][j], wasm_f32x4_mul(query, x[j][l]));
            }
        }
    }
    for (int i = 0; i < nq; i++) s[i] = sum_lanes_of_4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}

/* Scores of nq queries with all keys: as many keys at a time as leave registers for their sums, far apart, since
 * memory serves several streams faster than one. The last streams may be short, and repeat a key. */
INLINE void scores_rows(float *s, int s_stride, const float *q, int q_stride, const void *rows, int k_stride,
                        int n_k, int d, int nq, bool f16) {
    int nk = nq > 2 ? 2 : 4, step = (n_k + nk - 1) / nk;
    struct row_constants k = row_constants(f16);
    for (int j = 0; j < step; j++) {
        v128_t scores[MAX_QUERIES];
        const void *query[MAX_QUERIES], *key[MAX_KEYS];
        int at[MAX_KEYS];
        for (int i = 0; i < nq; i++) query[i] = q + (size_t)i * q_stride;
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

/* Columns c .. c + 7 of nq rows of out. */
INLINE void values_tile(float *out, int out_stride, const float *p, int p_stride, const void *v, int v_stride,
                        int n_k, int c, int nq, bool f16, struct row_constants k) {
    v128_t acc[MAX_QUERIES][2];
    for (int i = 0; i < nq; i++) acc[i][0] = acc[i][1] = wasm_f32x4_const_splat(0);
    for (int j = 0; j < n_k; j++, v = row_at(v, 1, v_stride, f16), p++) {
        v128_t value[2];
        load_row(value, v, c, f16, k);
        for (int i = 0; i < nq; i++) {
            v128_t weight = wasm_v128_load32_splat(p + (size_t)i * p_stride);
            for (int l = 0; l < 2; l++)
                acc[i][l] = wasm_f32x4_add(acc[i][l], wasm_f32x4_mul(weight, value[l]));
        }
    }
    for (int i = 0; i < nq; i++)
        for (int l = 0; l < 2; l++) wasm_v128_store(out + (size_t)i * out_stride + c + 4 * l, acc[i][l]);
}

/* Columns c .. d - 1 of one row. */
static __attribute__((noinline)) void values_rest(float *out, const float *p, const void *v, int v_stride,
                                                  int n_k, int c, int d, bool f16) {
    for (; c < d; c++) {
        float sum = 0;
        for (int j = 0; j < n_k; j++) {
            const void *row = row_at(v, j, v_stride, f16);
            sum += p[j] * (f16 ? f32_from_finite_f16(((const uint16_t *)row)[c]) : ((const float *)row)[c]);
        }
        out[c] = sum;
    }
}

INLINE void values_rows(float *out, int out_stride, const float *p, int p_stride, const void *v, int v_stride,
                        int n_k, int d, int nq, bool f16) {
    struct row_constants k = row_constants(f16);
    int c = 0;
    for (; c + COLUMNS <= d; c += COLUMNS)
        values_tile(out, out_stride, p, p_stride, v, v_stride, n_k, c, nq, f16, k);
    for (int i = 0; i < nq && c < d; i++)
        values_rest(out + (size_t)i * out_stride, p + (size_t)i * p_stride, v, v_stride, n_k, c, d, f16);
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
