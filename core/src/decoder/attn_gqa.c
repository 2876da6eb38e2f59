/* Queries and cached rows of MHA, GQA and MQA: projections, norms, rotation, and the copy into the cache. */
#include <string.h>

#include "base/f16.h"
#include "base/profile.h"
#include "decoder/steps.h"

/* Rounds to infinity, as do all larger ones. */
#define F16_LIMIT 65520.0f

/* Remembers x [n] as unfit where one is a NaN or not below the limit in size. */
static void check_range(const struct attn_rows *a, const float *x, int n, float limit) {
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = f32_bits(x[i]) & 0x7fffffff;
        if (magnitude > most) most = magnitude;
    }
    if (!(f32_from_bits(most) < limit)) atomic_store(&a->d->unfit, true);
}

/* x [n] goes into the cache as f16. */
static void store_f16(const struct attn_rows *a, uint16_t *dst, const float *x, int n) {
    check_range(a, x, n, F16_LIMIT);
    a->d->k->f16_from_f32_row(dst, x, n);
}

/* As q8_0, whose scales are f16 of 1 / 127 of the largest number. */
static void store_q8(const struct attn_rows *a, unsigned char *dst, const float *x, int n) {
    check_range(a, x, n, 127 * F16_LIMIT);
    a->d->k->q8_from_f32_row(dst, x, n);
}

void attn_store(const struct attn_rows *a, void *(*place)(const struct kv *, int, int, int), const float *src,
                int heads, int width, int plain, int pos) {
    for (int h = 0; h < heads; h++, src += width) {
        unsigned char *dst = place(a->kv, a->l, h, pos);
        if (kv_type(a->kv) == HL_KV_F32) {
            memcpy(dst, src, (size_t)width * sizeof(float));
        } else if (kv_type(a->kv) == HL_KV_F16) {
            store_f16(a, (uint16_t *)(void *)dst, src, width);
        } else {
            size_t codes = (size_t)(width - plain) / Q8_GROUP * Q8_BYTES;
            store_q8(a, dst, src, width - plain);
            store_f16(a, (uint16_t *)(void *)(dst + codes), src + width - plain, plain);
        }
    }
}

void attn_rotate(const struct attn_rows *a, float *x, int heads, int stride, int row) {
    int n_rot = a->d->m->hp.n_rot;
    if (!a->cs) return;
    const float *cs = a->cs + row * (n_rot / 2), *sn = a->sn + row * (n_rot / 2);
    for (int h = 0; h < heads; h++)
        a->d->k->rope(x + h * stride, cs, sn, n_rot, a->d->m->arch->rope == ROPE_INTERLEAVED);
}

/* Norm over each head, or over all heads together. */
static void norm_heads(const struct decoder *d, float *x, const float *w, int heads, int width) {
    if (!w) return;
    if (d->m->arch->qk_norm_whole) {
        width *= heads;
        heads = 1;
    }
    for (int h = 0; h < heads; h++) d->k->rms_norm(x + h * width, x + h * width, w, width, d->m->hp.norm_eps);
}

static void finish_row(void *arg, int row) {
    const struct attn_rows *a = arg;
    struct decoder *d = a->d;
    const struct hparams *hp = &d->m->hp;
    const struct layer *w = &d->m->layers[a->l];
    int n_q = hp->n_head * hp->d_head_k, n_k = hp->n_head_kv * hp->d_head_k,
        n_v = hp->n_head_kv * hp->d_head_v;
    float *q = d->q + (size_t)row * (size_t)n_q, *k = d->kr + (size_t)row * (size_t)n_k,
          *v = d->vr + (size_t)row * (size_t)n_v;
    norm_heads(d, q, w->q_norm, hp->n_head, hp->d_head_k);
    norm_heads(d, k, w->k_norm, hp->n_head_kv, hp->d_head_k);
    attn_rotate(a, q, hp->n_head, hp->d_head_k, row);
    attn_rotate(a, k, hp->n_head_kv, hp->d_head_k, row);
    d->k->scale(q, hp->attn_scale, n_q);
    attn_store(a, kv_keys, k, hp->n_head_kv, hp->d_head_k, 0, a->first + row);
    attn_store(a, kv_values, v, hp->n_head_kv, hp->d_head_v, 0, a->first + row);
}

void attn_gqa_rows(const struct attn_rows *a, const struct taps *taps) {
    struct decoder *d = a->d;
    const struct layer *w = &d->m->layers[a->l];
    struct linear jobs[] = {linear_whole(d, &w->wq, w->bq, d->q, a->n),
                            linear_whole(d, &w->wk, w->bk, d->kr, a->n),
                            linear_whole(d, &w->wv, w->bv, d->vr, a->n)};
    linear_run(d, jobs, 3);
    PROFILE(ATTENTION);
    rows_run(d, finish_row, (void *)a, a->n);
    tap_rows(taps, HL_TAP_Q, a->l, d->q, (size_t)w->wq.n_out);
    tap_rows(taps, HL_TAP_K, a->l, d->kr, (size_t)w->wk.n_out);
    tap_rows(taps, HL_TAP_V, a->l, d->vr, (size_t)w->wv.n_out);
}
