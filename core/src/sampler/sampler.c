/* The steps and their order are those of llama.cpp's default chain, so that settings mean the same in
 * both. */
#include "sampler/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sampler/candidates.h"
#include "sampler/history.h"

struct sampler {
    struct hl_sampler_params p;
    int32_t *bias_ids;  /* [p.n_bias] */
    float *bias_values; /* [p.n_bias] */
    struct history history;
    struct rng rng;
    float *logits; /* [room] after bias and penalties */
    int room;
    struct candidate *c; /* [c_room]; n of them are in the running */
    int c_room, n;
    bool sorted; /* c is in order of its logits */
};

static hl_status check_params(const struct hl_sampler_params *p) {
    CHECK(isfinite(p->temperature), HL_EARGUMENT, "sampler: temperature must be a number");
    CHECK(p->top_p >= 0 && p->top_p <= 1, HL_EARGUMENT, "sampler: top_p %g is not in [0, 1]",
          (double)p->top_p);
    CHECK(p->min_p >= 0, HL_EARGUMENT, "sampler: min_p %g is below 0", (double)p->min_p);
    CHECK(p->typical_p >= 0 && p->typical_p <= 1, HL_EARGUMENT, "sampler: typical_p %g is not in [0, 1]",
          (double)p->typical_p);
    CHECK(p->repeat_penalty > 0 && isfinite(p->repeat_penalty), HL_EARGUMENT,
          "sampler: repeat_penalty %g is not above 0", (double)p->repeat_penalty);
    CHECK(p->repeat_last_n >= -1, HL_EARGUMENT, "sampler: repeat_last_n %d is below -1",
          (int)p->repeat_last_n);
    CHECK(isfinite(p->frequency_penalty), HL_EARGUMENT, "sampler: frequency_penalty must be a number");
    CHECK(isfinite(p->presence_penalty), HL_EARGUMENT, "sampler: presence_penalty must be a number");
    CHECK(p->n_bias >= 0 && (p->n_bias == 0 || (p->bias_ids && p->bias_values)), HL_EARGUMENT,
          "sampler: logit_bias has %d entries but no arrays", (int)p->n_bias);
    for (int i = 0; i < p->n_bias; i++) {
        CHECK(p->bias_ids[i] >= 0, HL_EARGUMENT, "sampler: logit_bias names token %d", (int)p->bias_ids[i]);
        CHECK(!isnan(p->bias_values[i]), HL_EARGUMENT, "sampler: logit_bias of token %d is no number",
              (int)p->bias_ids[i]);
    }
    return HL_OK;
}

static hl_status copy_bias(struct sampler *s, const struct hl_sampler_params *p) {
    if (p->n_bias == 0) return HL_OK;
    s->bias_ids = malloc((size_t)p->n_bias * sizeof *s->bias_ids);
    s->bias_values = malloc((size_t)p->n_bias * sizeof *s->bias_values);
    CHECK(s->bias_ids && s->bias_values, HL_EMEMORY, "sampler: no memory for logit_bias");
    memcpy(s->bias_ids, p->bias_ids, (size_t)p->n_bias * sizeof *s->bias_ids);
    memcpy(s->bias_values, p->bias_values, (size_t)p->n_bias * sizeof *s->bias_values);
    return HL_OK;
}

hl_status sampler_new(struct sampler **out, const struct hl_sampler_params *p) {
    *out = NULL;
    TRY(check_params(p));
    struct sampler *s = calloc(1, sizeof *s);
    CHECK(s, HL_EMEMORY, "sampler: no memory");
    s->p = *p;
    s->history.window = p->repeat_last_n;
    rng_seed(&s->rng, p->seed);
    hl_status status = copy_bias(s, p);
    if (status != HL_OK) {
        sampler_free(s);
        return status;
    }
    *out = s;
    return HL_OK;
}

void sampler_free(struct sampler *s) {
    if (!s) return;
    history_free(&s->history);
    free(s->bias_ids);
    free(s->bias_values);
    free(s->logits);
    free(s->c);
    free(s);
}

hl_status sampler_accept(struct sampler *s, int32_t id) { return history_add(&s->history, id); }

static hl_status reserve_logits(struct sampler *s, int n_vocab) {
    if (n_vocab <= s->room) return HL_OK;
    free(s->logits);
    s->room = 0;
    s->logits = malloc((size_t)n_vocab * sizeof *s->logits);
    CHECK(s->logits, HL_EMEMORY, "sampler: no memory for %d logits", n_vocab);
    s->room = n_vocab;
    return HL_OK;
}

static hl_status reserve_candidates(struct sampler *s, int n) {
    if (n <= s->c_room) return HL_OK;
    free(s->c);
    s->c_room = 0;
    s->c = malloc((size_t)n * sizeof *s->c);
    CHECK(s->c, HL_EMEMORY, "sampler: no memory for %d candidates", n);
    s->c_room = n;
    return HL_OK;
}

/* A repeat penalty makes each seen token less likely, once; frequency counts how often, presence whether. */
static void penalize(struct sampler *s, int n_vocab) {
    const struct hl_sampler_params *p = &s->p;
    if (p->repeat_penalty == 1 && p->frequency_penalty == 0 && p->presence_penalty == 0) return;
    for (int id = 0; id < n_vocab && id < s->history.n_counts; id++) {
        int count = s->history.counts[id];
        if (count == 0) continue;
        float *logit = &s->logits[id];
        *logit = *logit > 0 ? *logit / p->repeat_penalty : *logit * p->repeat_penalty;
        *logit -= (float)count * p->frequency_penalty + p->presence_penalty;
    }
}

/* s->logits: with bias and penalties. */
static hl_status adjust(struct sampler *s, const float *logits, int n_vocab) {
    memcpy(s->logits, logits, (size_t)n_vocab * sizeof *logits);
    for (int i = 0; i < s->p.n_bias; i++) {
        CHECK(s->bias_ids[i] < n_vocab, HL_EARGUMENT, "sampler: logit_bias names token %d of %d",
              (int)s->bias_ids[i], n_vocab);
        s->logits[s->bias_ids[i]] += s->bias_values[i];
    }
    penalize(s, n_vocab);
    return HL_OK;
}

/* Largest of logits: [n]; -inf when there is none. NaN does not count. */
static float largest(const float *logits, int n) {
    float max = -INFINITY;
    for (int i = 0; i < n; i++)
        if (logits[i] > max) max = logits[i];
    return max;
}

/* All tokens of at least this logit, in the order of their ids. Infinite logits are equally likely:
 * they become 0. */
static hl_status collect(struct sampler *s, int n_vocab, float least) {
    int n = 0;
    for (int i = 0; i < n_vocab; i++) n += s->logits[i] >= least;
    TRY(reserve_candidates(s, n));
    s->n = 0;
    s->sorted = false;
    for (int i = 0; i < n_vocab; i++) {
        float logit = s->logits[i];
        if (!(logit >= least)) continue;
        if (logit == INFINITY) logit = 0;
        s->c[s->n++] = (struct candidate){logit, logit, i, 0};
    }
    return HL_OK;
}

static float max_logit(const struct sampler *s) {
    float max = s->c[0].logit;
    for (int i = 1; i < s->n && !s->sorted; i++)
        if (s->c[i].logit > max) max = s->c[i].logit;
    return max;
}

/* Sets p of all candidates; returns their sum. */
static double weigh(struct sampler *s, double temperature) {
    double max = (double)max_logit(s), sum = 0;
    for (int i = 0; i < s->n; i++) sum += s->c[i].p = exp(((double)s->c[i].logit - max) / temperature);
    return sum;
}

/* Keeps the tokens whose information is nearest to the distribution's entropy, until they hold typical_p of
 * it. Source: Meister et al. 2022, arXiv 2202.00666. */
static void keep_typical(struct sampler *s) {
    if (s->p.typical_p >= 1) return;
    double sum = weigh(s, 1), entropy = 0;
    for (int i = 0; i < s->n; i++) {
        double p = s->c[i].p / sum;
        if (p > 0) entropy -= p * log(p);
    }
    for (int i = 0; i < s->n; i++) s->c[i].key = -(float)fabs(-log(s->c[i].p / sum) - entropy);
    double enough = (double)s->p.typical_p * sum;
    s->n = candidates_take(s->c, s->n, nextafter(enough, 2 * sum)); /* more than that */
    for (int i = 0; i < s->n; i++) s->c[i].key = s->c[i].logit;
    s->sorted = false;
}

/* Keeps the likeliest tokens that together hold top_p. Source: Holtzman et al. 2020, arXiv 1904.09751. */
static void keep_top_p(struct sampler *s) {
    if (s->p.top_p >= 1) return;
    double sum = weigh(s, 1);
    s->n = candidates_take(s->c, s->n, (double)s->p.top_p * sum);
    s->sorted = true;
}

/* The logit of a token that is min_p times as likely as one of logit max, which itself must stay. */
static float min_p_logit(const struct hl_sampler_params *p, float max) {
    return max + logf(p->min_p < 1 ? p->min_p : 1);
}

/* Keeps tokens at least min_p times as likely as the likeliest. Source: Nguyen et al. 2024, arXiv
 * 2407.01082. */
static void keep_min_p(struct sampler *s) {
    if (s->p.min_p <= 0) return;
    float least = min_p_logit(&s->p, max_logit(s));
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (s->c[i].logit >= least) s->c[n++] = s->c[i];
    s->n = n;
}

/* Temperature 0: the likeliest only. */
static void keep_best(struct sampler *s) {
    int best = 0;
    for (int i = 1; i < s->n; i++) {
        bool better = s->c[i].logit > s->c[best].logit;
        bool tie = s->c[i].logit == s->c[best].logit && s->c[i].id < s->c[best].id;
        if (better || tie) best = i;
    }
    s->c[0] = s->c[best];
    s->n = 1;
}

/* Fills s->c with the tokens that the first steps leave. max: the largest of s->logits. */
static hl_status gather(struct sampler *s, int n_vocab, float max) {
    const struct hl_sampler_params *p = &s->p;
    bool best_only = max == INFINITY || (p->temperature <= 0 && p->typical_p >= 1);
    bool min_p_only = p->typical_p >= 1 && p->top_p >= 1 && p->min_p > 0;
    int top_k = p->top_k > 0 && p->top_k < n_vocab ? p->top_k : n_vocab;
    if (!best_only && top_k < n_vocab) {
        TRY(reserve_candidates(s, top_k));
        s->n = candidates_top(s->c, top_k, s->logits, n_vocab);
        s->sorted = true;
        return HL_OK;
    }
    TRY(collect(s, n_vocab, best_only ? max : min_p_only ? min_p_logit(p, max) : -FLT_MAX));
    if (top_k < s->n) s->n = top_k; /* equal logits in the order of their ids */
    return HL_OK;
}

/* Leaves the distribution to draw from in s->c, with the sum of its p in *sum. */
static hl_status filter(struct sampler *s, const float *logits, int n_vocab, double *sum) {
    CHECK(n_vocab > 0, HL_EARGUMENT, "sampler: no logits");
    TRY(reserve_logits(s, n_vocab));
    TRY(adjust(s, logits, n_vocab));
    float max = largest(s->logits, n_vocab);
    CHECK(max > -INFINITY, HL_EARGUMENT, "sampler: no token is left: all logits are -inf or NaN");
    TRY(gather(s, n_vocab, max));
    keep_typical(s);
    keep_top_p(s);
    keep_min_p(s);
    if (s->p.temperature <= 0) keep_best(s);
    *sum = weigh(s, s->p.temperature <= 0 ? 1 : (double)s->p.temperature);
    return HL_OK;
}

int32_t sampler_sample(struct sampler *s, const float *logits, int n_vocab) {
    double sum;
    TRY(filter(s, logits, n_vocab, &sum));
    if (s->n == 1) return s->c[0].id;
    double left = rng_uniform(&s->rng) * sum;
    int last = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->c[i].p <= 0) continue;
        last = i;
        left -= s->c[i].p;
        if (left < 0) break;
    }
    return s->c[last].id;
}

hl_status sampler_probs(struct sampler *s, const float *logits, int n_vocab, float *probs) {
    double sum;
    TRY(filter(s, logits, n_vocab, &sum));
    memset(probs, 0, (size_t)n_vocab * sizeof *probs);
    for (int i = 0; i < s->n; i++) probs[s->c[i].id] = (float)(s->c[i].p / sum);
    return HL_OK;
}

/* Natural logarithm of a logit's share. sum is that of exp(logit - max); with infinite logits, their
 * number. */
static float logprob(float logit, float max, double sum) {
    if (!(logit > -INFINITY)) return -INFINITY;
    if (max == INFINITY) return logit == INFINITY ? (float)-log(sum) : -INFINITY;
    return (float)((double)logit - (double)max - log(sum));
}

float top_logprobs(const float *logits, int n_vocab, int32_t id, int k, int32_t *ids, float *logprobs) {
    float max = largest(logits, n_vocab);
    double sum = 0;
    for (int i = 0; i < n_vocab; i++) {
        if (max == INFINITY) sum += logits[i] == INFINITY;
        else if (logits[i] > -INFINITY) sum += exp((double)logits[i] - (double)max);
    }
    int kept = 0, want = k < n_vocab ? k : n_vocab;
    struct candidate *c = want > 0 ? malloc((size_t)want * sizeof *c) : NULL;
    if (c) kept = candidates_top(c, want, logits, n_vocab);
    for (int i = 0; i < k; i++) {
        ids[i] = i < kept ? c[i].id : -1;
        logprobs[i] = i < kept ? logprob(c[i].logit, max, sum) : -INFINITY;
    }
    free(c);
    return id >= 0 && id < n_vocab ? logprob(logits[id], max, sum) : NAN;
}
