/* Private to sampler/: tokens that are still in the running, and heaps over them. */
#ifndef HL_SAMPLER_CANDIDATES_H
#define HL_SAMPLER_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

struct candidate {
    float key; /* what candidates are ordered by: the larger first, then the lower id */
    float logit;
    int32_t id;
    double p; /* share of the distribution, not normalized */
};

/* Fills c: [k] with the k largest of logits: [n], 1 <= k <= n, largest first; ties by lowest id. -inf and NaN
 * never count. Returns how many there are. O(n) plus O(log k) for each of those that enter. */
int candidates_top(struct candidate *c, int k, const float *logits, int n);

/* Takes from c: [n] in order until their p reach `enough`, at least one; returns how many: they are the first
 * of c then, in order. O(n + m log n) for m of them. */
int candidates_take(struct candidate *c, int n, double enough);

#endif
