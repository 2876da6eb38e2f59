/* Random rows of GGUF blocks, for tests of what is made of them. */
#ifndef HL_TEST_BLOCKS_H
#define HL_TEST_BLOCKS_H

#include "quant/types.h"
#include "test.h"

static const uint32_t block_types[] = {TYPE_F32,  TYPE_F16,  TYPE_BF16, TYPE_Q4_0,
                                       TYPE_Q4_1, TYPE_Q5_0, TYPE_Q5_1, TYPE_Q8_0};
enum { N_BLOCK_TYPES = sizeof block_types / sizeof block_types[0] };

/* Types whose blocks are decoded before they are packed; 256 columns are a whole number of blocks of each. */
static const uint32_t part_types[] = {TYPE_Q2_K, TYPE_Q3_K,   TYPE_Q4_K,   TYPE_Q5_K,
                                      TYPE_Q6_K, TYPE_IQ4_NL, TYPE_IQ4_XS, TYPE_MXFP4};
enum { N_PART_TYPES = sizeof part_types / sizeof part_types[0] };

/* Makes the scales of a random block of a part type such that its products fit f16. */
static inline void tame_scales(uint32_t type, uint8_t *block) {
    int at = type == TYPE_Q2_K ? 80 : type == TYPE_Q3_K ? 108 : type == TYPE_Q6_K ? 208 : 0;
    if (type == TYPE_MXFP4) {
        block[0] = (uint8_t)(110 + block[0] % 20);
        return;
    }
    block[at + 1] &= 0xbb;
    if (type == TYPE_Q2_K || type == TYPE_Q4_K || type == TYPE_Q5_K) block[at + 3] &= 0xbb;
}

static inline bool pack_rows(void *dst, uint32_t type, const uint8_t *rows, int n_in, int row0, int n_rows) {
    const struct type_info *t = type_info(type);
    size_t row_bytes = (size_t)n_in / t->n_weights * t->n_bytes;
    if (!t->decode) return panel_pack(dst, t->panel, rows, row_bytes, n_in, row0, n_rows);
    return panel_pack_parts(dst, t->panel, t->decode, t->n_weights, t->n_bytes, rows, row_bytes, n_in, row0,
                            n_rows);
}

/* Rows of random blocks as in a file, in a buffer of exactly their size. Scales are finite, signs and
 * subnormals included. */
static inline uint8_t *random_rows(uint32_t type, int n_in, int n_rows, uint64_t *seed) {
    const struct type_info *t = type_info(type);
    size_t n_blocks = (size_t)n_in / t->n_weights * n_rows, bytes = n_blocks * t->n_bytes;
    uint8_t *rows = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) rows[i] = (uint8_t)test_random(seed);
    if (t->decode) {
        for (size_t i = 0; i < n_blocks; i++) tame_scales(type, rows + i * t->n_bytes);
    } else if (type == TYPE_F32) {
        for (size_t i = 0; i < n_blocks; i++) ((float *)rows)[i] = test_random_float(seed);
    } else {
        /* d and m; in Q4_0 and Q5_0 the second pair of bytes are codes, which may be anything; all ones would
         * be a NaN in F16. */
        for (size_t i = 0; i < n_blocks; i++) {
            rows[i * t->n_bytes + 1] &= 0xbb;
            if (type == TYPE_Q4_1 || type == TYPE_Q5_1) rows[i * t->n_bytes + 3] &= 0xbb;
        }
    }
    return rows;
}

#endif
