/* Blocks as GGUF stores them, little-endian. d and m are f16; QK weights a block. */
#ifndef HL_QUANT_BLOCKS_H
#define HL_QUANT_BLOCKS_H

#include <assert.h>
#include <stdint.h>

enum { QK = 32 };

struct block_q4_0 {
    uint16_t d;         /* w[i] = d * (nibble[i] - 8) */
    uint8_t qs[QK / 2]; /* weight i in the low nibble of qs[i], weight i + 16 in the high one */
};
static_assert(sizeof(struct block_q4_0) == 18, "GGUF stores q4_0 as 18 bytes a block");

struct block_q4_1 {
    uint16_t d, m; /* w[i] = d * nibble[i] + m */
    uint8_t qs[QK / 2];
};
static_assert(sizeof(struct block_q4_1) == 20, "GGUF stores q4_1 as 20 bytes a block");

struct block_q5_0 {
    uint16_t d;    /* w[i] = d * ((nibble[i] | high[i] << 4) - 16) */
    uint8_t qh[4]; /* high[i] is bit i of this 32-bit number */
    uint8_t qs[QK / 2];
};
static_assert(sizeof(struct block_q5_0) == 22, "GGUF stores q5_0 as 22 bytes a block");

struct block_q5_1 {
    uint16_t d, m; /* w[i] = d * (nibble[i] | high[i] << 4) + m */
    uint8_t qh[4];
    uint8_t qs[QK / 2];
};
static_assert(sizeof(struct block_q5_1) == 24, "GGUF stores q5_1 as 24 bytes a block");

struct block_q8_0 {
    uint16_t d; /* w[i] = d * qs[i] */
    int8_t qs[QK];
};
static_assert(sizeof(struct block_q8_0) == 34, "GGUF stores q8_0 as 34 bytes a block");

#endif
