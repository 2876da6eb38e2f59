#include "quant/panel.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/f16.h"
#include "quant/blocks.h"

static_assert((int)QK == (int)PANEL_BLOCK, "a panel's block is a block of the file, four rows of it");

size_t panel_bytes(enum panel_type t, int n_in) {
    if (t == PANEL_F32) return (size_t)n_in * PANEL_ROWS * 4;
    if (panel_is_float(t)) return (size_t)n_in * PANEL_ROWS * 2;
    int n_blocks = n_in / PANEL_BLOCK;
    return (size_t)n_blocks * panel_block_bytes(t) + (size_t)(n_blocks / SUPER_BLOCKS) * panel_super_bytes(t);
}

size_t panel_matrix_bytes(enum panel_type t, int n_in, int n_out) {
    return panel_bytes(t, n_in) * (((size_t)n_out + PANEL_ROWS - 1) / PANEL_ROWS);
}

/* The parts of a file's block: scale, offset, fifth bits (bit i of column i), codes. m and high are 0 where
 * there are none. */
struct block_parts {
    uint16_t d, m;
    uint32_t high;
    const uint8_t *qs;
};

static struct block_parts block_parts(enum panel_type t, const uint8_t *block) {
    struct block_parts b = {0};
    memcpy(&b.d, block, 2);
    block += 2;
    if (panel_has_m(t)) {
        memcpy(&b.m, block, 2);
        block += 2;
    }
    if (panel_high_bits(t)) {
        memcpy(&b.high, block, 4);
        block += 4;
    }
    b.qs = block;
    return b;
}

static size_t file_block_bytes(enum panel_type t) {
    return (size_t)panel_block_bytes(t) / PANEL_ROWS; /* packing moves bytes, it adds none */
}

static bool is_finite_f16(uint16_t h) { return (h & 0x7c00) != 0x7c00; }

/* Bits i, i + 4, i + 8, ... i + 28 of x side by side. */
static uint8_t every_fourth_bit(uint32_t x, int i) {
    x = x >> i & 0x11111111;
    x = (x | x >> 3) & 0x03030303;
    x = (x | x >> 6) & 0x000f000f;
    return (uint8_t)(x | x >> 12);
}

/* Row r's nibbles: the file pairs column c with c + 16, a panel pairs 8 v + i with 8 v + 4 + i. */
static void pack_nibbles(uint8_t *codes, int r, const uint8_t *qs) {
    for (int v = 0; v < 2; v++) {
        uint32_t a, b;
        memcpy(&a, qs + 8 * v, 4);
        memcpy(&b, qs + 8 * v + 4, 4);
        uint32_t low = (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4;
        uint32_t high = (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0);
        memcpy(codes + 16 * v + 4 * r, &low, 4);
        memcpy(codes + 16 * (v + 2) + 4 * r, &high, 4);
    }
}

/* Row r of a panel of quantized blocks; false when a scale is infinite or NaN. */
static bool pack_row(uint8_t *panel, enum panel_type t, int r, const uint8_t *src, int n_blocks) {
    bool finite = true;
    for (int i = 0; i < n_blocks; i++, panel += panel_block_bytes(t), src += file_block_bytes(t)) {
        struct block_parts b = block_parts(t, src);
        uint8_t *codes = panel + panel_codes_at(t);
        finite = finite && is_finite_f16(b.d) && is_finite_f16(b.m);
        memcpy(panel + 2 * r, &b.d, 2);
        if (panel_has_m(t)) memcpy(panel + 8 + 2 * r, &b.m, 2);
        if (panel_high_bits(t)) {
            for (int k = 0; k < 4; k++) panel[panel_high_at(t) + 4 * r + k] = every_fourth_bit(b.high, k);
        }
        if (t == PANEL_Q8_0) {
            for (int g = 0; g < 8; g++) memcpy(codes + 16 * g + 4 * r, b.qs + 4 * g, 4);
        } else {
            pack_nibbles(codes, r, b.qs);
        }
    }
    return finite;
}

/* Row r of a panel of single weights; false when one is infinite or NaN. */
static bool pack_float_row(uint8_t *panel, enum panel_type t, int r, const uint8_t *src, int n_in) {
    bool finite = true;
    if (t == PANEL_F32) {
        for (int j = 0; j < n_in; j++) {
            uint32_t w;
            memcpy(&w, src + 4 * (size_t)j, 4);
            finite = finite && (w & 0x7f800000) != 0x7f800000;
            memcpy(panel + 4 * (4 * (size_t)j + r), &w, 4);
        }
        return finite;
    }
    uint16_t exponent = t == PANEL_F16 ? 0x7c00 : 0x7f80;
    for (int j = 0; j < n_in; j++) {
        uint16_t w;
        memcpy(&w, src + 2 * (size_t)j, 2);
        finite = finite && (w & exponent) != exponent;
        memcpy(panel + 2 * (4 * (size_t)j + r), &w, 2);
    }
    return finite;
}

bool panel_pack(void *dst, enum panel_type t, const void *src, size_t row_bytes, int n_in, int row0,
                int n_rows) {
    assert(row0 % PANEL_ROWS == 0 && n_rows > 0);
    size_t bytes = panel_bytes(t, n_in);
    uint8_t *panel = (uint8_t *)dst + bytes * (size_t)(row0 / PANEL_ROWS);
    bool finite = true;
    for (int row = 0; row < n_rows; row += PANEL_ROWS, panel += bytes) {
        if (n_rows - row < PANEL_ROWS) memset(panel, 0, bytes);
        for (int r = 0; r < PANEL_ROWS && row + r < n_rows; r++) {
            const uint8_t *from = (const uint8_t *)src + (size_t)(row + r) * row_bytes;
            bool ok = panel_is_float(t) ? pack_float_row(panel, t, r, from, n_in)
                                        : pack_row(panel, t, r, from, n_in / PANEL_BLOCK);
            finite = finite && ok;
        }
    }
    return finite;
}

static float float_weight(enum panel_type t, const uint8_t *panel, size_t i) {
    uint16_t h;
    if (t == PANEL_F32) {
        float f;
        memcpy(&f, panel + 4 * i, 4);
        return f;
    }
    memcpy(&h, panel + 2 * i, 2);
    return t == PANEL_F16 ? f32_from_f16(h) : f32_from_bf16(h);
}

static float block_f16(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return f32_from_f16(h);
}

const unsigned char *panel_block_at(enum panel_type t, const unsigned char *panel, int b) {
    return panel + (size_t)b * panel_block_bytes(t) + (size_t)(b / SUPER_BLOCKS + 1) * panel_super_bytes(t);
}

void panel_block_scales(float *d, float *m, enum panel_type t, const unsigned char *panel, int b, int r) {
    const unsigned char *block = panel_block_at(t, panel, b);
    m[0] = m[1] = 0;
    if (!panel_is_super(t)) {
        d[0] = block_f16(block + 2 * r);
        if (panel_has_m(t)) m[0] = block_f16(block + panel_m_at(t) + 2 * r);
        return;
    }
    const unsigned char *super =
        panel_block_at(t, panel, b / SUPER_BLOCKS * SUPER_BLOCKS) - panel_super_bytes(t);
    for (int g = 0; g < panel_groups(t); g++) {
        const int8_t *factor = (const int8_t *)block + PANEL_ROWS * g + r;
        d[g] = block_f16(super + 2 * r) * (float)factor[0];
        if (panel_has_m(t)) m[g] = block_f16(super + 8 + 2 * r) * (float)factor[panel_m_at(t)];
    }
}

void panel_row(float *dst, const struct matrix *w, int row) {
    int r = row % PANEL_ROWS, width = PANEL_BLOCK / panel_groups(w->type);
    const uint8_t *panel = w->data + panel_bytes(w->type, w->n_in) * (size_t)(row / PANEL_ROWS);
    if (panel_is_float(w->type)) {
        for (int j = 0; j < w->n_in; j++) dst[j] = float_weight(w->type, panel, 4 * (size_t)j + r);
        return;
    }
    for (int b = 0; b < w->n_in / PANEL_BLOCK; b++) {
        int8_t codes[PANEL_BLOCK];
        float d[2], m[2];
        panel_block_scales(d, m, w->type, panel, b, r);
        panel_block_codes(codes, w->type, panel_block_at(w->type, panel, b), r);
        for (int i = 0; i < PANEL_BLOCK; i++, dst++) {
            *dst = d[i / width] * (float)codes[i];
            if (panel_has_m(w->type)) *dst += m[i / width];
        }
    }
}

/* The bits of column j that are in `codes`; from: at the row's bytes of the first vector. */
static int base_code(enum panel_type t, const uint8_t *from, int j) {
    int group = j / 4, i = j % 4;
    if (panel_code_bits(t) == 4) return from[16 * (group / 2) + i] >> 4 * (group % 2) & 15;
    return from[16 * (group / 4) + i] >> 2 * (group % 4) & 3;
}

/* The bits of a column of this group that are in `high`; from: at the column's byte of the first vector. */
static int high_code(enum panel_type t, const uint8_t *from, int group) {
    int bits = panel_high_bits(t), per_byte = bits ? 8 / bits : 1;
    return bits ? from[16 * (group / per_byte)] >> bits * (group % per_byte) & ((1 << bits) - 1) : 0;
}

void panel_block_codes(int8_t *codes, enum panel_type t, const unsigned char *block, int r) {
    const unsigned char *from = block + panel_codes_at(t) + 4 * r;
    for (int j = 0; j < PANEL_BLOCK; j++) {
        int group = j / 4, i = j % 4;
        if (t == PANEL_Q8_0) {
            codes[j] = (int8_t)from[16 * group + i];
            continue;
        }
        int code = base_code(t, from, j);
        code |= high_code(t, block + panel_high_at(t) + 4 * r + i, group) << panel_code_bits(t);
        codes[j] = t == PANEL_IQ4_NL || t == PANEL_IQ4_XS ? iq4_values[code]
                   : t == PANEL_MXFP4                     ? mxfp4_values[code]
                                                          : (int8_t)(code - panel_code_offset(t));
    }
}
