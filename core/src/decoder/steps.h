/* The decoder's own parts: scratch and steps of one layer. Private to decoder/. */
#ifndef HL_DECODER_STEPS_H
#define HL_DECODER_STEPS_H

#include <stdatomic.h>

#include "decoder/decoder.h"
#include "kernels/kernels.h"

enum { ATTN_ROWS = 16 }; /* query rows of one head that are handled together in a prompt */

/* Per-thread scratch of attention. */
struct attn_scratch {
    float *keys, *values; /* [KV_BLOCK][k_dim], [KV_BLOCK][v_dim]: rows of the cache as f32 */
    float *head_keys;     /* MLA, expanded: [KV_BLOCK][d_head_k] */
    float *head_values;   /* the same: [KV_BLOCK][d_head_v] */
    float *weights;       /* the same: a row of a matrix */
    float *scores;        /* [ATTN_ROWS][KV_BLOCK] */
    float *out;           /* [ATTN_ROWS][v_dim or d_head_v] */
};

/* What attention works on: cached heads and the query heads that share each of them. MLA's cached row is
 * [c_kv ; k_rope], and its first v_dim floats are also the value. */
struct attn_dims {
    int n_head, n_head_kv;
    int k_dim, v_dim;
    int k_plain; /* last numbers of a key row that a q8_0 cache keeps as f16: MLA's rotated part */
    bool values_in_keys;
};

struct linear;
struct moe;

struct decoder {
    const struct model *m;
    const struct kernels *k;
    struct pool *pool;
    hl_precision precision;
    struct attn_dims dims;
    bool expanded;              /* MLA: attention works on keys and values of each head, not on latent rows */
    float *rope_cos[ROPE_SETS]; /* [HL_CHUNK][n_rot / 2], for the sets that the model has */
    float *rope_sin[ROPE_SETS];
    float *x;         /* [HL_CHUNK][n_embd] residual stream */
    float *xn;        /* [HL_CHUNK][n_embd] what a branch reads */
    float *q_a;       /* [HL_CHUNK][q_lora_rank] */
    float *q_heads;   /* [HL_CHUNK][n_head * d_head_k] MLA: queries before they are brought to the latent */
    float *q;         /* [HL_CHUNK][n_head * k_dim] as attention reads them, scaled */
    float *kr, *vr;   /* [HL_CHUNK][n_head_kv * k_dim], [HL_CHUNK][n_head_kv * v_dim] new rows of the cache */
    float *o;         /* [HL_CHUNK][n_head * v_dim] what attention gives */
    float *o_heads;   /* [HL_CHUNK][n_head * d_head_v] MLA: after the value heads; else the same as o */
    float *y;         /* [HL_CHUNK][n_embd] output of a branch, not yet added to x */
    float *gate, *up; /* [HL_CHUNK][n_ff or n_ff_shexp] */
    float *softmax;   /* [HL_CHUNK][n_head][2] maximum and sum of each row of scores */
    struct act act;   /* [HL_CHUNK] rows */
    float *gather;    /* MLA: [n_head][HL_CHUNK][d_nope or kv_lora_rank] rows, head after head */
    struct act act_heads;      /* MLA: their codes */
    struct linear *head_jobs;  /* MLA: [n_head] */
    struct moe *moe;           /* mixture of experts: its scratch; NULL when dense */
    struct attn_scratch *attn; /* [n_threads] */
    float *partial; /* [n_head][n_spans][2 + v_dim or d_head_v] one position's attention to each block */
    int n_spans;
    atomic_bool unfit; /* a key or value of the present forward was too large for the cache's type, or NaN */
    struct {
        void *p;
        size_t n;
    } owned[96];
    int n_owned;
};

/* n numbers of `size` bytes that live as long as the decoder; NULL when there is no memory. */
void *decoder_own(struct decoder *d, size_t n, size_t size);

/* Room for the codes of n rows of up to n_columns columns. */
bool act_new(struct decoder *d, struct act *a, int n, int n_columns);

/* Runs fn(arg, row) for n rows: on the pool when there are several. */
void rows_run(struct decoder *d, void (*fn)(void *arg, int row), void *arg, int n);

/* The n rows x [n][n_in] become activations; codes are computed when one of the readers has none but
 * floats. */
void activate_rows(struct decoder *d, struct act *a, const float *x, int n_in,
                   const struct matrix *const *readers, int n_readers, int n);

/* ---- linear.c */

/* One matrix and the activation rows it reads: y[c * y_stride + r] = dot(row r, activation row col0 + c) +
 * bias[r], c in [0, n). */
struct linear {
    struct matrix w;
    const float *bias; /* [n_out] or NULL */
    const struct act *act;
    float *y;
    size_t y_stride;
    int col0, n;
};

/* A whole matrix over the first n rows of d->act: y [n][n_out]. */
static inline struct linear linear_whole(const struct decoder *d, const struct matrix *w, const float *bias,
                                         float *y, int n) {
    return (struct linear){*w, bias, &d->act, y, (size_t)w->n_out, 0, n};
}

/* Independent products in one parallel phase. */
void linear_run(struct decoder *d, const struct linear *jobs, int n_jobs);

/* Pairs (gate, up) of the same shape: gate's y = act(gate) * up. n_jobs counts both. */
void linear_gated(struct decoder *d, const struct linear *pairs, int n_jobs);

/* Whether any of the n matrices reads codes rather than floats. */
bool linear_reads_codes(const struct matrix *const *w, int n);

/* ---- attn.c */

/* One attention: n query rows d->q at positions first .. first + n - 1 of layer l -> d->o; the rows' own
 * keys and values are in the cache. Leaves maximum and sum of each row in d->softmax. */
void attn_run(struct decoder *d, const struct kv *kv, int l, int first, int n);

/* The same rows' probabilities (and MLA's parts of the scores) into the taps of layer l that are on. */
void attn_tap(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first, int n);

/* ---- attn_gqa.c, attn_mla.c: d->xn, as activations -> d->q, rotated and scaled, and rows in the cache */

struct attn_rows {
    struct decoder *d;
    struct kv *kv;
    int l, first, n;
    const float *cs, *sn; /* [n][n_rot / 2] of this layer, NULL: it is not rotated */
};

void attn_gqa_rows(const struct attn_rows *a, const struct taps *taps);
void attn_mla_rows(const struct attn_rows *a, const struct taps *taps);

/* Keys [n][d_head_k] and values [n][d_head_v] of head h from n cached rows [n][k_dim] of layer l. w:
 * scratch for one row of either matrix. */
void attn_mla_expand(const struct decoder *d, int l, int h, const float *rows, int n, float *keys,
                     float *values, float *w);

/* MLA: d->o [n][n_head * kv_lora_rank] -> d->o_heads [n][n_head * d_head_v]. */
void attn_mla_values(struct decoder *d, int l, int n);

/* Rotates the heads of row `row` of the chunk, x [heads][stride], each from column 0 on. */
void attn_rotate(const struct attn_rows *a, float *x, int heads, int stride, int row);

/* One cached row of `heads` heads of `width` floats goes to where position pos of `place` lives; plain as
 * in attn_dims. */
void attn_store(const struct attn_rows *a, void *(*place)(const struct kv *, int, int, int), const float *src,
                int heads, int width, int plain, int pos);

/* ---- moe.c */

/* Scratch for a model with experts. False: no memory. */
bool moe_new(struct decoder *d);

/* The experts of one position, best first, and their weights, both [n_expert_used]. p: [n_expert] router
 * logits, overwritten; bias: [n_expert], for the choice only, or NULL. */
void moe_route(const struct hparams *hp, const struct kernels *k, float *p, const float *bias, int *chosen,
               float *weights);

/* d->xn -> d->y through the chosen experts and the shared ones. d->act holds xn. */
void moe_forward(struct decoder *d, const struct taps *taps, int l, int n);

#endif
