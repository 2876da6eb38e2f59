/* Attention over cached rows, for any ratio of query heads to cached heads.
 *
 * The cache is read in spans of KV_BLOCK positions. Each span gives a row its own maximum, sum and
 * weighted values, and spans are merged in order of position (online softmax: Milakov and Gimelshein 2018,
 * arXiv 1805.02867), so that the bits do not depend on how many rows or threads take part. */
#include <math.h>
#include <string.h>

#include "base/profile.h"
#include "decoder/steps.h"

/* Query rows up to which rows of f16 are read directly: two passes of the kernels. */
enum { DIRECT_ROWS = 8 };

struct attn_job {
    struct decoder *d;
    struct attn_dims dims;
    const struct kv *kv;
    const struct taps *taps;
    float *q, *o; /* [n][n_head][k_dim], [n][n_head][v_dim] */
    int l, first, n;
    int window;  /* positions a row sees, its own included; 0: all */
    int group;   /* query heads that share a cached head */
    int span0;   /* first span that a row sees */
    int n_spans; /* spans from there to the last row's position */
    int tiles;   /* of ATTN_ROWS rows */
};

/* The keys and values of one span of one cached head. */
struct span {
    int start, n_keys;  /* first position, positions */
    bool f16;           /* as the cache keeps them, else f32 */
    const void *keys;   /* [n_keys][k_dim] */
    const void *values; /* [n_keys][v_stride] */
    int v_stride;
};

/* n rows of the cache as f32, where they are or in scratch; the last `plain` numbers of a q8_0 row are
 * f16. */
static const float *cached_rows(const struct attn_job *a, const void *rows, float *scratch, int n, int width,
                                int plain) {
    const struct kernels *k = a->d->k;
    if (kv_type(a->kv) == HL_KV_F32) return rows;
    if (kv_type(a->kv) == HL_KV_F16) {
        k->f32_from_f16_row(scratch, rows, n * width);
    } else if (plain == 0) {
        k->f32_from_q8_row(scratch, rows, n * width);
    } else {
        const unsigned char *row = rows;
        size_t codes = (size_t)(width - plain) / Q8_GROUP * Q8_BYTES;
        for (int i = 0; i < n; i++, row += codes + 2 * (size_t)plain) {
            k->f32_from_q8_row(scratch + i * width, row, width - plain);
            k->f32_from_f16_row(scratch + (i + 1) * width - plain,
                                (const uint16_t *)(const void *)(row + codes), plain);
        }
    }
    return scratch;
}

/* The keys and values of head h, made from the latent rows. */
static struct span expanded_span(const struct attn_job *a, struct attn_scratch *s, int h, int start, int n) {
    const struct attn_dims *latent = &a->d->dims;
    const float *rows =
        cached_rows(a, kv_keys(a->kv, a->l, 0, start), s->keys, n, latent->k_dim, latent->k_plain);
    attn_mla_expand(a->d, a->l, h, rows, n, s->head_keys, s->head_values, s->weights);
    return (struct span){start, n, false, s->head_keys, s->head_values, a->dims.v_dim};
}

/* Span number `number` of cached head h, up to position end - 1, as f32. */
static struct span read_span(const struct attn_job *a, struct attn_scratch *s, int h, int number, int end) {
    int start = number * KV_BLOCK, n = end - start < KV_BLOCK ? end - start : KV_BLOCK;
    if (a->d->expanded) return expanded_span(a, s, h, start, n);
    struct span span = {.start = start, .n_keys = n, .v_stride = a->dims.v_dim};
    span.keys = cached_rows(a, kv_keys(a->kv, a->l, h, start), s->keys, n, a->dims.k_dim, a->dims.k_plain);
    if (a->dims.values_in_keys) {
        span.values = span.keys;
        span.v_stride = a->dims.k_dim;
    } else {
        span.values = cached_rows(a, kv_values(a->kv, a->l, h, start), s->values, n, a->dims.v_dim, 0);
    }
    return span;
}

/* The same for few query rows, which read rows of f16 where they are: to write them down as f32 takes longer. */
static struct span read_span_once(const struct attn_job *a, struct attn_scratch *s, int h, int number,
                                  int end) {
    int start = number * KV_BLOCK, n = end - start < KV_BLOCK ? end - start : KV_BLOCK;
    if (kv_type(a->kv) != HL_KV_F16 || a->d->expanded || a->group > DIRECT_ROWS)
        return read_span(a, s, h, number, end);
    struct span span = {start, n, true, kv_keys(a->kv, a->l, h, start), NULL, a->dims.v_dim};
    span.values = a->dims.values_in_keys ? span.keys : kv_values(a->kv, a->l, h, start);
    if (a->dims.values_in_keys) span.v_stride = a->dims.k_dim;
    return span;
}

static float *query_row(const struct attn_job *a, int row, int head) {
    return a->q + ((size_t)row * (size_t)a->dims.n_head + (size_t)head) * (size_t)a->dims.k_dim;
}

static float *output_row(const struct attn_job *a, int row, int head) {
    return a->o + ((size_t)row * (size_t)a->dims.n_head + (size_t)head) * (size_t)a->dims.v_dim;
}

static float *softmax_row(const struct attn_job *a, int row, int head) {
    return a->d->softmax + ((size_t)row * (size_t)a->dims.n_head + (size_t)head) * 2;
}

/* First position that position pos sees. */
static int first_seen(const struct attn_job *a, int pos) {
    return a->window > 0 && pos >= a->window ? pos - a->window + 1 : 0;
}

/* Keys that the row at position pos does not see get no weight. */
static void mask(const struct attn_job *a, float *scores, int pos, const struct span *span) {
    int from = first_seen(a, pos) - span->start, to = pos + 1 - span->start;
    for (int j = 0; j < span->n_keys && j < from; j++) scores[j] = -INFINITY;
    for (int j = to > 0 ? to : 0; j < span->n_keys; j++) scores[j] = -INFINITY;
}

/* Scores of n_rows query rows, q_stride floats apart, with a span's keys, not yet masked. */
static void score(const struct attn_job *a, float *scores, const float *q, int q_stride, int n_rows,
                  const struct span *span) {
    const struct kernels *k = a->d->k;
    float cap = a->d->m->hp.attn_softcap;
    int k_dim = a->dims.k_dim;
    if (span->f16)
        k->attn_scores_f16(scores, KV_BLOCK, q, q_stride, n_rows, span->keys, k_dim, span->n_keys, k_dim);
    else k->attn_scores(scores, KV_BLOCK, q, q_stride, n_rows, span->keys, k_dim, span->n_keys, k_dim);
    if (cap == 0) return;
    for (int i = 0; i < n_rows; i++) k->softcap(scores + i * KV_BLOCK, cap, span->n_keys);
}

/* Sums of a span's values, for n_rows rows of weights. */
static void add_values(const struct attn_job *a, float *out, int out_stride, const float *weights, int n_rows,
                       const struct span *span) {
    const struct kernels *k = a->d->k;
    int v_dim = a->dims.v_dim;
    if (span->f16) {
        k->attn_values_f16(out, out_stride, weights, KV_BLOCK, n_rows, span->values, span->v_stride,
                           span->n_keys, v_dim);
    } else {
        k->attn_values(out, out_stride, weights, KV_BLOCK, n_rows, span->values, span->v_stride, span->n_keys,
                       v_dim);
    }
}

/* Scores of one row become weights: part = {maximum, sum}. A row that sees nothing of the span has the sum
 * 0. */
static void weigh(const struct kernels *k, float *scores, int n_keys, float part[2]) {
    part[0] = k->max(scores, n_keys);
    part[1] = 0;
    if (part[0] == -INFINITY) memset(scores, 0, (size_t)n_keys * sizeof *scores);
    else part[1] = k->exp_sum(scores, scores, n_keys, part[0]);
}

static void clear(const struct attn_job *a, int row, int head) {
    float *total = softmax_row(a, row, head);
    total[0] = -INFINITY;
    total[1] = 0;
    memset(output_row(a, row, head), 0, (size_t)a->dims.v_dim * sizeof(float));
}

/* Adds a span's part (maximum, sum, out [v_dim]) to what the spans before gave. */
static void merge(const struct attn_job *a, int row, int head, const float part[2], const float *part_out) {
    const struct kernels *k = a->d->k;
    float *total = softmax_row(a, row, head), keep, add;
    if (part[1] == 0) return;
    float max = part[0] > total[0] ? part[0] : total[0];
    k->exp_sum(&keep, &total[0], 1, max);
    k->exp_sum(&add, &part[0], 1, max);
    total[0] = max;
    total[1] = total[1] * keep + part[1] * add;
    k->scale_add(output_row(a, row, head), keep, part_out, add, a->dims.v_dim);
}

static void finish(const struct attn_job *a, int row, int head) {
    a->d->k->scale(output_row(a, row, head), 1.0f / softmax_row(a, row, head)[1], a->dims.v_dim);
}

/* ---- one position (decode): a unit is one span of one cached head; its query heads read each row once */

static float *partial_of(const struct attn_job *a, int head, int span) {
    size_t part_size = (size_t)a->dims.v_dim + 2;
    return a->d->partial + ((size_t)head * (size_t)a->n_spans + (size_t)span) * part_size;
}

static void decode_unit(void *arg, int unit, int thread) {
    const struct attn_job *a = arg;
    struct attn_scratch *s = &a->d->attn[thread];
    int h = unit / a->n_spans, number = unit % a->n_spans, head_stride = a->n_spans * (a->dims.v_dim + 2);
    struct span span = read_span_once(a, s, h, a->span0 + number, a->first + 1);
    for (int head = h * a->group; head < (h + 1) * a->group; head += ATTN_ROWS) {
        int n_heads = (h + 1) * a->group - head < ATTN_ROWS ? (h + 1) * a->group - head : ATTN_ROWS;
        float *part = partial_of(a, head, number);
        score(a, s->scores, query_row(a, 0, head), a->dims.k_dim, n_heads, &span);
        for (int i = 0; i < n_heads; i++) {
            mask(a, s->scores + i * KV_BLOCK, a->first, &span);
            weigh(a->d->k, s->scores + i * KV_BLOCK, span.n_keys, part + (size_t)i * (size_t)head_stride);
        }
        add_values(a, part + 2, head_stride, s->scores, n_heads, &span);
    }
}

static void merge_unit(void *arg, int head, int thread) {
    const struct attn_job *a = arg;
    (void)thread;
    clear(a, 0, head);
    for (int span = 0; span < a->n_spans; span++)
        merge(a, 0, head, partial_of(a, head, span), partial_of(a, head, span) + 2);
    finish(a, 0, head);
}

static void decode_run(struct attn_job *a) {
    enum { SERIAL_SPANS = 8 }; /* up to here merging costs less than waking the pool */
    pool_run(a->d->pool, decode_unit, a, a->dims.n_head_kv * a->n_spans);
    if (a->n_spans > SERIAL_SPANS) {
        pool_run(a->d->pool, merge_unit, a, a->dims.n_head);
        return;
    }
    for (int head = 0; head < a->dims.n_head; head++) merge_unit(a, head, 0);
}

/* ---- several positions (prompt): a unit is a tile of rows of one cached head */

static void prefill_span(const struct attn_job *a, struct attn_scratch *s, int head, int row0, int n_rows,
                         const struct span *span) {
    int v_dim = a->dims.v_dim;
    float part[ATTN_ROWS][2];
    score(a, s->scores, query_row(a, row0, head), a->dims.n_head * a->dims.k_dim, n_rows, span);
    for (int i = 0; i < n_rows; i++) {
        mask(a, s->scores + i * KV_BLOCK, a->first + row0 + i, span);
        weigh(a->d->k, s->scores + i * KV_BLOCK, span->n_keys, part[i]);
    }
    add_values(a, s->out, v_dim, s->scores, n_rows, span);
    for (int i = 0; i < n_rows; i++) merge(a, row0 + i, head, part[i], s->out + i * v_dim);
}

static void prefill_unit(void *arg, int unit, int thread) {
    const struct attn_job *a = arg;
    struct attn_scratch *s = &a->d->attn[thread];
    int h = unit / a->tiles, row0 = unit % a->tiles * ATTN_ROWS,
        n_rows = a->n - row0 < ATTN_ROWS ? a->n - row0 : ATTN_ROWS;
    int end = a->first + row0 + n_rows, head0 = h * a->group, head1 = head0 + a->group;
    for (int head = head0; head < head1; head++)
        for (int i = 0; i < n_rows; i++) clear(a, row0 + i, head);
    for (int number = first_seen(a, a->first + row0) / KV_BLOCK; number * KV_BLOCK < end; number++) {
        struct span span = read_span(a, s, h, number, end);
        for (int head = head0; head < head1; head++) prefill_span(a, s, head, row0, n_rows, &span);
    }
    for (int head = head0; head < head1; head++)
        for (int i = 0; i < n_rows; i++) finish(a, row0 + i, head);
}

static struct attn_job job(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first,
                           int n) {
    struct attn_job a = {.d = d,
                         .dims = d->dims,
                         .kv = kv,
                         .taps = taps,
                         .q = d->q,
                         .o = d->o,
                         .l = l,
                         .first = first,
                         .n = n};
    const struct hparams *hp = &d->m->hp;
    if (d->expanded) {
        a.dims = (struct attn_dims){hp->n_head, hp->n_head, hp->d_head_k, hp->d_head_v, 0, false};
        a.q = d->q_heads;
        a.o = d->o_heads;
    }
    a.window = d->m->layers[l].window;
    a.group = a.dims.n_head / a.dims.n_head_kv;
    a.span0 = first_seen(&a, first) / KV_BLOCK;
    a.n_spans = (first + n - 1) / KV_BLOCK + 1 - a.span0;
    a.tiles = (n + ATTN_ROWS - 1) / ATTN_ROWS;
    return a;
}

void attn_run(struct decoder *d, const struct kv *kv, int l, int first, int n) {
    struct attn_job a = job(d, kv, NULL, l, first, n);
    PROFILE(ATTENTION);
    if (n == 1) decode_run(&a);
    else pool_run(d->pool, prefill_unit, &a, a.dims.n_head_kv * a.tiles);
}

/* ---- taps */

/* One query head's map [n][length] in a tap, all 0. */
static float *clear_map(const struct attn_job *a, hl_tap name, int head) {
    const struct tap *tap = tap_at(a->taps, name, a->l);
    size_t size = (size_t)a->n * (size_t)tap->shape[2];
    return memset(tap->data + (size_t)head * size, 0, size * sizeof(float));
}

/* One query head's rows of probabilities: exp(score - maximum) / sum, with what attn_run left. */
static void prob_unit(void *arg, int head, int thread) {
    const struct attn_job *a = arg;
    struct decoder *d = a->d;
    struct attn_scratch *s = &d->attn[thread];
    float *map = clear_map(a, HL_TAP_ATTN_PROB, head);
    size_t length = (size_t)(a->first + a->n);
    for (int number = 0; number < a->n_spans; number++) {
        struct span span = read_span(a, s, head / a->group, a->span0 + number, (int)length);
        for (int row = 0; row < a->n; row++) {
            float *out = map + (size_t)row * length + (size_t)span.start;
            const float *total = softmax_row(a, row, head);
            score(a, s->scores, query_row(a, row, head), 0, 1, &span);
            mask(a, s->scores, a->first + row, &span);
            d->k->exp_sum(out, s->scores, span.n_keys, total[0]);
            d->k->scale(out, 1.0f / total[1], span.n_keys);
        }
    }
}

/* The part of one query head's scores that columns from .. from + width - 1 of queries and keys give. */
static void part_of_scores(const struct attn_job *a, struct attn_scratch *s, hl_tap name, int head, int from,
                           int width) {
    float *map = clear_map(a, name, head);
    int length = a->first + a->n, k_dim = a->dims.k_dim;
    for (int number = a->span0; number < a->span0 + a->n_spans; number++) {
        struct span span = read_span(a, s, head / a->group, number, length);
        for (int row = 0; row < a->n; row++) {
            int pos = a->first + row,
                seen = first_seen(a, pos) > span.start ? first_seen(a, pos) : span.start;
            int end = span.start + span.n_keys < pos + 1 ? span.start + span.n_keys : pos + 1;
            a->d->k->attn_scores(s->scores, KV_BLOCK, query_row(a, row, head) + from, 0, 1,
                                 (const float *)span.keys + from, k_dim, span.n_keys, width);
            for (int key = seen; key < end; key++)
                map[(size_t)row * (size_t)length + (size_t)key] = s->scores[key - span.start];
        }
    }
}

static void parts_unit(void *arg, int head, int thread) {
    const struct attn_job *a = arg;
    int n_rot = a->d->m->hp.n_rot, latent = a->dims.k_dim - n_rot;
    if (tap_on(a->taps, HL_TAP_SCORE_LATENT, a->l))
        part_of_scores(a, &a->d->attn[thread], HL_TAP_SCORE_LATENT, head, 0, latent);
    if (tap_on(a->taps, HL_TAP_SCORE_ROPE, a->l))
        part_of_scores(a, &a->d->attn[thread], HL_TAP_SCORE_ROPE, head, latent, n_rot);
}

void attn_tap(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first, int n) {
    bool parts = tap_on(taps, HL_TAP_SCORE_LATENT, l) || tap_on(taps, HL_TAP_SCORE_ROPE, l);
    struct attn_job a = job(d, kv, taps, l, first, n);
    if (tap_on(taps, HL_TAP_ATTN_PROB, l)) pool_run(d->pool, prob_unit, &a, a.dims.n_head);
    if (parts && d->dims.values_in_keys) pool_run(d->pool, parts_unit, &a, a.dims.n_head);
}
