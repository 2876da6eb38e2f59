/* Seeded random numbers, the same on every machine. */
#ifndef HL_BASE_RNG_H
#define HL_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[2];
};

void rng_seed(struct rng *r, uint64_t seed);

/* Uniform in [0, 1), 53 bits. */
double rng_uniform(struct rng *r);

#endif
