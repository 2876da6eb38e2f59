/* Mixture of experts: each position goes through its chosen experts only; positions are grouped by expert,
 * so that a prompt reads each expert's weights once a chunk. Sources: Mixtral, arXiv 2401.04088;
 * DeepSeek-V2 and V3, arXiv 2405.04434 and 2412.19437. */
#include <math.h>
#include <string.h>

#include "decoder/steps.h"

/* "Place" is the number of a (position, expert) pair once pairs are sorted by expert. */
struct moe {
    float *router;       /* [HL_CHUNK][n_expert] logits, then weights before the choice */
    int *chosen;         /* [HL_CHUNK][n_expert_used] experts, best first */
    float *weights;      /* [HL_CHUNK][n_expert_used] */
    int *place;          /* [HL_CHUNK][n_expert_used] */
    int *row_at;         /* [places] position */
    int *first, *count;  /* [n_expert] its places */
    float *x;            /* [places][n_embd] */
    float *gate, *up;    /* [places][n_ff_exp] */
    float *y;            /* [places][n_embd] */
    float *shared;       /* [HL_CHUNK][n_embd] */
    struct act act;      /* [places] rows of n_embd or n_ff_exp */
    struct linear *jobs; /* [2 n_expert] */
};

bool moe_new(struct decoder *d) {
    const struct hparams *hp = &d->m->hp;
    size_t used = (size_t)HL_CHUNK * (size_t)hp->n_expert_used, n_expert = (size_t)hp->n_expert;
    size_t n_embd = (size_t)hp->n_embd, n_ff = (size_t)hp->n_ff_exp;
    struct moe *e = d->moe = decoder_own(d, 1, sizeof *e);
    return e && (e->router = decoder_own(d, HL_CHUNK * n_expert, sizeof(float))) &&
           (e->chosen = decoder_own(d, used, sizeof(int))) &&
           (e->weights = decoder_own(d, used, sizeof(float))) &&
           (e->place = decoder_own(d, used, sizeof(int))) &&
           (e->row_at = decoder_own(d, used, sizeof(int))) &&
           (e->first = decoder_own(d, n_expert, sizeof(int))) &&
           (e->count = decoder_own(d, n_expert, sizeof(int))) &&
           (e->x = decoder_own(d, mem_size(used, n_embd), sizeof(float))) &&
           (e->gate = decoder_own(d, mem_size(used, n_ff), sizeof(float))) &&
           (e->up = decoder_own(d, mem_size(used, n_ff), sizeof(float))) &&
           (e->y = decoder_own(d, mem_size(used, n_embd), sizeof(float))) &&
           (e->shared = decoder_own(d, mem_size(HL_CHUNK, n_embd), sizeof(float))) &&
           (e->jobs = decoder_own(d, 2 * n_expert, sizeof *e->jobs)) &&
           act_new(d, &e->act, (int)used, hp->n_embd > hp->n_ff_exp ? hp->n_embd : hp->n_ff_exp);
}

/* ---- the router */

static void gate_weights(const struct kernels *k, enum gate_kind kind, float *p, int n) {
    if (kind == GATE_SIGMOID) {
        for (int i = 0; i < n; i++) p[i] = 1.0f / (1.0f + expf(-p[i]));
        return;
    }
    k->scale(p, 1.0f / k->exp_sum(p, p, n, k->max(p, n)), n);
}

/* What the choice goes by: the weight, with the bias where there is one. */
static float preference(const float *p, const float *bias, int i) { return bias ? p[i] + bias[i] : p[i]; }

/* A group's score: its best expert (DeepSeek-V2, softmax gate) or the sum of its two best (V3, sigmoid
 * gate). */
static float group_score(const struct hparams *hp, const float *p, const float *bias, int group) {
    int size = hp->n_expert / hp->n_expert_groups;
    float best = -INFINITY, second = -INFINITY;
    for (int i = group * size; i < (group + 1) * size; i++) {
        float v = preference(p, bias, i);
        if (v > best) {
            second = best;
            best = v;
        } else if (v > second) {
            second = v;
        }
    }
    return hp->expert_gate == GATE_SIGMOID && size > 1 ? best + second : best;
}

/* Whether fewer than n_groups_used groups come before this one; the lower number wins a tie. */
static bool group_is_open(const struct hparams *hp, const float *p, const float *bias, int group) {
    if (hp->n_expert_groups < 2) return true;
    float own = group_score(hp, p, bias, group);
    int before = 0;
    for (int g = 0; g < hp->n_expert_groups; g++) {
        float other = group_score(hp, p, bias, g);
        if (other > own || (other == own && g < group)) before++;
    }
    return before < hp->n_groups_used;
}

/* Experts of one row, best first; the lower number wins a tie. Always n_expert_used different ones,
 * whatever the numbers are. */
static void choose(const struct hparams *hp, const float *p, const float *bias, int *chosen) {
    int per_group = hp->n_expert_groups > 1 ? hp->n_expert / hp->n_expert_groups : hp->n_expert;
    bool open = true;
    for (int u = 0; u < hp->n_expert_used; u++) chosen[u] = -1;
    for (int i = 0; i < hp->n_expert; i++) {
        if (i % per_group == 0) open = group_is_open(hp, p, bias, i / per_group);
        if (!open) continue;
        int expert = i;
        for (int u = 0; u < hp->n_expert_used && expert >= 0; u++) {
            if (chosen[u] >= 0 && !(preference(p, bias, expert) > preference(p, bias, chosen[u]))) continue;
            int pushed = chosen[u];
            chosen[u] = expert;
            expert = pushed;
        }
    }
}

void moe_route(const struct hparams *hp, const struct kernels *k, float *p, const float *bias, int *chosen,
               float *weights) {
    float sum = 0;
    gate_weights(k, hp->expert_gate, p, hp->n_expert);
    choose(hp, p, bias, chosen);
    for (int u = 0; u < hp->n_expert_used; u++) sum += weights[u] = p[chosen[u]];
    float factor = hp->expert_norm && sum > 0 ? hp->expert_scale / sum : hp->expert_scale;
    for (int u = 0; u < hp->n_expert_used; u++) weights[u] *= factor;
}

struct moe_job {
    struct decoder *d;
    const struct layer *w;
    const struct taps *taps;
    int l;
};

static void route_row(void *arg, int row) {
    const struct moe_job *j = arg;
    const struct hparams *hp = &j->d->m->hp;
    struct moe *e = j->d->moe;
    int n_used = hp->n_expert_used;
    moe_route(hp, j->d->k, e->router + (size_t)row * (size_t)hp->n_expert, j->w->router_bias,
              e->chosen + row * n_used, e->weights + row * n_used);
}

/* ---- the experts */

/* Gives every (row, expert) pair a place, the pairs of one expert side by side in order of rows. */
static void sort_by_expert(const struct hparams *hp, struct moe *e, int n) {
    int pairs = n * hp->n_expert_used, next = 0;
    memset(e->count, 0, (size_t)hp->n_expert * sizeof *e->count);
    for (int i = 0; i < pairs; i++) e->count[e->chosen[i]]++;
    for (int x = 0; x < hp->n_expert; x++) {
        e->first[x] = next;
        next += e->count[x];
        e->count[x] = 0;
    }
    for (int i = 0; i < pairs; i++) {
        e->place[i] = e->first[e->chosen[i]] + e->count[e->chosen[i]]++;
        e->row_at[e->place[i]] = i / hp->n_expert_used;
    }
}

static void gather_place(void *arg, int place) {
    const struct moe_job *j = arg;
    size_t n = (size_t)j->d->m->hp.n_embd;
    struct moe *e = j->d->moe;
    memcpy(e->x + (size_t)place * n, j->d->xn + (size_t)e->row_at[place] * n, n * sizeof(float));
}

static struct linear expert_job(struct moe *e, const struct stack *w, int expert, float *y) {
    size_t n_out = (size_t)w->first.n_out;
    return (struct linear){
        stack_at(w, expert), NULL, &e->act, y + (size_t)e->first[expert] * n_out, n_out, e->first[expert],
        e->count[expert]};
}

static void experts_run(struct decoder *d, const struct layer *w, int n_places) {
    struct moe *e = d->moe;
    const struct matrix *readers[] = {&w->w_gate_exps.first, &w->w_up_exps.first},
                        *down = &w->w_down_exps.first;
    int jobs = 0;
    activate_rows(d, &e->act, e->x, d->m->hp.n_embd, readers, 2, n_places);
    for (int x = 0; x < d->m->hp.n_expert; x++) {
        if (e->count[x] == 0) continue;
        e->jobs[jobs++] = expert_job(e, &w->w_gate_exps, x, e->gate);
        e->jobs[jobs++] = expert_job(e, &w->w_up_exps, x, e->up);
    }
    linear_gated(d, e->jobs, jobs);
    activate_rows(d, &e->act, e->gate, d->m->hp.n_ff_exp, &down, 1, n_places);
    jobs = 0;
    for (int x = 0; x < d->m->hp.n_expert; x++)
        if (e->count[x] > 0) e->jobs[jobs++] = expert_job(e, &w->w_down_exps, x, e->y);
    linear_run(d, e->jobs, jobs);
}

/* d->act, still of xn -> e->shared. */
static void shared_run(struct decoder *d, const struct layer *w, int n) {
    const struct matrix *down = &w->w_down_shexp;
    struct linear pair[] = {linear_whole(d, &w->w_gate_shexp, NULL, d->gate, n),
                            linear_whole(d, &w->w_up_shexp, NULL, d->up, n)};
    linear_gated(d, pair, 2);
    activate_rows(d, &d->act, d->gate, down->n_in, &down, 1, n);
    linear_run(d, (struct linear[]){linear_whole(d, down, NULL, d->moe->shared, n)}, 1);
}

/* How much of the shared experts' output row counts: sigmoid(x . w). Source: the Qwen1.5-MoE models. */
static float shared_share(const struct decoder *d, const float *w, int row) {
    int n = d->m->hp.n_embd;
    float x;
    d->k->attn_scores(&x, 1, d->xn + (size_t)row * (size_t)n, n, 1, w, n, 1, n); /* one dot product */
    return 1.0f / (1.0f + expf(-x));
}

/* y = sum of the chosen experts' outputs times their weights, best first, + the shared experts. */
static void combine_row(void *arg, int row) {
    const struct moe_job *j = arg;
    struct decoder *d = j->d;
    struct moe *e = d->moe;
    int n = d->m->hp.n_embd, n_used = d->m->hp.n_expert_used;
    float *y = d->y + (size_t)row * (size_t)n;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int u = row * n_used; u < (row + 1) * n_used; u++)
        d->k->scale_add(y, 1.0f, e->y + (size_t)e->place[u] * (size_t)n, e->weights[u], n);
    const float *shared = e->shared + (size_t)row * (size_t)n;
    if (j->w->shexp_gate) d->k->scale_add(y, 1.0f, shared, shared_share(d, j->w->shexp_gate, row), n);
    else if (j->w->w_gate_shexp.data) d->k->add(y, shared, n);
}

static void tap_router(const struct moe_job *j, int n) {
    if (!tap_on(j->taps, HL_TAP_ROUTER, j->l)) return;
    float *out = tap_at(j->taps, HL_TAP_ROUTER, j->l)->data;
    for (int i = 0; i < n * j->d->m->hp.n_expert_used; i++) {
        out[2 * i] = (float)j->d->moe->chosen[i];
        out[2 * i + 1] = j->d->moe->weights[i];
    }
}

void moe_forward(struct decoder *d, const struct taps *taps, int l, int n) {
    const struct layer *w = &d->m->layers[l];
    struct moe_job j = {d, w, taps, l};
    int n_places = n * d->m->hp.n_expert_used;
    linear_run(d, (struct linear[]){linear_whole(d, &w->w_router, NULL, d->moe->router, n)}, 1);
    rows_run(d, route_row, &j, n);
    sort_by_expert(&d->m->hp, d->moe, n);
    rows_run(d, gather_place, &j, n_places);
    experts_run(d, w, n_places);
    if (w->w_gate_shexp.data) shared_run(d, w, n);
    rows_run(d, combine_row, &j, n);
    tap_router(&j, n);
}
