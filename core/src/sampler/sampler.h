/* Logits to a token. */
#ifndef HL_SAMPLER_SAMPLER_H
#define HL_SAMPLER_SAMPLER_H

#include "base/status.h"

struct sampler;

/* As hl_sampler_*. */
hl_status sampler_new(struct sampler **out, const struct hl_sampler_params *p);
void sampler_free(struct sampler *s);
hl_status sampler_accept(struct sampler *s, int32_t id);
int32_t sampler_sample(struct sampler *s, const float *logits, int n_vocab);
hl_status sampler_probs(struct sampler *s, const float *logits, int n_vocab, float *probs);
float top_logprobs(const float *logits, int n_vocab, int32_t id, int k, int32_t *ids, float *logprobs);

#endif
