/* Attention over cached rows, for any ratio of query heads to cached heads.
 *
 * The cache is read in spans of KV_BLOCK positions. Each span gives a row its own maximum, sum and weighted values, and spans are
 * merged in order of position (online softmax: Milakov and Gimelshein 2018, arXiv 1805.02867), so that the bits do not depend on
 * how many rows or threads take part. */
#include <math.h>
#include <string.h>

#include "decoder/steps.h"

struct attn_job {
    struct decoder *d;
    const struct kv *kv;
    const struct taps *taps;
    int l, first, n;
    int group;   /* query heads that share a cached head */
    int n_spans; /* spans up to the last row's position */
    int tiles;   /* of ATTN_ROWS rows */
};

/* n rows of d floats of the cache as f32: the rows themselves, or converted into scratch. */
static const float *cached_rows(const struct attn_job *a, const void *rows, float *scratch, int n, int d) {
    if (kv_type(a->kv) == HL_KV_F32) return rows;
    a->d->k->f32_from_f16_row(scratch, rows, n * d);
    return scratch;
}

static int span_keys(int span, int end) {
    return end - span * KV_BLOCK < KV_BLOCK ? end - span * KV_BLOCK : KV_BLOCK;
}

static float *query_row(const struct attn_job *a, int row, int head) {
    const struct hparams *hp = &a->d->m->hp;
    return a->d->q + ((size_t)row * (size_t)hp->n_head + (size_t)head) * (size_t)hp->d_head_k;
}

static float *output_row(const struct attn_job *a, int row, int head) {
    const struct hparams *hp = &a->d->m->hp;
    return a->d->o + ((size_t)row * (size_t)hp->n_head + (size_t)head) * (size_t)hp->d_head_v;
}

static float *softmax_row(const struct attn_job *a, int row, int head) {
    return a->d->softmax + ((size_t)row * (size_t)a->d->m->hp.n_head + (size_t)head) * 2;
}

/* Adds a span's part (maximum, sum, out [d]) to what the spans before gave. */
static void merge(const struct kernels *k, float *total, float *total_out, const float *part, const float *part_out, int d) {
    float max = part[0] > total[0] ? part[0] : total[0];
    float a, b;
    k->exp_sum(&a, &total[0], 1, max);
    k->exp_sum(&b, &part[0], 1, max);
    total[0] = max;
    total[1] = total[1] * a + part[1] * b;
    k->scale_add(total_out, a, part_out, b, d);
}

/* One position (decode): a unit is one span of one cached head; its query heads read each row once. */
static void decode_unit(void *arg, int unit, int thread) {
    const struct attn_job *a = arg;
    struct decoder *d = a->d;
    const struct hparams *hp = &d->m->hp;
    struct attn_scratch *s = &d->attn[thread];
    int h = unit / a->n_spans, span = unit % a->n_spans, n_keys = span_keys(span, a->first + 1);
    const float *keys = cached_rows(a, kv_keys(a->kv, a->l, h, span * KV_BLOCK), s->keys, n_keys, hp->d_head_k);
    const float *values = cached_rows(a, kv_values(a->kv, a->l, h, span * KV_BLOCK), s->values, n_keys, hp->d_head_v);
    for (int head0 = h * a->group; head0 < (h + 1) * a->group; head0 += ATTN_ROWS) {
        int heads = (h + 1) * a->group - head0 < ATTN_ROWS ? (h + 1) * a->group - head0 : ATTN_ROWS;
        size_t part_size = (size_t)hp->d_head_v + 2, head_size = (size_t)a->n_spans * part_size;
        float *part = d->partial + (size_t)head0 * head_size + (size_t)span * part_size;
        d->k->attn_scores(s->scores, KV_BLOCK, query_row(a, 0, head0), hp->d_head_k, heads, keys, hp->d_head_k, n_keys,
                          hp->d_head_k);
        for (int i = 0; i < heads; i++) {
            float *scores = s->scores + i * KV_BLOCK;
            part[(size_t)i * head_size] = d->k->max(scores, n_keys);
            part[(size_t)i * head_size + 1] = d->k->exp_sum(scores, scores, n_keys, part[(size_t)i * head_size]);
        }
        d->k->attn_values(part + 2, (int)head_size, s->scores, KV_BLOCK, heads, values, hp->d_head_v, n_keys, hp->d_head_v);
    }
}

/* The spans of one query head together, in order. */
static void merge_unit(void *arg, int head, int thread) {
    const struct attn_job *a = arg;
    const struct hparams *hp = &a->d->m->hp;
    (void)thread;
    size_t part_size = (size_t)hp->d_head_v + 2;
    const float *part = a->d->partial + (size_t)head * (size_t)a->n_spans * part_size;
    float *total = softmax_row(a, 0, head), *out = output_row(a, 0, head);
    total[0] = part[0];
    total[1] = part[1];
    memcpy(out, part + 2, (size_t)hp->d_head_v * sizeof(float));
    for (int span = 1; span < a->n_spans; span++) {
        part += part_size;
        merge(a->d->k, total, out, part, part + 2, hp->d_head_v);
    }
    a->d->k->scale(out, 1.0f / total[1], hp->d_head_v);
}

/* Scores of rows row0 .. row0 + n_rows - 1 of a query head with a span's keys; those behind a row's own position are -inf. */
static void masked_scores(const struct attn_job *a, float *scores, int head, int row0, int n_rows, const float *keys, int span,
                          int n_keys) {
    const struct hparams *hp = &a->d->m->hp;
    a->d->k->attn_scores(scores, KV_BLOCK, query_row(a, row0, head), hp->n_head * hp->d_head_k, n_rows, keys, hp->d_head_k, n_keys,
                         hp->d_head_k);
    for (int i = 0; i < n_rows; i++)
        for (int j = a->first + row0 + i + 1 - span * KV_BLOCK; j < n_keys; j++)
            if (j >= 0) scores[i * KV_BLOCK + j] = -INFINITY;
}

/* One span's part of a tile of rows of one query head, merged into their totals. */
static void prefill_span(const struct attn_job *a, struct attn_scratch *s, int head, int row0, int n_rows, const float *keys,
                         const float *values, int span, int n_keys) {
    struct decoder *d = a->d;
    int d_v = d->m->hp.d_head_v;
    float part[ATTN_ROWS][2];
    masked_scores(a, s->scores, head, row0, n_rows, keys, span, n_keys);
    for (int i = 0; i < n_rows; i++) {
        float *scores = s->scores + i * KV_BLOCK;
        part[i][0] = d->k->max(scores, n_keys);
        part[i][1] = part[i][0] == -INFINITY ? 0.0f : d->k->exp_sum(scores, scores, n_keys, part[i][0]);
        if (part[i][1] == 0.0f) memset(scores, 0, (size_t)n_keys * sizeof *scores);
    }
    d->k->attn_values(s->out, d_v, s->scores, KV_BLOCK, n_rows, values, d_v, n_keys, d_v);
    for (int i = 0; i < n_rows; i++) {
        float *total = softmax_row(a, row0 + i, head), *out = output_row(a, row0 + i, head);
        if (part[i][1] == 0.0f) continue;
        if (span == 0) {
            memcpy(total, part[i], sizeof part[i]);
            memcpy(out, s->out + i * d_v, (size_t)d_v * sizeof(float));
        } else {
            merge(d->k, total, out, part[i], s->out + i * d_v, d_v);
        }
    }
}

/* Several positions (prompt): a unit is a tile of rows of one cached head. */
static void prefill_unit(void *arg, int unit, int thread) {
    const struct attn_job *a = arg;
    struct decoder *d = a->d;
    const struct hparams *hp = &d->m->hp;
    struct attn_scratch *s = &d->attn[thread];
    int h = unit / a->tiles, row0 = unit % a->tiles * ATTN_ROWS, n_rows = a->n - row0 < ATTN_ROWS ? a->n - row0 : ATTN_ROWS;
    int end = a->first + row0 + n_rows;
    for (int span = 0; span * KV_BLOCK < end; span++) {
        int n_keys = span_keys(span, end);
        const float *keys = cached_rows(a, kv_keys(a->kv, a->l, h, span * KV_BLOCK), s->keys, n_keys, hp->d_head_k);
        const float *values = cached_rows(a, kv_values(a->kv, a->l, h, span * KV_BLOCK), s->values, n_keys, hp->d_head_v);
        for (int head = h * a->group; head < (h + 1) * a->group; head++)
            prefill_span(a, s, head, row0, n_rows, keys, values, span, n_keys);
    }
    for (int head = h * a->group; head < (h + 1) * a->group; head++)
        for (int i = 0; i < n_rows; i++)
            d->k->scale(output_row(a, row0 + i, head), 1.0f / softmax_row(a, row0 + i, head)[1], hp->d_head_v);
}

static struct attn_job job(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first, int n) {
    const struct hparams *hp = &d->m->hp;
    return (struct attn_job){.d = d,
                             .kv = kv,
                             .taps = taps,
                             .l = l,
                             .first = first,
                             .n = n,
                             .group = hp->n_head / hp->n_head_kv,
                             .n_spans = (first + n + KV_BLOCK - 1) / KV_BLOCK,
                             .tiles = (n + ATTN_ROWS - 1) / ATTN_ROWS};
}

void attn_run(struct decoder *d, const struct kv *kv, int l, int first, int n) {
    struct attn_job a = job(d, kv, NULL, l, first, n);
    const struct hparams *hp = &d->m->hp;
    if (n > 1) {
        pool_run(d->pool, prefill_unit, &a, hp->n_head_kv * a.tiles);
        return;
    }
    pool_run(d->pool, decode_unit, &a, hp->n_head_kv * a.n_spans);
    for (int head = 0; head < hp->n_head; head++) merge_unit(&a, head, 0);
}

/* One query head's rows of probabilities: exp(score - maximum) / sum, with what attn_run left. */
static void tap_unit(void *arg, int head, int thread) {
    const struct attn_job *a = arg;
    struct decoder *d = a->d;
    struct attn_scratch *s = &d->attn[thread];
    struct tap *tap = tap_at(a->taps, HL_TAP_ATTN_PROB, a->l);
    int length = tap->shape[2];
    float *map = tap->data + (size_t)head * (size_t)a->n * (size_t)length;
    for (int span = 0; span < a->n_spans; span++) {
        int n_keys = span_keys(span, length);
        const float *keys =
            cached_rows(a, kv_keys(a->kv, a->l, head / a->group, span * KV_BLOCK), s->keys, n_keys, d->m->hp.d_head_k);
        for (int row0 = 0; row0 < a->n; row0 += ATTN_ROWS) {
            int n_rows = a->n - row0 < ATTN_ROWS ? a->n - row0 : ATTN_ROWS;
            masked_scores(a, s->scores, head, row0, n_rows, keys, span, n_keys);
            for (int i = 0; i < n_rows; i++) {
                float *out = map + (size_t)(row0 + i) * (size_t)length + (size_t)span * KV_BLOCK;
                const float *total = softmax_row(a, row0 + i, head);
                d->k->exp_sum(out, s->scores + i * KV_BLOCK, n_keys, total[0]);
                d->k->scale(out, 1.0f / total[1], n_keys);
            }
        }
    }
}

void attn_tap(struct decoder *d, const struct kv *kv, const struct taps *taps, int l, int first, int n) {
    if (!tap_on(taps, HL_TAP_ATTN_PROB, l)) return;
    struct attn_job a = job(d, kv, taps, l, first, n);
    pool_run(d->pool, tap_unit, &a, d->m->hp.n_head);
}
