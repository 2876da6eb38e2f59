#include "decoder/decoder.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/profile.h"
#include "decoder/steps.h"

/* ---- set-up */

void *decoder_own(struct decoder *d, size_t n, size_t size) {
    size_t bytes = mem_size(n, size);
    void *p = mem_alloc(d->m->mem, MEM_SCRATCH, bytes);
    if (!p) return NULL;
    assert(d->n_owned < (int)(sizeof d->owned / sizeof d->owned[0]));
    d->owned[d->n_owned].p = p;
    d->owned[d->n_owned++].n = bytes;
    return p;
}

static int max_int(int a, int b) { return a > b ? a : b; }

static struct attn_dims attn_dims(const struct model *m) {
    const struct hparams *hp = &m->hp;
    if (m->arch->attn == ATTN_MLA)
        return (struct attn_dims){hp->n_head,       1,         hp->kv_lora_rank + hp->n_rot,
                                  hp->kv_lora_rank, hp->n_rot, true};
    return (struct attn_dims){hp->n_head, hp->n_head_kv, hp->d_head_k, hp->d_head_v, 0, false};
}

static int act_columns(const struct hparams *hp) {
    int n = max_int(max_int(hp->n_embd, hp->q_lora_rank),
                    max_int(hp->n_head * hp->d_head_v, max_int(hp->n_ff, hp->n_ff_shexp)));
    return (n + PANEL_BLOCK - 1) / PANEL_BLOCK * PANEL_BLOCK;
}

bool act_new(struct decoder *d, struct act *a, int n, int n_columns) {
    size_t n_blocks = (size_t)(n_columns + PANEL_BLOCK - 1) / PANEL_BLOCK;
    n_blocks = mem_size((size_t)n, n_blocks);
    return (a->blocks = decoder_own(d, n_blocks, sizeof *a->blocks)) &&
           (a->halves = decoder_own(d, n_blocks, sizeof *a->halves)) &&
           (a->low8 = decoder_own(d, n_blocks, sizeof *a->low8)) &&
           (a->codes16 = decoder_own(d, n_blocks, sizeof *a->codes16));
}

static size_t partial_bytes(const struct decoder *d, int n_spans) {
    size_t v_dim = (size_t)max_int(d->dims.v_dim, d->m->hp.d_head_v);
    return mem_size((size_t)d->dims.n_head * (v_dim + 2) * sizeof(float), (size_t)n_spans);
}

/* Floats that one thread's scratch of attention holds. */
struct attn_sizes {
    size_t keys, values, head_keys, head_values, weights, scores, out;
};

static struct attn_sizes attn_sizes(const struct model *m) {
    const struct hparams *hp = &m->hp;
    struct attn_dims a = attn_dims(m);
    struct attn_sizes s = {.keys = (size_t)KV_BLOCK * (size_t)a.k_dim,
                           .scores = (size_t)ATTN_ROWS * KV_BLOCK};
    s.out = (size_t)ATTN_ROWS * (size_t)max_int(a.v_dim, hp->d_head_v);
    if (!a.values_in_keys) {
        s.values = (size_t)KV_BLOCK * (size_t)a.v_dim;
        return s;
    }
    s.head_keys = (size_t)KV_BLOCK * (size_t)hp->d_head_k;
    s.head_values = (size_t)KV_BLOCK * (size_t)hp->d_head_v;
    s.weights = (size_t)max_int(hp->d_nope, hp->kv_lora_rank);
    return s;
}

static size_t attn_floats(const struct attn_sizes *s) {
    return s->keys + s->values + s->head_keys + s->head_values + s->weights + s->scores + s->out;
}

static bool attn_scratch_new(struct decoder *d) {
    int threads = pool_threads(d->pool);
    struct attn_sizes s = attn_sizes(d->m);
    d->attn = decoder_own(d, (size_t)threads, sizeof *d->attn);
    float *p = decoder_own(d, mem_size(attn_floats(&s), (size_t)threads), sizeof *p);
    if (!d->attn || !p) return false;
    for (int i = 0; i < threads; i++) {
        struct attn_scratch *a = &d->attn[i];
        a->keys = p;
        a->values = a->keys + s.keys;
        a->head_keys = a->values + s.values;
        a->head_values = a->head_keys + s.head_keys;
        a->weights = a->head_values + s.head_values;
        a->scores = a->weights + s.weights;
        a->out = a->scores + s.scores;
        p = a->out + s.out;
    }
    return true;
}

/* [HL_CHUNK][n] floats. */
static bool rows_new(struct decoder *d, float **p, int n) {
    *p = decoder_own(d, mem_size(HL_CHUNK, (size_t)n), sizeof(float));
    return *p != NULL;
}

static bool rope_new(struct decoder *d) {
    for (int set = 0; set < ROPE_SETS; set++) {
        if (!d->m->rope_freq[set]) continue;
        if (!rows_new(d, &d->rope_cos[set], d->m->hp.n_rot / 2) ||
            !rows_new(d, &d->rope_sin[set], d->m->hp.n_rot / 2))
            return false;
    }
    return true;
}

static bool mla_new(struct decoder *d) {
    const struct hparams *hp = &d->m->hp;
    int columns = max_int(hp->d_nope, hp->kv_lora_rank), rows = hp->n_head * HL_CHUNK;
    d->gather = decoder_own(d, mem_size((size_t)rows, (size_t)columns), sizeof(float));
    d->head_jobs = decoder_own(d, (size_t)hp->n_head, sizeof *d->head_jobs);
    return d->gather && d->head_jobs && act_new(d, &d->act_heads, rows, columns) &&
           rows_new(d, &d->q_a, hp->q_lora_rank) && rows_new(d, &d->q_heads, hp->n_head * hp->d_head_k) &&
           rows_new(d, &d->o_heads, hp->n_head * hp->d_head_v);
}

static bool scratch_new(struct decoder *d) {
    const struct hparams *hp = &d->m->hp;
    const struct attn_dims *dims = &d->dims;
    int n_ff = max_int(hp->n_ff, hp->n_ff_shexp);
    bool ok = rope_new(d) && attn_scratch_new(d) && act_new(d, &d->act, HL_CHUNK, act_columns(hp)) &&
              rows_new(d, &d->x, hp->n_embd) && rows_new(d, &d->xn, hp->n_embd) &&
              rows_new(d, &d->q, dims->n_head * dims->k_dim) &&
              rows_new(d, &d->kr, dims->n_head_kv * dims->k_dim) &&
              rows_new(d, &d->vr, dims->values_in_keys ? 0 : dims->n_head_kv * dims->v_dim) &&
              rows_new(d, &d->o, dims->n_head * dims->v_dim) && rows_new(d, &d->y, hp->n_embd) &&
              rows_new(d, &d->gate, n_ff) && rows_new(d, &d->up, n_ff) &&
              rows_new(d, &d->softmax, dims->n_head * 2);
    if (d->m->arch->attn == ATTN_MLA) ok = ok && mla_new(d);
    else d->o_heads = d->o;
    return ok && (hp->n_expert == 0 || moe_new(d));
}

hl_status decoder_new(struct decoder **out, const struct model *m, hl_precision precision) {
    struct decoder *d = mem_alloc(m->mem, MEM_SCRATCH, sizeof *d);
    CHECK(d, HL_EMEMORY, "decoder: no memory");
    d->m = m;
    d->k = kernels_get();
    d->pool = m->pool;
    d->precision = precision;
    d->dims = attn_dims(m);
    if (!scratch_new(d)) {
        decoder_free(d);
        return status_set(
            HL_EMEMORY, "decoder: no memory for the scratch of %d positions: use a smaller model", HL_CHUNK);
    }
    *out = d;
    return HL_OK;
}

hl_precision decoder_precision(const struct decoder *d) { return d->precision; }

void decoder_free(struct decoder *d) {
    if (!d) return;
    struct mem *mem = d->m->mem;
    mem_free(mem, MEM_SCRATCH, d->partial, partial_bytes(d, d->n_spans));
    for (int i = 0; i < d->n_owned; i++) mem_free(mem, MEM_SCRATCH, d->owned[i].p, d->owned[i].n);
    mem_free(mem, MEM_SCRATCH, d, sizeof *d);
}

/* Bytes that act_new takes for one row. */
static size_t act_row_bytes(int n_columns) {
    const struct act *a = NULL;
    size_t n_blocks = (size_t)(n_columns + PANEL_BLOCK - 1) / PANEL_BLOCK;
    return n_blocks * (sizeof *a->blocks + sizeof *a->halves + sizeof *a->low8 + sizeof *a->codes16);
}

/* Of one position: MLA's queries, heads and what is gathered for the products of each head. */
static size_t mla_row_bytes(const struct hparams *hp) {
    int columns = max_int(hp->d_nope, hp->kv_lora_rank);
    size_t head = act_row_bytes(columns) + 4 * (size_t)(columns + hp->d_head_k + hp->d_head_v);
    return 4 * (size_t)hp->q_lora_rank + (size_t)hp->n_head * head;
}

/* Of one position: router, shared experts, and for each chosen expert its row in, between and out. */
static size_t moe_row_bytes(const struct hparams *hp) {
    size_t place = act_row_bytes(max_int(hp->n_embd, hp->n_ff_exp)) +
                   4 * (size_t)(2 * hp->n_embd + 2 * hp->n_ff_exp + 4);
    return 4 * (size_t)(hp->n_expert + hp->n_embd) + (size_t)hp->n_expert_used * place;
}

size_t decoder_scratch_bytes(const struct model *m) {
    const struct hparams *hp = &m->hp;
    struct attn_dims a = attn_dims(m);
    struct attn_sizes thread = attn_sizes(m);
    size_t n_ff = (size_t)max_int(hp->n_ff, hp->n_ff_shexp);
    size_t heads = (size_t)a.n_head * (size_t)(a.k_dim + a.v_dim + 2) +
                   (size_t)a.n_head_kv * (size_t)(a.k_dim + a.v_dim);
    size_t row = 4 * (3 * (size_t)hp->n_embd + 2 * n_ff + heads + ROPE_SETS * (size_t)hp->n_rot) +
                 act_row_bytes(act_columns(hp));
    if (a.values_in_keys) row += mla_row_bytes(hp);
    size_t rest = sizeof(struct decoder) + (size_t)hp->n_head * sizeof(struct linear);
    if (hp->n_expert > 0) {
        row += moe_row_bytes(hp);
        rest += 2 * (size_t)hp->n_expert * (sizeof(struct linear) + sizeof(int));
    }
    return HL_CHUNK * row + (size_t)pool_threads(m->pool) * attn_floats(&thread) * sizeof(float) + rest;
}

void decoder_kv_shapes(const struct model *m, struct kv_shape *shapes) {
    struct attn_dims a = attn_dims(m);
    for (int l = 0; l < m->hp.n_layer; l++)
        shapes[l] = (struct kv_shape){a.n_head_kv, a.k_dim, a.values_in_keys ? 0 : a.v_dim, a.k_plain,
                                      m->layers[l].window};
}

hl_status decoder_reserve(struct decoder *d, int n_ctx) {
    int n_spans = (n_ctx + KV_BLOCK - 1) / KV_BLOCK;
    if (n_spans <= d->n_spans) return HL_OK;
    float *partial =
        mem_grow(d->m->mem, MEM_SCRATCH, d->partial, partial_bytes(d, d->n_spans), partial_bytes(d, n_spans));
    CHECK(partial, HL_EMEMORY, "decoder: no memory for a context of %d positions: use a smaller one", n_ctx);
    d->partial = partial;
    d->n_spans = n_spans;
    return HL_OK;
}

void decoder_set_mla(struct decoder *d, hl_mla mode) {
    d->expanded = d->m->arch->attn == ATTN_MLA && mode == HL_MLA_EXPANDED;
}

hl_status decoder_prepare_taps(const struct decoder *d, struct taps *t, int n, int length) {
    const struct attn_dims *a = &d->dims;
    int n_embd = d->m->hp.n_embd;
    const struct {
        hl_tap name;
        int heads, columns;
    } shapes[] = {
        {HL_TAP_EMBD, 1, n_embd},
        {HL_TAP_ATTN_NORM, 1, n_embd},
        {HL_TAP_Q, 1, a->n_head * a->k_dim},
        {HL_TAP_K, 1, a->n_head_kv * a->k_dim},
        {HL_TAP_V, 1, a->values_in_keys ? 0 : a->n_head_kv * a->v_dim},
        {HL_TAP_ATTN_PROB, a->n_head, length},
        {HL_TAP_ATTN_OUT, 1, n_embd},
        {HL_TAP_FFN_NORM, 1, n_embd},
        {HL_TAP_FFN_OUT, 1, n_embd},
        {HL_TAP_LAYER_OUT, 1, n_embd},
        {HL_TAP_FINAL_NORM, 1, n_embd},
        {HL_TAP_LOGITS, 1, d->m->hp.n_vocab},
        {HL_TAP_ROUTER, 1, 2 * d->m->hp.n_expert_used},
        {HL_TAP_SCORE_LATENT, a->values_in_keys ? a->n_head : 0, length},
        {HL_TAP_SCORE_ROPE, a->values_in_keys ? a->n_head : 0, length},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        TRY(taps_prepare(t, shapes[i].name, shapes[i].heads, n, shapes[i].columns));
    return HL_OK;
}

/* ---- steps on rows: everything between two matrices that concerns one position alone */

struct pool_rows {
    void (*fn)(void *arg, int row);
    void *arg;
};

static void rows_unit(void *arg, int row, int thread) {
    const struct pool_rows *r = arg;
    (void)thread;
    r->fn(r->arg, row);
}

void rows_run(struct decoder *d, void (*fn)(void *arg, int row), void *arg, int n) {
    struct pool_rows r = {fn, arg};
    pool_run(d->pool, rows_unit, &r, n);
}

struct norm_job {
    struct decoder *d;
    float *branch;     /* [n][n_embd] to add to x first, or NULL */
    const float *post; /* [n_embd] norm of the branch, or NULL */
    const float *w;    /* [n_embd] norm of what is read, or NULL */
    bool codes;
};

/* x += norm(branch) * residual_scale; xn = norm(x) * w; the activations of the matrices that follow. */
static void norm_row(void *arg, int row) {
    const struct norm_job *j = arg;
    struct decoder *d = j->d;
    const struct hparams *hp = &d->m->hp;
    size_t n = (size_t)hp->n_embd;
    float *x = d->x + (size_t)row * n, *xn = d->xn + (size_t)row * n;
    if (j->branch) {
        float *branch = j->branch + (size_t)row * n;
        if (j->post) d->k->rms_norm(branch, branch, j->post, hp->n_embd, hp->norm_eps);
        if (hp->residual_scale != 1) d->k->scale(branch, hp->residual_scale, hp->n_embd);
        d->k->add(x, branch, hp->n_embd);
    }
    if (j->w) d->k->rms_norm(xn, x, j->w, hp->n_embd, hp->norm_eps);
    else memcpy(xn, x, n * sizeof *xn);
    if (j->codes) d->k->quantize(&d->act, row, xn, d->precision);
}

static void norm_rows(struct decoder *d, float *branch, const float *post, const float *w,
                      const struct matrix *const *readers, int n_readers, int n) {
    PROFILE(NORM);
    d->act.n_in = d->m->hp.n_embd;
    d->act.n_rows = n;
    d->act.f32 = d->xn;
    struct norm_job j = {d, branch, post, w, linear_reads_codes(readers, n_readers)};
    rows_run(d, norm_row, &j, n);
}

struct quantize_job {
    struct decoder *d;
    struct act *act;
};

static void quantize_row(void *arg, int row) {
    const struct quantize_job *j = arg;
    j->d->k->quantize(j->act, row, j->act->f32 + (size_t)row * (size_t)j->act->n_in, j->d->precision);
}

void activate_rows(struct decoder *d, struct act *a, const float *x, int n_in,
                   const struct matrix *const *readers, int n_readers, int n) {
    PROFILE(NORM);
    a->n_in = n_in;
    a->n_rows = n;
    a->f32 = x;
    struct quantize_job j = {d, a};
    if (linear_reads_codes(readers, n_readers)) rows_run(d, quantize_row, &j, n);
}

/* y = W x, for rows x [n][w->n_in]. */
static void project_rows(struct decoder *d, const struct matrix *w, const float *bias, const float *x,
                         float *y, int n) {
    activate_rows(d, &d->act, x, w->n_in, &w, 1, n);
    linear_run(d, (struct linear[]){linear_whole(d, w, bias, y, n)}, 1);
}

/* ---- the forward pass */

static enum rope_set rope_set(const struct model *m, const struct kv *kv, int l) {
    if (m->rope_freq[ROPE_LOCAL] && m->layers[l].window > 0) return ROPE_LOCAL;
    return m->rope_freq[ROPE_LONG] && kv_capacity(kv) > m->hp.n_ctx_orig ? ROPE_LONG : ROPE_GLOBAL;
}

/* x: [n, n_embd]. y = attention(norm(x)); x += branch (the ffn of the layer before) comes first. */
static void attention_forward(struct decoder *d, struct kv *kv, const struct taps *t, int l, int first,
                              int n) {
    const struct layer *w = &d->m->layers[l];
    size_t n_embd = (size_t)d->m->hp.n_embd;
    enum rope_set set = rope_set(d->m, kv, l);
    struct attn_rows rows = {
        d, kv, l, first, n, w->rope ? d->rope_cos[set] : NULL, w->rope ? d->rope_sin[set] : NULL};
    const struct matrix *readers[] = {&w->wq, &w->wk, &w->wv, &w->wq_a, &w->wkv_a};
    norm_rows(d, l > 0 ? d->y : NULL, l > 0 ? w[-1].post_ffn_norm : NULL, w->attn_norm, readers, 5, n);
    if (l > 0) tap_rows(t, HL_TAP_LAYER_OUT, l - 1, d->x, n_embd);
    tap_rows(t, HL_TAP_ATTN_NORM, l, d->xn, n_embd);
    if (d->m->arch->attn == ATTN_MLA) attn_mla_rows(&rows, t);
    else attn_gqa_rows(&rows, t);
    attn_run(d, kv, l, first, n);
    attn_tap(d, kv, t, l, first, n);
    if (d->m->arch->attn == ATTN_MLA) attn_mla_values(d, l, n);
    project_rows(d, &w->wo, w->bo, d->o_heads, d->y, n);
    tap_rows(t, HL_TAP_ATTN_OUT, l, d->y, n_embd);
}

/* y = W_down (act(W_gate x) * (W_up x)), or W_down act(W_up x) where there is no gate. */
static void dense_forward(struct decoder *d, const struct layer *w, int n) {
    struct linear gate = linear_whole(d, &w->w_gate, w->b_gate, d->gate, n),
                  up = linear_whole(d, &w->w_up, w->b_up, d->up, n);
    if (w->w_gate.data) {
        linear_gated(d, (struct linear[]){gate, up}, 2);
        project_rows(d, &w->w_down, w->b_down, d->gate, d->y, n);
        return;
    }
    linear_run(d, &up, 1);
    for (int row = 0; row < n; row++) d->k->relu2(d->up + (size_t)row * (size_t)d->m->hp.n_ff, d->m->hp.n_ff);
    project_rows(d, &w->w_down, w->b_down, d->up, d->y, n);
}

/* x += y; y = ffn(norm(x)). */
static void ffn_forward(struct decoder *d, const struct taps *t, int l, int n) {
    const struct layer *w = &d->m->layers[l];
    size_t n_embd = (size_t)d->m->hp.n_embd;
    const struct matrix *readers[] = {&w->w_gate, &w->w_up, &w->w_router, &w->w_gate_shexp, &w->w_up_shexp};
    norm_rows(d, d->y, w->post_attn_norm, w->ffn_norm, readers, 5, n);
    tap_rows(t, HL_TAP_FFN_NORM, l, d->xn, n_embd);
    if (w->w_router.data) moe_forward(d, t, l, n);
    else dense_forward(d, w, n);
    tap_rows(t, HL_TAP_FFN_OUT, l, d->y, n_embd);
}

/* Logits [n][n_vocab] of the first n rows of d->act. */
static void logits_forward(struct decoder *d, float *logits, int n) {
    const struct model *m = d->m;
    PROFILE(OUTPUT);
    linear_run(d, (struct linear[]){linear_whole(d, &m->output, m->output_bias, logits, n)}, 1);
    for (int row = 0; row < n; row++) {
        float *y = logits + (size_t)row * (size_t)m->hp.n_vocab;
        if (m->hp.logit_scale != 1) d->k->scale(y, m->hp.logit_scale, m->hp.n_vocab);
        if (m->hp.final_softcap != 0) d->k->softcap(y, m->hp.final_softcap, m->hp.n_vocab);
    }
}

/* x += y, then the logits: of the last row into logits unless NULL, of all rows into the tap when it is
 * on. */
static void output_forward(struct decoder *d, const struct taps *t, int n, float *logits) {
    const struct model *m = d->m;
    size_t n_embd = (size_t)m->hp.n_embd, n_vocab = (size_t)m->hp.n_vocab;
    int last = m->hp.n_layer - 1;
    const struct matrix *readers[] = {&m->output};
    norm_rows(d, d->y, m->layers[last].post_ffn_norm, m->output_norm, readers, 1, n);
    tap_rows(t, HL_TAP_LAYER_OUT, last, d->x, n_embd);
    tap_rows(t, HL_TAP_FINAL_NORM, 0, d->xn, n_embd);
    if (tap_on(t, HL_TAP_LOGITS, 0)) {
        float *all = tap_at(t, HL_TAP_LOGITS, 0)->data;
        logits_forward(d, all, n);
        if (logits) memcpy(logits, all + (size_t)(n - 1) * n_vocab, n_vocab * sizeof *logits);
    } else if (logits) {
        activate_rows(d, &d->act, d->xn + (size_t)(n - 1) * n_embd, m->hp.n_embd, readers, 1, 1);
        logits_forward(d, logits, 1);
    }
}

/* Cosines and sines of positions first .. first + n - 1, in f32 angles as transformers computes them. */
static void rope_angles(struct decoder *d, enum rope_set set, int first, int n) {
    int half = d->m->hp.n_rot / 2;
    const float *freq = d->m->rope_freq[set];
    float mscale = set == ROPE_LOCAL ? 1 : d->m->hp.rope_mscale;
    if (!freq) return;
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < half; i++) {
            double angle = (float)(first + row) * freq[i];
            d->rope_cos[set][row * half + i] = (float)cos(angle) * mscale;
            d->rope_sin[set][row * half + i] = (float)sin(angle) * mscale;
        }
    }
}

hl_status decoder_forward(struct decoder *d, struct kv *kv, const struct taps *taps, const int32_t *tokens,
                          int n, float *logits) {
    const struct model *m = d->m;
    int first = kv_length(kv);
    assert(n >= 1 && n <= HL_CHUNK);
    PROFILE(EMBED);
    for (int row = 0; row < n; row++) {
        float *x = d->x + (size_t)row * (size_t)m->hp.n_embd;
        panel_row(x, &m->token_embd, tokens[row]);
        if (m->hp.embed_scale != 1) d->k->scale(x, m->hp.embed_scale, m->hp.n_embd);
    }
    tap_rows(taps, HL_TAP_EMBD, 0, d->x, (size_t)m->hp.n_embd);
    for (int set = 0; set < ROPE_SETS; set++) rope_angles(d, (enum rope_set)set, first, n);
    atomic_store(&d->unfit, false);
    for (int l = 0; l < m->hp.n_layer; l++) {
        attention_forward(d, kv, taps, l, first, n);
        CHECK(!atomic_load(&d->unfit), HL_EUNSUPPORTED,
              "feed: keys or values of layer %d at positions %d to %d are too large for this cache, or no "
              "numbers "
              "(f16 holds up to 65504, q8_0 up to 8.3 million): use a cache of f32 (kv f32)",
              l, first, first + n - 1);
        ffn_forward(d, taps, l, n);
    }
    output_forward(d, taps, n, logits);
    return HL_OK;
}
