/* Packed weights. A panel is 4 rows of a matrix, interleaved so that SIMD lane = row; panels of a matrix
 * follow each other. The last panel is filled up with zero rows. Every GGUF type maps to one panel type.
 *
 * Float panels: for each column, the 4 rows' weights: [n_in][4] of f32, f16 or bf16.
 * Quantized panels: for each block of 32 columns
 *     d      f16 [4]      scale of each row
 *     m      f16 [4]      offset of each row                                        (PANEL_Q4_1, PANEL_Q5_1)
 *     high   u8 [16]      the highest bit (PANEL_Q5_*, PANEL_Q3_K): bit g of byte 4 r + i is that of row r,
 *                         column 4 g + i
 *         or u8 [2][16]   the two highest (PANEL_Q6_K): in the order of PANEL_Q2_K's codes
 *     codes  u8 [4][16]   byte 4 r + i of vector v: column 8 v + i of row r in the low nibble, column 8 v + 4
 *     + i in the high one
 *         or u8 [2][16]   PANEL_Q2_K, PANEL_Q3_K: byte 4 r + i of vector v: column 16 v + 4 g + i of row r in
 *         bits 2 g, 2 g + 1
 *         or i8 [8][16]   PANEL_Q8_0: byte 4 r + i of vector g: column 4 g + i of row r
 * A weight is d * (code - offset) + m; the codes of PANEL_IQ4_* and PANEL_MXFP4 are looked up in tables of 16
 * values instead. The types of 256 weights have f16 d [4] and, where they have offsets, f16 -dmin [4] before
 * each 8 blocks; a block's own d and m are then i8 [4] factors of these, one of each or one for each half
 * (PANEL_Q2_K, PANEL_Q3_K, PANEL_Q6_K). */
#ifndef HL_QUANT_PANEL_H
#define HL_QUANT_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/k_blocks.h"

enum { PANEL_ROWS = 4, PANEL_BLOCK = 32, SUPER_BLOCKS = 8 };

enum panel_type {
    PANEL_F32,
    PANEL_F16,
    PANEL_BF16,
    PANEL_Q4_0,
    PANEL_Q4_1,
    PANEL_Q5_0,
    PANEL_Q5_1,
    PANEL_Q8_0,
    PANEL_IQ4_NL,
    PANEL_MXFP4,
    PANEL_Q2_K,
    PANEL_Q3_K,
    PANEL_Q4_K,
    PANEL_Q5_K,
    PANEL_Q6_K,
    PANEL_IQ4_XS,
    PANEL_TYPES
};

/* A packed matrix. */
struct matrix {
    enum panel_type type;
    int n_in, n_out;           /* columns, rows */
    const unsigned char *data; /* ceil(n_out / 4) panels; NULL: the model has no such matrix */
};

static inline bool panel_is_float(enum panel_type t) { return t <= PANEL_BF16; }

/* Whether 8 blocks share scales that their own are factors of. */
static inline bool panel_is_super(enum panel_type t) { return t >= PANEL_Q2_K; }

/* Which parts a quantized panel's block has beside d and codes. */
static inline bool panel_has_m(enum panel_type t) {
    return t == PANEL_Q4_1 || t == PANEL_Q5_1 || t == PANEL_Q2_K || t == PANEL_Q4_K || t == PANEL_Q5_K;
}

/* Bits of a code that are in `high`. */
static inline int panel_high_bits(enum panel_type t) {
    return t == PANEL_Q6_K ? 2 : t == PANEL_Q5_0 || t == PANEL_Q5_1 || t == PANEL_Q5_K || t == PANEL_Q3_K;
}

/* Scales of a row's block: one, or one for each half. */
static inline int panel_groups(enum panel_type t) {
    return t == PANEL_Q2_K || t == PANEL_Q3_K || t == PANEL_Q6_K ? 2 : 1;
}

/* Bits of a code that are in `codes`. */
static inline int panel_code_bits(enum panel_type t) {
    return t == PANEL_Q8_0 ? 8 : t == PANEL_Q2_K || t == PANEL_Q3_K ? 2 : 4;
}

/* What is taken from an unsigned code: the weight is d * (code - offset). */
static inline int panel_code_offset(enum panel_type t) {
    switch (t) {
    case PANEL_Q3_K: return 4;
    case PANEL_Q4_0: return 8;
    case PANEL_Q5_0: return 16;
    case PANEL_Q6_K: return 32;
    default: return 0;
    }
}

/* Bytes before each 8 blocks. */
static inline int panel_super_bytes(enum panel_type t) {
    return !panel_is_super(t) ? 0 : panel_has_m(t) ? 16 : 8;
}

/* Where the parts of a quantized panel's block start; d starts at 0. Bytes. */
static inline int panel_m_at(enum panel_type t) {
    return PANEL_ROWS * panel_groups(t) * (panel_is_super(t) ? 1 : 2);
}

static inline int panel_high_at(enum panel_type t) { return panel_m_at(t) * (panel_has_m(t) ? 2 : 1); }

static inline int panel_codes_at(enum panel_type t) { return panel_high_at(t) + 16 * panel_high_bits(t); }

static inline int panel_block_bytes(enum panel_type t) {
    return panel_codes_at(t) + PANEL_ROWS * PANEL_BLOCK * panel_code_bits(t) / 8;
}

/* Bytes of one panel of n_in columns. */
size_t panel_bytes(enum panel_type t, int n_in);

/* Bytes of a whole matrix. */
size_t panel_matrix_bytes(enum panel_type t, int n_in, int n_out);

/* Packs rows row0 .. row0 + n_rows - 1 (row0 a multiple of 4) of a matrix whose file rows start at src (of
 * row row0, each row_bytes long) into the matrix' panels at dst (of the whole matrix). False when a scale or
 * a single weight is infinite or NaN. */
bool panel_pack(void *dst, enum panel_type t, const void *src, size_t row_bytes, int n_in, int row0,
                int n_rows);

/* The same for blocks that have to be decoded: n_weights of them in n_bytes. */
bool panel_pack_parts(void *dst, enum panel_type t, decode_fn *decode, int n_weights, int n_bytes,
                      const void *src, size_t row_bytes, int n_in, int row0, int n_rows);

/* Reads row `row` of the matrix back: dst [n_in]. Bit-equal to type_info.to_f32 on the file's row. */
void panel_row(float *dst, const struct matrix *w, int row);

/* Block number b of a panel, and the scales of row r: d and m [groups] (m 0 where the type has none). */
const unsigned char *panel_block_at(enum panel_type t, const unsigned char *panel, int b);
void panel_block_scales(float *d, float *m, enum panel_type t, const unsigned char *panel, int b, int r);

/* Codes of row r (0 .. 3) of one block of a quantized panel, less their offset or looked up. codes: [32]. */
void panel_block_codes(int8_t *codes, enum panel_type t, const unsigned char *block, int r);

#endif
