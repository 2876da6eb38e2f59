/* Random rows of GGUF blocks, for tests of what is made of them. */
#ifndef HL_TEST_BLOCKS_H
#define HL_TEST_BLOCKS_H

#include "quant/types.h"
#include "test.h"

static const uint32_t block_types[] = {TYPE_F32,  TYPE_F16,  TYPE_BF16, TYPE_Q4_0,
                                       TYPE_Q4_1, TYPE_Q5_0, TYPE_Q5_1, TYPE_Q8_0};
enum { N_BLOCK_TYPES = sizeof block_types / sizeof block_types[0] };

/* Rows of random blocks as in a file, in a buffer of exactly their size. Scales are finite, signs and subnormals included. */
static inline uint8_t *random_rows(uint32_t type, int n_in, int n_rows, uint64_t *seed) {
    const struct type_info *t = type_info(type);
    size_t n_blocks = (size_t)n_in / t->n_weights * n_rows, bytes = n_blocks * t->n_bytes;
    uint8_t *rows = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) rows[i] = (uint8_t)test_random(seed);
    if (type == TYPE_F32) {
        for (size_t i = 0; i < n_blocks; i++) ((float *)rows)[i] = test_random_float(seed);
    } else {
        /* d and m; in Q4_0 and Q5_0 the second pair of bytes are codes, which may be anything; all ones would be a NaN in F16. */
        for (size_t i = 0; i < n_blocks; i++) {
            rows[i * t->n_bytes + 1] &= 0xbb;
            if (type == TYPE_Q4_1 || type == TYPE_Q5_1) rows[i * t->n_bytes + 3] &= 0xbb;
        }
    }
    return rows;
}

#endif
