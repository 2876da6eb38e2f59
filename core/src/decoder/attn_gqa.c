/* Queries and cached rows of MHA, GQA and MQA: projections, rotation, and the copy into the cache. */
#include <string.h>

#include "decoder/steps.h"

struct rows_job {
    struct decoder *d;
    struct kv *kv;
    int l, first;
};

/* One cached row of `heads` heads of `width` floats goes to where its position lives. */
static void store_row(const struct rows_job *j, void *(*place)(const struct kv *, int, int, int), const float *src, int heads,
                      int width, int pos) {
    for (int h = 0; h < heads; h++) {
        void *dst = place(j->kv, j->l, h, pos);
        if (kv_type(j->kv) == HL_KV_F32) memcpy(dst, src + h * width, (size_t)width * sizeof(float));
        else j->d->k->f16_from_f32_row(dst, src + h * width, width);
    }
}

/* Rotates the heads of one row x [heads][width] to its position in the chunk. */
static void rotate(const struct decoder *d, float *x, int heads, int width, int row) {
    int half = d->m->hp.n_rot / 2;
    const float *cs = d->rope_cos + row * half, *sn = d->rope_sin + row * half;
    for (int h = 0; h < heads; h++)
        d->k->rope(x + h * width, cs, sn, d->m->hp.n_rot, d->m->arch->rope == ROPE_INTERLEAVED);
}

static void finish_row(void *arg, int row) {
    const struct rows_job *j = arg;
    struct decoder *d = j->d;
    const struct hparams *hp = &d->m->hp;
    int n_q = hp->n_head * hp->d_head_k, n_k = hp->n_head_kv * hp->d_head_k, n_v = hp->n_head_kv * hp->d_head_v;
    float *q = d->q + (size_t)row * (size_t)n_q, *k = d->kr + (size_t)row * (size_t)n_k, *v = d->vr + (size_t)row * (size_t)n_v;
    rotate(d, q, hp->n_head, hp->d_head_k, row);
    rotate(d, k, hp->n_head_kv, hp->d_head_k, row);
    d->k->scale(q, hp->attn_scale, n_q);
    store_row(j, kv_keys, k, hp->n_head_kv, hp->d_head_k, j->first + row);
    store_row(j, kv_values, v, hp->n_head_kv, hp->d_head_v, j->first + row);
}

void attn_gqa_rows(struct decoder *d, struct kv *kv, const struct taps *taps, int l, int first, int n) {
    const struct layer *w = &d->m->layers[l];
    struct linear jobs[] = {linear_whole(&w->wq, w->bq, d->q, n), linear_whole(&w->wk, w->bk, d->kr, n),
                            linear_whole(&w->wv, w->bv, d->vr, n)};
    linear_run(d, jobs, 3);
    struct rows_job j = {d, kv, l, first};
    rows_run(d, finish_row, &j, n);
    tap_rows(taps, HL_TAP_Q, l, d->q, (size_t)w->wq.n_out);
    tap_rows(taps, HL_TAP_K, l, d->kr, (size_t)w->wk.n_out);
    tap_rows(taps, HL_TAP_V, l, d->vr, (size_t)w->wv.n_out);
}
