#include "decoder/decoder.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "decoder/steps.h"

/* ---- set-up */

/* n numbers of `size` bytes that live as long as the decoder; NULL when there is no memory. */
static void *own(struct decoder *d, size_t n, size_t size) {
    size_t bytes = mem_size(n, size);
    void *p = mem_alloc(d->m->mem, MEM_SCRATCH, bytes);
    if (!p) return NULL;
    assert(d->n_owned < (int)(sizeof d->owned / sizeof d->owned[0]));
    d->owned[d->n_owned++] = (struct mem_list){p, bytes};
    return p;
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static int act_columns(const struct hparams *hp) {
    int n = max_int(hp->n_embd, max_int(hp->n_ff, hp->n_head * hp->d_head_v));
    return (n + PANEL_BLOCK - 1) / PANEL_BLOCK * PANEL_BLOCK;
}

static size_t partial_bytes(const struct decoder *d, int n_spans) {
    return mem_size((size_t)d->m->hp.n_head * (size_t)(d->m->hp.d_head_v + 2) * sizeof(float), (size_t)n_spans);
}

/* Angle per position of each pair, in f32 as transformers computes it. */
static void rope_frequencies(const struct model *m, float *freq) {
    for (int i = 0; i < m->hp.n_rot / 2; i++) {
        float f = (float)(1.0 / pow((double)m->hp.rope_base, 2.0 * i / m->hp.n_rot));
        if (m->rope_factors) f /= m->rope_factors[i];
        freq[i] = f * m->hp.rope_scale;
    }
}

static bool attn_scratch_new(struct decoder *d) {
    const struct hparams *hp = &d->m->hp;
    int threads = pool_threads(d->pool);
    d->attn = own(d, (size_t)threads, sizeof *d->attn);
    if (!d->attn) return false;
    size_t keys = (size_t)KV_BLOCK * (size_t)hp->d_head_k, values = (size_t)KV_BLOCK * (size_t)hp->d_head_v;
    size_t scores = (size_t)ATTN_ROWS * KV_BLOCK, out = (size_t)ATTN_ROWS * (size_t)hp->d_head_v;
    float *p = own(d, (keys + values + scores + out) * (size_t)threads, sizeof *p);
    if (!p) return false;
    for (int i = 0; i < threads; i++) {
        d->attn[i] = (struct attn_scratch){p, p + keys, p + keys + values, p + keys + values + scores};
        p += keys + values + scores + out;
    }
    return true;
}

static bool act_new(struct decoder *d) {
    size_t n = (size_t)HL_CHUNK * (size_t)d->act_columns, blocks = n / PANEL_BLOCK;
    struct act *a = &d->act;
    return (a->codes8 = own(d, n, sizeof *a->codes8)) && (a->codes16 = own(d, n, sizeof *a->codes16)) &&
           (a->d = own(d, blocks, sizeof *a->d)) && (a->s = own(d, blocks, sizeof *a->s)) &&
           (a->sum = own(d, blocks, sizeof *a->sum));
}

static bool rows_new(struct decoder *d) {
    const struct hparams *hp = &d->m->hp;
    struct {
        float **p;
        int n; /* floats of a row */
    } rows[] = {
        {&d->rope_cos, hp->n_rot / 2},
        {&d->rope_sin, hp->n_rot / 2},
        {&d->x, hp->n_embd},
        {&d->xn, hp->n_embd},
        {&d->q, hp->n_head * hp->d_head_k},
        {&d->kr, hp->n_head_kv * hp->d_head_k},
        {&d->vr, hp->n_head_kv * hp->d_head_v},
        {&d->o, hp->n_head * hp->d_head_v},
        {&d->y, hp->n_embd},
        {&d->gate, hp->n_ff},
        {&d->up, hp->n_ff},
        {&d->softmax, hp->n_head * 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        *rows[i].p = own(d, (size_t)HL_CHUNK * (size_t)rows[i].n, sizeof(float));
        if (!*rows[i].p) return false;
    }
    return true;
}

hl_status decoder_new(struct decoder **out, const struct model *m, hl_precision precision) {
    struct decoder *d = mem_alloc(m->mem, MEM_SCRATCH, sizeof *d);
    CHECK(d, HL_EMEMORY, "decoder: no memory");
    d->m = m;
    d->k = kernels_get();
    d->pool = m->pool;
    d->precision = precision;
    d->act_columns = act_columns(&m->hp);
    d->rope_freq = own(d, (size_t)m->hp.n_rot / 2, sizeof *d->rope_freq);
    if (!d->rope_freq || !rows_new(d) || !act_new(d) || !attn_scratch_new(d)) {
        decoder_free(d);
        return status_set(HL_EMEMORY, "decoder: no memory for the scratch of %d positions: use a smaller model", HL_CHUNK);
    }
    rope_frequencies(m, d->rope_freq);
    *out = d;
    return HL_OK;
}

void decoder_free(struct decoder *d) {
    if (!d) return;
    struct mem *mem = d->m->mem;
    mem_free(mem, MEM_SCRATCH, d->partial, partial_bytes(d, d->n_spans));
    for (int i = 0; i < d->n_owned; i++) mem_free(mem, MEM_SCRATCH, d->owned[i].p, d->owned[i].n);
    mem_free(mem, MEM_SCRATCH, d, sizeof *d);
}

size_t decoder_scratch_bytes(const struct model *m) {
    const struct hparams *hp = &m->hp;
    size_t row = (size_t)(hp->n_rot + 3 * hp->n_embd + 2 * hp->n_ff + hp->n_head * (hp->d_head_k + hp->d_head_v + 2) +
                          hp->n_head_kv * (hp->d_head_k + hp->d_head_v)) * sizeof(float);
    size_t act = (size_t)act_columns(hp) * 3 + (size_t)act_columns(hp) / PANEL_BLOCK * 12;
    size_t attn = ((size_t)(KV_BLOCK + ATTN_ROWS) * (size_t)(hp->d_head_k + hp->d_head_v) + (size_t)ATTN_ROWS * KV_BLOCK) * sizeof(float);
    return HL_CHUNK * (row + act) + (size_t)pool_threads(m->pool) * attn;
}

void decoder_kv_shapes(const struct model *m, struct kv_shape *shapes) {
    for (int l = 0; l < m->hp.n_layer; l++)
        shapes[l] = (struct kv_shape){m->hp.n_head_kv, m->hp.d_head_k, m->hp.d_head_v};
}

hl_status decoder_reserve(struct decoder *d, int n_ctx) {
    int n_spans = (n_ctx + KV_BLOCK - 1) / KV_BLOCK;
    if (n_spans <= d->n_spans) return HL_OK;
    float *partial = mem_grow(d->m->mem, MEM_SCRATCH, d->partial, partial_bytes(d, d->n_spans), partial_bytes(d, n_spans));
    CHECK(partial, HL_EMEMORY, "decoder: no memory for a context of %d positions: use a smaller one", n_ctx);
    d->partial = partial;
    d->n_spans = n_spans;
    return HL_OK;
}

hl_status decoder_prepare_taps(const struct decoder *d, struct taps *t, int n, int length) {
    const struct hparams *hp = &d->m->hp;
    TRY(taps_prepare(t, HL_TAP_ATTN_PROB, hp->n_head, n, length));
    TRY(taps_prepare(t, HL_TAP_Q, 1, n, hp->n_head * hp->d_head_k));
    TRY(taps_prepare(t, HL_TAP_K, 1, n, hp->n_head_kv * hp->d_head_k));
    TRY(taps_prepare(t, HL_TAP_V, 1, n, hp->n_head_kv * hp->d_head_v));
    TRY(taps_prepare(t, HL_TAP_LOGITS, 1, n, hp->n_vocab));
    static const hl_tap embd[] = {HL_TAP_EMBD,    HL_TAP_ATTN_NORM, HL_TAP_ATTN_OUT,  HL_TAP_FFN_NORM,
                                  HL_TAP_FFN_OUT, HL_TAP_LAYER_OUT, HL_TAP_FINAL_NORM};
    for (size_t i = 0; i < sizeof embd / sizeof embd[0]; i++) TRY(taps_prepare(t, embd[i], 1, n, hp->n_embd));
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
    const float *add; /* [n][n_embd] branch to add to x first, or NULL */
    const float *w;   /* [n_embd] */
    bool codes;
};

/* x += branch; xn = norm(x) * w; the activations of the matrices that follow. */
static void norm_row(void *arg, int row) {
    const struct norm_job *j = arg;
    struct decoder *d = j->d;
    int n = d->m->hp.n_embd;
    float *x = d->x + (size_t)row * (size_t)n, *xn = d->xn + (size_t)row * (size_t)n;
    if (j->add) d->k->add(x, j->add + (size_t)row * (size_t)n, n);
    d->k->rms_norm(xn, x, j->w, n, d->m->hp.norm_eps);
    if (j->codes) d->k->quantize(&d->act, row, xn, d->precision);
}

static void norm_rows(struct decoder *d, const float *add, const float *w, const struct matrix *const *readers, int n_readers,
                      int n) {
    d->act.n_in = d->m->hp.n_embd;
    d->act.f32 = d->xn;
    struct norm_job j = {d, add, w, linear_reads_codes(readers, n_readers)};
    rows_run(d, norm_row, &j, n);
}

struct quantize_job {
    struct decoder *d;
    const float *x; /* [n][act.n_in] */
};

static void quantize_row(void *arg, int row) {
    const struct quantize_job *j = arg;
    j->d->k->quantize(&j->d->act, row, j->x + (size_t)row * (size_t)j->d->act.n_in, j->d->precision);
}

/* The n rows x [n][reader->n_in] become the activations of one matrix. */
static void activate_rows(struct decoder *d, const float *x, const struct matrix *reader, int n) {
    d->act.n_in = reader->n_in;
    d->act.f32 = x;
    struct quantize_job j = {d, x};
    if (linear_reads_codes(&reader, 1)) rows_run(d, quantize_row, &j, n);
}

/* ---- the forward pass */

/* x: [n, n_embd]. y = attention(norm(x)); when branch is given, x += branch comes first. */
static void attention_forward(struct decoder *d, struct kv *kv, const struct taps *t, int l, const float *branch, int first, int n) {
    const struct layer *w = &d->m->layers[l];
    size_t n_embd = (size_t)d->m->hp.n_embd;
    const struct matrix *readers[] = {&w->wq, &w->wk, &w->wv};
    norm_rows(d, branch, w->attn_norm, readers, 3, n);
    if (l > 0) tap_rows(t, HL_TAP_LAYER_OUT, l - 1, d->x, n_embd);
    tap_rows(t, HL_TAP_ATTN_NORM, l, d->xn, n_embd);
    attn_gqa_rows(d, kv, t, l, first, n);
    attn_run(d, kv, l, first, n);
    attn_tap(d, kv, t, l, first, n);
    activate_rows(d, d->o, &w->wo, n);
    linear_run(d, (struct linear[]){linear_whole(&w->wo, w->bo, d->y, n)}, 1);
    tap_rows(t, HL_TAP_ATTN_OUT, l, d->y, n_embd);
}

/* x += y; y = ffn(norm(x)). */
static void ffn_forward(struct decoder *d, const struct taps *t, int l, int n) {
    const struct layer *w = &d->m->layers[l];
    size_t n_embd = (size_t)d->m->hp.n_embd;
    const struct matrix *readers[] = {&w->w_gate, &w->w_up};
    norm_rows(d, d->y, w->ffn_norm, readers, 2, n);
    tap_rows(t, HL_TAP_FFN_NORM, l, d->xn, n_embd);
    struct linear pair[] = {linear_whole(&w->w_gate, w->b_gate, d->gate, n), linear_whole(&w->w_up, w->b_up, d->up, n)};
    linear_gated(d, pair, 2);
    activate_rows(d, d->gate, &w->w_down, n);
    linear_run(d, (struct linear[]){linear_whole(&w->w_down, w->b_down, d->y, n)}, 1);
    tap_rows(t, HL_TAP_FFN_OUT, l, d->y, n_embd);
}

/* x += y, then the logits: of the last row into logits unless NULL, of all rows into the tap when it is on. */
static void output_forward(struct decoder *d, const struct taps *t, int n, float *logits) {
    const struct model *m = d->m;
    int n_embd = m->hp.n_embd, last = m->hp.n_layer - 1;
    const struct matrix *readers[] = {&m->output};
    norm_rows(d, d->y, m->output_norm, readers, 1, n);
    tap_rows(t, HL_TAP_LAYER_OUT, last, d->x, (size_t)n_embd);
    tap_rows(t, HL_TAP_FINAL_NORM, 0, d->xn, (size_t)n_embd);
    if (tap_on(t, HL_TAP_LOGITS, 0)) {
        float *all = tap_at(t, HL_TAP_LOGITS, 0)->data;
        linear_run(d, (struct linear[]){linear_whole(&m->output, m->output_bias, all, n)}, 1);
        if (logits) memcpy(logits, all + (size_t)(n - 1) * (size_t)m->hp.n_vocab, (size_t)m->hp.n_vocab * sizeof(float));
    } else if (logits) {
        activate_rows(d, d->xn + (size_t)(n - 1) * (size_t)n_embd, &m->output, 1);
        linear_run(d, (struct linear[]){linear_whole(&m->output, m->output_bias, logits, 1)}, 1);
    }
}

/* Cosines and sines of positions first .. first + n - 1. */
static void rope_angles(struct decoder *d, int first, int n) {
    int half = d->m->hp.n_rot / 2;
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < half; i++) {
            double angle = (float)(first + row) * d->rope_freq[i];
            d->rope_cos[row * half + i] = (float)cos(angle);
            d->rope_sin[row * half + i] = (float)sin(angle);
        }
    }
}

void decoder_forward(struct decoder *d, struct kv *kv, const struct taps *taps, const int32_t *tokens, int n, float *logits) {
    const struct model *m = d->m;
    int first = kv_length(kv);
    assert(n >= 1 && n <= HL_CHUNK);
    for (int row = 0; row < n; row++) panel_row(d->x + (size_t)row * (size_t)m->hp.n_embd, &m->token_embd, tokens[row]);
    tap_rows(taps, HL_TAP_EMBD, 0, d->x, (size_t)m->hp.n_embd);
    rope_angles(d, first, n);
    for (int l = 0; l < m->hp.n_layer; l++) {
        attention_forward(d, kv, taps, l, l > 0 ? d->y : NULL, first, n);
        ffn_forward(d, taps, l, n);
    }
    output_forward(d, taps, n, logits);
}
