/* Multi-head latent attention, absorbed: queries are brought into the latent space, where all heads share
 * one cached row [c_kv ; k_rope]. Source: DeepSeek-V2, arXiv 2405.04434, section 2.1. */
#include <string.h>

#include "base/profile.h"
#include "decoder/steps.h"

static size_t head_row(const struct attn_rows *a, int head, int row) {
    return (size_t)head * (size_t)a->n + (size_t)row;
}

/* A row's latent is normalised, both rotated parts are rotated, and the cached row is stored. The parts of
 * the queries that are not rotated are gathered head by head into d->gather. */
static void finish_row(void *arg, int row) {
    const struct attn_rows *a = arg;
    struct decoder *d = a->d;
    const struct hparams *hp = &d->m->hp;
    const struct layer *w = &d->m->layers[a->l];
    int r = hp->kv_lora_rank, k_dim = d->dims.k_dim;
    float *q = d->q_heads + (size_t)row * (size_t)(hp->n_head * hp->d_head_k),
          *k = d->kr + (size_t)row * (size_t)k_dim;
    float *q_latent = d->q + (size_t)row * (size_t)(hp->n_head * k_dim);
    if (w->kv_a_norm) d->k->rms_norm(k, k, w->kv_a_norm, r, hp->norm_eps);
    attn_rotate(a, k + r, 1, hp->n_rot, row);
    attn_rotate(a, q + hp->d_nope, hp->n_head, hp->d_head_k, row);
    d->k->scale(q, hp->attn_scale, hp->n_head * hp->d_head_k);
    attn_store(a, kv_keys, k, 1, k_dim, d->dims.k_plain, a->first + row);
    for (int h = 0; h < hp->n_head; h++) {
        const float *head = q + h * hp->d_head_k;
        memcpy(d->gather + head_row(a, h, row) * (size_t)hp->d_nope, head, (size_t)hp->d_nope * sizeof *head);
        memcpy(q_latent + h * k_dim + r, head + hp->d_nope, (size_t)hp->n_rot * sizeof *head);
    }
}

/* One product for each head: rows h * n .. of act_heads -> columns h * width .. of y. */
static void heads_run(struct decoder *d, const struct stack *w, float *y, int width, int n) {
    for (int h = 0; h < w->n; h++)
        d->head_jobs[h] = (struct linear){
            stack_at(w, h), NULL, &d->act_heads, y + h * width, (size_t)(w->n * width), h * n, n};
    linear_run(d, d->head_jobs, w->n);
}

static void query_a_row(void *arg, int row) {
    const struct attn_rows *a = arg;
    struct decoder *d = a->d;
    float *q_a = d->q_a + (size_t)row * (size_t)d->m->hp.q_lora_rank;
    d->k->rms_norm(q_a, q_a, d->m->layers[a->l].q_a_norm, d->m->hp.q_lora_rank, d->m->hp.norm_eps);
}

static void project(const struct attn_rows *a) {
    struct decoder *d = a->d;
    const struct layer *w = &d->m->layers[a->l];
    bool two_steps = d->m->hp.q_lora_rank > 0;
    struct linear jobs[] = {linear_whole(d, &w->wkv_a, NULL, d->kr, a->n),
                            two_steps ? linear_whole(d, &w->wq_a, NULL, d->q_a, a->n)
                                      : linear_whole(d, &w->wq, NULL, d->q_heads, a->n)};
    linear_run(d, jobs, 2);
    if (!two_steps) return;
    PROFILE(NORM);
    rows_run(d, query_a_row, (void *)a, a->n);
    const struct matrix *reader = &w->wq;
    activate_rows(d, &d->act, d->q_a, d->m->hp.q_lora_rank, &reader, 1, a->n);
    linear_run(d, (struct linear[]){linear_whole(d, &w->wq, NULL, d->q_heads, a->n)}, 1);
}

void attn_mla_rows(const struct attn_rows *a, const struct taps *taps) {
    struct decoder *d = a->d;
    const struct hparams *hp = &d->m->hp;
    const struct layer *w = &d->m->layers[a->l];
    const struct matrix *reader = &w->wk_b.first;
    project(a);
    PROFILE(ATTENTION);
    rows_run(d, finish_row, (void *)a, a->n);
    tap_rows(taps, HL_TAP_K, a->l, d->kr, (size_t)d->dims.k_dim);
    if (d->expanded && !tap_on(taps, HL_TAP_Q, a->l)) return;
    activate_rows(d, &d->act_heads, d->gather, hp->d_nope, &reader, 1, hp->n_head * a->n);
    heads_run(d, &w->wk_b, d->q, d->dims.k_dim, a->n);
    tap_rows(taps, HL_TAP_Q, a->l, d->q, (size_t)(hp->n_head * d->dims.k_dim));
}

void attn_mla_expand(const struct decoder *d, int l, int h, const float *rows, int n, float *keys,
                     float *values, float *w) {
    const struct hparams *hp = &d->m->hp;
    const struct matrix wk = stack_at(&d->m->layers[l].wk_b, h), wv = stack_at(&d->m->layers[l].wv_b, h);
    int k_dim = d->dims.k_dim, r = hp->kv_lora_rank;
    for (int j = 0; j < n; j++) {
        memset(keys + j * hp->d_head_k, 0, (size_t)hp->d_nope * sizeof *keys);
        memcpy(keys + j * hp->d_head_k + hp->d_nope, rows + j * k_dim + r, (size_t)hp->n_rot * sizeof *keys);
    }
    for (int i = 0; i < r; i++) {
        panel_row(w, &wk, i);
        for (int j = 0; j < n; j++)
            d->k->scale_add(keys + j * hp->d_head_k, 1, w, rows[j * k_dim + i], hp->d_nope);
    }
    for (int i = 0; i < hp->d_head_v; i++) {
        panel_row(w, &wv, i);
        d->k->attn_scores(values + i, hp->d_head_v, rows, k_dim, n, w, r, 1, r);
    }
}

struct gather_job {
    struct decoder *d;
    int n;
};

static void gather_output_row(void *arg, int row) {
    const struct gather_job *j = arg;
    struct decoder *d = j->d;
    size_t r = (size_t)d->dims.v_dim, n_head = (size_t)d->dims.n_head;
    for (size_t h = 0; h < n_head; h++)
        memcpy(d->gather + (h * (size_t)j->n + (size_t)row) * r, d->o + ((size_t)row * n_head + h) * r,
               r * sizeof(float));
}

void attn_mla_values(struct decoder *d, int l, int n) {
    const struct hparams *hp = &d->m->hp;
    const struct layer *w = &d->m->layers[l];
    const struct matrix *reader = &w->wv_b.first;
    struct gather_job j = {d, n};
    if (d->expanded) return; /* attention has filled o_heads */
    PROFILE(ATTENTION);
    rows_run(d, gather_output_row, &j, n);
    activate_rows(d, &d->act_heads, d->gather, hp->kv_lora_rank, &reader, 1, hp->n_head * n);
    heads_run(d, &w->wv_b, d->o_heads, hp->d_head_v, n);
}
