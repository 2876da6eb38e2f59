/* Angles per position of each rotated pair. Source: Su et al. 2021, arXiv 2104.09864. */
#include <math.h>

#include "model/bind.h"

static size_t freq_bytes(const struct model *m) {
    return (size_t)(m->hp.n_rot / 2) * sizeof(float);
}

/* In f32, as transformers computes it. factors: [n_rot / 2] or NULL. */
static hl_status freq_new(struct model *m, enum rope_set set, float base, float scale, const float *factors) {
    float *freq = mem_alloc(m->mem, MEM_SCRATCH, freq_bytes(m));
    CHECK(freq != NULL, HL_EMEMORY, "model: no memory for %d frequencies", m->hp.n_rot / 2);
    for (int i = 0; i < m->hp.n_rot / 2; i++) {
        freq[i] = (float)(1.0 / pow((double)base, 2.0 * i / m->hp.n_rot));
        if (factors != NULL) freq[i] /= factors[i];
        freq[i] *= scale;
    }
    m->rope_freq[set] = freq;
    return HL_OK;
}

hl_status rope_init(struct model *m) {
    const struct hparams *hp = &m->hp;
    if (m->rope_freq[ROPE_GLOBAL] != NULL) return HL_OK;
    TRY(freq_new(m, ROPE_GLOBAL, hp->rope_base, hp->rope_scale, m->rope_factors));
    if (hp->window > 0) TRY(freq_new(m, ROPE_LOCAL, hp->rope_base_local, 1, NULL));
    if (m->rope_factors_long != NULL) TRY(freq_new(m, ROPE_LONG, hp->rope_base, hp->rope_scale, m->rope_factors_long));
    return HL_OK;
}

void rope_free(struct model *m) {
    for (int set = 0; set < ROPE_SETS; set++) mem_free(m->mem, MEM_SCRATCH, (float *)m->rope_freq[set], freq_bytes(m));
}
