/* SHA-256 for comparing long results with published digests. Source: FIPS 180-4. */
#ifndef HL_TEST_SHA256_H
#define HL_TEST_SHA256_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline uint32_t sha256_rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* The first 32 bits of the fractional part of the root of a prime: found by bisection on integers, since the
 * digits of a double do not suffice for all. cube: the cube root, else the square root. */
static inline uint32_t sha256_root(unsigned prime, int cube) {
    uint64_t lo = 0, hi = (uint64_t)32 << 32; /* in units of 2^-32 */
    while (hi - lo > 1) {
        uint64_t mid = (lo + hi) / 2;
        long double x = (long double)mid / 4294967296.0L;
        long double power = cube ? x * x * x : x * x;
        if (power <= (long double)prime) lo = mid;
        else hi = mid;
    }
    return (uint32_t)lo;
}

static inline void sha256_block(uint32_t h[8], const uint32_t k[64], const uint8_t *p) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
               p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3;
        uint32_t s1 = sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = sha256_rotate(v[4], 6) ^ sha256_rotate(v[4], 11) ^ sha256_rotate(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = sha256_rotate(v[0], 2) ^ sha256_rotate(v[0], 13) ^ sha256_rotate(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

/* Writes 64 hex digits and a terminator. */
static inline void sha256_hex(const uint8_t *p, size_t n, char out[65]) {
    uint32_t h[8], k[64];
    uint8_t tail[128] = {0};
    int count = 0;
    for (unsigned prime = 2; count < 64; prime++) {
        unsigned d = 2;
        while (d * d <= prime && prime % d) d++;
        if (d * d <= prime) continue;
        if (count < 8) h[count] = sha256_root(prime, 0);
        k[count++] = sha256_root(prime, 1);
    }
    size_t whole = n / 64 * 64, left = n - whole, padded = left < 56 ? 64 : 128;
    for (size_t i = 0; i < whole; i += 64) sha256_block(h, k, p + i);
    memcpy(tail, p + whole, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++) tail[padded - 1 - i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < padded; i += 64) sha256_block(h, k, tail + i);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", h[i]);
}

#endif
