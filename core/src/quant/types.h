/* GGUF's block types: sizes, and the reference reader of a row. */
#ifndef HL_QUANT_TYPES_H
#define HL_QUANT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "quant/k_blocks.h"
#include "quant/panel.h"

/* Numbers as in the file. */
enum block_type {
    TYPE_F32 = 0,
    TYPE_F16 = 1,
    TYPE_Q4_0 = 2,
    TYPE_Q4_1 = 3,
    TYPE_Q5_0 = 6,
    TYPE_Q5_1 = 7,
    TYPE_Q8_0 = 8,
    TYPE_Q2_K = 10,
    TYPE_Q3_K = 11,
    TYPE_Q4_K = 12,
    TYPE_Q5_K = 13,
    TYPE_Q6_K = 14,
    TYPE_IQ4_NL = 20,
    TYPE_IQ4_XS = 23,
    TYPE_BF16 = 30,
    TYPE_MXFP4 = 39,
};

struct type_info {
    const char *name; /* "Q4_1" */
    int n_weights;    /* weights of a block */
    int n_bytes;      /* bytes of a block; 0: removed from the format, no file may use it */
    enum panel_type panel;
    /* Reads n weights (whole blocks) from src (aligned to 2) into dst [n]: the specification, bit for bit.
     * NULL: known by name and size, not built in. */
    void (*to_f32)(float *dst, const void *src, size_t n);
    /* How packing reads a block; NULL: the panel's bytes are the block's own. */
    decode_fn *decode;
};

/* NULL when the number is not a type that anybody has named. */
const struct type_info *type_info(uint32_t type);

#endif
