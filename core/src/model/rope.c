/* Angles per position of each rotated pair. Source: Su et al. 2021, arXiv 2104.09864. */
#include <math.h>

#include "model/bind.h"

static size_t freq_bytes(const struct model *m) { return (size_t)(m->hp.n_rot / 2) * sizeof(float); }

/* The pair that turns `rotations` times over the context before YaRN. */
static double yarn_pair(const struct hparams *hp, float rotations) {
    const double two_pi = 6.283185307179586;
    return hp->n_rot * log(hp->n_ctx_orig / ((double)rotations * two_pi)) / (2 * log((double)hp->rope_base));
}

/* How much of pair i is interpolated: 0 for those that turn often, 1 for those that hardly turn. Source:
 * Peng et al. 2023, arXiv 2309.00071, section 3.2. */
static double yarn_ramp(const struct hparams *hp, int i) {
    double low = fmax(floor(yarn_pair(hp, hp->yarn_beta_fast)), 0);
    double high = fmin(ceil(yarn_pair(hp, hp->yarn_beta_slow)), hp->n_rot - 1);
    return fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
}

/* In f32, as transformers computes it. factors: [n_rot / 2] or NULL; scaled: by what the file says of
 * longer contexts. */
static hl_status freq_new(struct model *m, enum rope_set set, float base, bool scaled, const float *factors) {
    const struct hparams *hp = &m->hp;
    float *freq = mem_alloc(m->mem, MEM_SCRATCH, freq_bytes(m));
    CHECK(freq != NULL, HL_EMEMORY, "model: no memory for %d frequencies", hp->n_rot / 2);
    for (int i = 0; i < hp->n_rot / 2; i++) {
        freq[i] = (float)(1.0 / pow((double)base, 2.0 * i / hp->n_rot));
        if (factors != NULL) freq[i] /= factors[i];
        if (scaled) freq[i] *= hp->rope_scale;
        if (!scaled || hp->yarn_factor == 0) continue;
        double ramp = yarn_ramp(hp, i);
        freq[i] = (float)(freq[i] / hp->yarn_factor * ramp + freq[i] * (1 - ramp));
    }
    m->rope_freq[set] = freq;
    return HL_OK;
}

hl_status rope_init(struct model *m) {
    const struct hparams *hp = &m->hp;
    if (m->rope_freq[ROPE_GLOBAL] != NULL) return HL_OK;
    TRY(freq_new(m, ROPE_GLOBAL, hp->rope_base, true, m->rope_factors));
    if (hp->window > 0 && hp->rope_base_local > 0)
        TRY(freq_new(m, ROPE_LOCAL, hp->rope_base_local, false, NULL));
    if (m->rope_factors_long != NULL) TRY(freq_new(m, ROPE_LONG, hp->rope_base, true, m->rope_factors_long));
    return HL_OK;
}

void rope_free(struct model *m) {
    for (int set = 0; set < ROPE_SETS; set++)
        mem_free(m->mem, MEM_SCRATCH, (float *)m->rope_freq[set], freq_bytes(m));
}
