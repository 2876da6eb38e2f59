/* Packed weights. A panel is 4 rows of a matrix, interleaved so that SIMD lane = row; panels of a matrix follow each other.
 * The last panel is filled up with zero rows. Every GGUF type maps to one panel type.
 *
 * Float panels: for each column, the 4 rows' weights: [n_in][4] of f32, f16 or bf16.
 * Quantized panels: for each block of 32 columns
 *     d      f16 [4]      scale of each row
 *     m      f16 [4]      offset of each row                                        (only PANEL_Q4_1, PANEL_Q5_1)
 *     high   u8 [16]      fifth bits: bit g of byte 4 r + i is that of row r, column 4 g + i       (PANEL_Q5_*)
 *     codes  u8 [4][16]   byte 4 r + i of vector v: column 8 v + i of row r in the low nibble, column 8 v + 4 + i in the high one
 *         or i8 [8][16]   PANEL_Q8_0: byte 4 r + i of vector g: column 4 g + i of row r
 * A weight is d * (code - 8), d * code + m, d * (code - 16), d * code + m, d * code for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. */
#ifndef HL_QUANT_PANEL_H
#define HL_QUANT_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PANEL_ROWS = 4, PANEL_BLOCK = 32 };

enum panel_type { PANEL_F32, PANEL_F16, PANEL_BF16, PANEL_Q4_0, PANEL_Q4_1, PANEL_Q5_0, PANEL_Q5_1, PANEL_Q8_0, PANEL_TYPES };

/* A packed matrix. */
struct matrix {
    enum panel_type type;
    int n_in, n_out;          /* columns, rows */
    const unsigned char *data; /* ceil(n_out / 4) panels; NULL: the model has no such matrix */
};

static inline bool panel_is_float(enum panel_type t) {
    return t <= PANEL_BF16;
}

/* Which parts a quantized panel's block has beside d and codes. */
static inline bool panel_has_m(enum panel_type t) {
    return t == PANEL_Q4_1 || t == PANEL_Q5_1;
}

static inline bool panel_has_high(enum panel_type t) {
    return t == PANEL_Q5_0 || t == PANEL_Q5_1;
}

/* What is taken from an unsigned code: the weight is d * (code - offset). */
static inline int panel_code_offset(enum panel_type t) {
    return t == PANEL_Q4_0 ? 8 : t == PANEL_Q5_0 ? 16 : 0;
}

/* Where the parts of a quantized panel's block start; d starts at 0. Bytes. */
static inline int panel_high_at(enum panel_type t) {
    return panel_has_m(t) ? 16 : 8;
}

static inline int panel_codes_at(enum panel_type t) {
    return panel_high_at(t) + (panel_has_high(t) ? 16 : 0);
}

static inline int panel_block_bytes(enum panel_type t) {
    return panel_codes_at(t) + (t == PANEL_Q8_0 ? 128 : 64);
}

/* Bytes of one panel of n_in columns. */
size_t panel_bytes(enum panel_type t, int n_in);

/* Bytes of a whole matrix. */
size_t panel_matrix_bytes(enum panel_type t, int n_in, int n_out);

/* Packs rows row0 .. row0 + n_rows - 1 (row0 a multiple of 4) of a matrix whose file rows start at src (of row row0, each
 * row_bytes long) into the matrix' panels at dst (of the whole matrix). False when a scale or a single weight is infinite or NaN. */
bool panel_pack(void *dst, enum panel_type t, const void *src, size_t row_bytes, int n_in, int row0, int n_rows);

/* Reads row `row` of the matrix back: dst [n_in]. Bit-equal to type_info.to_f32 on the file's row. */
void panel_row(float *dst, const struct matrix *w, int row);

/* Codes of row r (0 .. 3) of one block of a quantized panel. codes: [32]. */
void panel_block_codes(int8_t *codes, enum panel_type t, const unsigned char *block, int r);

#endif
