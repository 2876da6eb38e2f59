/* Packing of blocks that are decoded first; see panel.h for the layout. */
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "quant/panel.h"

enum { MAX_PARTS = 8 };

/* The code that stands for a decoded one. */
static int panel_code(enum panel_type t, int8_t decoded) {
    const int8_t *values = t == PANEL_IQ4_NL || t == PANEL_IQ4_XS ? iq4_values
                           : t == PANEL_MXFP4                     ? mxfp4_values
                                                                  : NULL;
    if (!values) return decoded + panel_code_offset(t);
    int code = 0;
    while (values[code] != decoded) code++;
    return code;
}

static void put_code(uint8_t *block, enum panel_type t, int r, int j, int code) {
    int group = j / 4, i = j % 4, bits = panel_code_bits(t);
    uint8_t *codes = block + panel_codes_at(t) + 4 * r + i;
    if (bits == 4) codes[16 * (group / 2)] |= (uint8_t)((code & 15) << 4 * (group % 2));
    else codes[16 * (group / 4)] |= (uint8_t)((code & 3) << 2 * (group % 4));
    if (!panel_high_bits(t)) return;
    int high_bits = panel_high_bits(t), per_byte = 8 / high_bits;
    uint8_t *high = block + panel_high_at(t) + 4 * r + i + 16 * (group / per_byte);
    *high |= (uint8_t)(code >> bits << high_bits * (group % per_byte));
}

/* False when the number is none that f16 holds. */
static bool put_f16(uint8_t *p, float x) {
    uint16_t h = f16_from_f32(x);
    memcpy(p, &h, sizeof h);
    return (h & 0x7c00) != 0x7c00;
}

/* Row r of one block; the block was zero before its first row. */
static bool put_part(uint8_t *block, enum panel_type t, int r, const struct part *part) {
    for (int j = 0; j < PANEL_BLOCK; j++) put_code(block, t, r, j, panel_code(t, part->codes[j]));
    if (!panel_is_super(t)) return put_f16(block + 2 * r, part->d);
    for (int g = 0; g < panel_groups(t); g++) {
        uint8_t *factor = block + PANEL_ROWS * g + r;
        memcpy(factor, &part->scale[g], 1);
        if (panel_has_m(t)) memcpy(factor + panel_m_at(t), &part->min[g], 1);
    }
    return true;
}

/* Row r of what 8 blocks share. */
static bool put_super(uint8_t *super, enum panel_type t, int r, const struct part *part) {
    bool finite = put_f16(super + 2 * r, part->d);
    return (!panel_has_m(t) || put_f16(super + 8 + 2 * r, -part->dmin)) && finite;
}

bool panel_pack_parts(void *dst, enum panel_type t, decode_fn *decode, int n_weights, int n_bytes,
                      const void *src, size_t row_bytes, int n_in, int row0, int n_rows) {
    size_t bytes = panel_bytes(t, n_in);
    uint8_t *panel = (uint8_t *)dst + bytes * (size_t)(row0 / PANEL_ROWS);
    int n_parts = n_weights / PART;
    bool finite = true;
    for (int row = 0; row < n_rows; row++) {
        const uint8_t *from = (const uint8_t *)src + (size_t)row * row_bytes;
        uint8_t *block = panel + bytes * (size_t)(row / PANEL_ROWS);
        if (row % PANEL_ROWS == 0) memset(block, 0, bytes);
        for (int j = 0; j < n_in; j += n_weights, from += n_bytes) {
            struct part parts[MAX_PARTS];
            decode(parts, from);
            if (panel_is_super(t)) finite = put_super(block, t, row % PANEL_ROWS, parts) && finite;
            block += panel_super_bytes(t);
            for (int p = 0; p < n_parts; p++, block += panel_block_bytes(t))
                finite = put_part(block, t, row % PANEL_ROWS, &parts[p]) && finite;
        }
    }
    return finite;
}
