#include "base/rng.h"

/* Source: SplitMix64, Steele, Lea and Flood 2014: turns any seed, 0 too, into well-mixed state. */
static uint64_t splitmix(uint64_t *x) {
    uint64_t z = *x += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void rng_seed(struct rng *r, uint64_t seed) {
    r->state[0] = splitmix(&seed);
    r->state[1] = splitmix(&seed);
}

static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* Source: xoroshiro128++, Blackman and Vigna 2021, "Scrambled linear pseudorandom number generators". */
double rng_uniform(struct rng *r) {
    uint64_t a = r->state[0], b = r->state[1];
    uint64_t result = rotate(a + b, 17) + a;
    b ^= a;
    r->state[0] = rotate(a, 49) ^ b ^ b << 21;
    r->state[1] = rotate(b, 28);
    return (double)(result >> 11) * 0x1p-53;
}
