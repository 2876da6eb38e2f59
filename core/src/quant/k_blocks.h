/* Blocks that are not packed byte by byte: each is decoded into parts of 32 weights first. */
#ifndef HL_QUANT_K_BLOCKS_H
#define HL_QUANT_K_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum { PART = 32 };

/* 32 weights: w[i] = (d * scale[i / 16]) * codes[i] - dmin * min[i / 16], with d and dmin f16 (d of MXFP4: a
 * power of two). */
struct part {
    int8_t codes[PART];
    float d, dmin;
    int8_t scale[2], min[2];
};

/* Decodes one block of the file into its parts [n_weights / 32]; all of them have the same d and dmin. */
typedef void decode_fn(struct part *out, const uint8_t *block);

decode_fn decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k, decode_iq4_nl, decode_iq4_xs,
    decode_mxfp4;

/* What the codes of the 4-bit types stand for. [16] */
extern const int8_t iq4_values[16], mxfp4_values[16];

/* Reads n weights (whole blocks of n_weights in n_bytes each) from src into dst [n]. */
void parts_to_f32(float *dst, const uint8_t *src, size_t n, decode_fn *decode, int n_weights, int n_bytes);

#endif
