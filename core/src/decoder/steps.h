/* The decoder's own parts: scratch and steps of one layer. Private to decoder/. */
#ifndef HL_DECODER_STEPS_H
#define HL_DECODER_STEPS_H

#include "decoder/decoder.h"
#include "kernels/kernels.h"

/* Per-thread scratch of attention. */
struct attn_scratch {
    float *keys, *values; /* [KV_BLOCK][d_head_k], [KV_BLOCK][d_head_v]: rows of the cache as f32 */
    float *scores;        /* [ATTN_ROWS][KV_BLOCK] */
    float *out;           /* [ATTN_ROWS][d_head_v] */
};

enum { ATTN_ROWS = 16 }; /* query rows of one head that are handled together in a prompt */

struct decoder {
    const struct model *m;
    const struct kernels *k;
    struct pool *pool;
    hl_precision precision;
    float *rope_freq;      /* [n_rot / 2] angle per position */
    float *rope_cos;       /* [HL_CHUNK][n_rot / 2] */
    float *rope_sin;       /* [HL_CHUNK][n_rot / 2] */
    float *x;              /* [HL_CHUNK][n_embd] residual stream */
    float *xn;             /* [HL_CHUNK][n_embd] normalised */
    float *q;              /* [HL_CHUNK][n_head * d_head_k] */
    float *kr, *vr;        /* [HL_CHUNK][n_head_kv * d_head_k], [HL_CHUNK][n_head_kv * d_head_v] new rows of the cache */
    float *o;              /* [HL_CHUNK][n_head * d_head_v] */
    float *y;              /* [HL_CHUNK][n_embd] output of a branch, not yet added to x */
    float *gate, *up;      /* [HL_CHUNK][n_ff] */
    float *softmax;        /* [HL_CHUNK][n_head][2] maximum and sum of each row of scores */
    struct act act;        /* [HL_CHUNK] rows of up to act_columns */
    int act_columns;
    struct attn_scratch *attn; /* [n_threads] */
    float *partial;        /* [n_head][n_spans][d_head_v + 2]: attention of one position over each block of the cache */
    int n_spans;
    struct mem_list { void *p; size_t n; } owned[48];
    int n_owned;
};

/* ---- linear.c */

/* One matrix and the activation rows it reads: y[c * y_stride + r] = dot(row r, activation row col0 + c) + bias[r], c in [0, n). */
struct linear {
    struct matrix w;
    const float *bias; /* [n_out] or NULL */
    float *y;
    size_t y_stride;
    int col0, n;
};

/* A whole matrix over the first n activation rows: y [n][n_out]. */
static inline struct linear linear_whole(const struct matrix *w, const float *bias, float *y, int n) {
    return (struct linear){*w, bias, y, (size_t)w->n_out, 0, n};
}

/* Independent products in one parallel phase. */
void linear_run(struct decoder *d, const struct linear *jobs, int n_jobs);

/* Pairs (gate, up) of the same shape: gate's y = act(gate) * up. n_jobs counts both. */
void linear_gated(struct decoder *d, const struct linear *pairs, int n_jobs);

/* Whether any of the n matrices reads codes rather than floats. */
bool linear_reads_codes(const struct matrix *const *w, int n);

/* ---- attn.c */

/* One attention: n query rows at positions first .. first + n - 1 of layer l, already scaled. q: [n][n_head * d_head_k] ->
 * o: [n][n_head * d_head_v]; the rows' own keys and values are in the cache. Leaves maximum and sum in d->softmax. */
void attn_run(struct decoder *d, const struct kv *kv, int l, int first, int n);

/* The same rows' probabilities into the tap of layer l. */
void attn_tap(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first, int n);

/* ---- attn_gqa.c */

/* x (normalised, as activations) -> d->q, rotated and scaled, and new rows in the cache. */
void attn_gqa_rows(struct decoder *d, struct kv *kv, const struct taps *taps, int l, int first, int n);

/* Runs fn(d, row) for n rows: on the pool when there are several. */
void rows_run(struct decoder *d, void (*fn)(void *arg, int row), void *arg, int n);

#endif
