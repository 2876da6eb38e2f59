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
    return (size_t)(n_in / PANEL_BLOCK) * panel_block_bytes(t);
}

size_t panel_matrix_bytes(enum panel_type t, int n_in, int n_out) {
    return panel_bytes(t, n_in) * (((size_t)n_out + PANEL_ROWS - 1) / PANEL_ROWS);
}

/* The parts of a file's block: scale, offset, fifth bits (bit i of column i), codes. m and high are 0 where there are none. */
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
    if (panel_has_high(t)) {
        memcpy(&b.high, block, 4);
        block += 4;
    }
    b.qs = block;
    return b;
}

static size_t file_block_bytes(enum panel_type t) {
    return (size_t)panel_block_bytes(t) / PANEL_ROWS; /* packing moves bytes, it adds none */
}

static bool is_finite_f16(uint16_t h) {
    return (h & 0x7c00) != 0x7c00;
}

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
        if (panel_has_high(t)) {
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

bool panel_pack(void *dst, enum panel_type t, const void *src, size_t row_bytes, int n_in, int row0, int n_rows) {
    assert(row0 % PANEL_ROWS == 0 && n_rows > 0);
    size_t bytes = panel_bytes(t, n_in);
    uint8_t *panel = (uint8_t *)dst + bytes * (size_t)(row0 / PANEL_ROWS);
    bool finite = true;
    for (int row = 0; row < n_rows; row += PANEL_ROWS, panel += bytes) {
        if (n_rows - row < PANEL_ROWS) memset(panel, 0, bytes);
        for (int r = 0; r < PANEL_ROWS && row + r < n_rows; r++) {
            const uint8_t *from = (const uint8_t *)src + (size_t)(row + r) * row_bytes;
            bool ok = panel_is_float(t) ? pack_float_row(panel, t, r, from, n_in) : pack_row(panel, t, r, from, n_in / PANEL_BLOCK);
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

void panel_row(float *dst, const struct matrix *w, int row) {
    int r = row % PANEL_ROWS;
    const uint8_t *panel = w->data + panel_bytes(w->type, w->n_in) * (size_t)(row / PANEL_ROWS);
    if (panel_is_float(w->type)) {
        for (int j = 0; j < w->n_in; j++) dst[j] = float_weight(w->type, panel, 4 * (size_t)j + r);
        return;
    }
    for (int j = 0; j < w->n_in; j += PANEL_BLOCK, panel += panel_block_bytes(w->type)) {
        float d = block_f16(panel + 2 * r);
        int8_t codes[PANEL_BLOCK];
        panel_block_codes(codes, w->type, panel, r);
        for (int i = 0; i < PANEL_BLOCK; i++) dst[j + i] = d * (float)(codes[i] - panel_code_offset(w->type));
        if (panel_has_m(w->type)) {
            float m = block_f16(panel + 8 + 2 * r);
            for (int i = 0; i < PANEL_BLOCK; i++) dst[j + i] += m;
        }
    }
}

void panel_block_codes(int8_t *codes, enum panel_type t, const unsigned char *block, int r) {
    const unsigned char *from = block + panel_codes_at(t) + 4 * r;
    for (int j = 0; j < PANEL_BLOCK; j++) {
        int group = j / 4, i = j % 4;
        if (t == PANEL_Q8_0) {
            codes[j] = (int8_t)from[16 * group + i];
            continue;
        }
        int code = from[16 * (group / 2) + i] >> 4 * (group % 2) & 15;
        if (panel_has_high(t)) code |= (block[panel_high_at(t) + 4 * r + i] >> group & 1) << 4;
        codes[j] = (int8_t)code;
    }
}
