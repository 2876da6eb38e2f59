#include "quant/transpose.h"

#include <math.h>
#include <string.h>

#include "base/f16.h"

enum panel_type transpose_panel(const struct type_info *type) {
    return panel_is_float(type->panel) ? type->panel : PANEL_F16;
}

/* Weight i of a float panel. */
static void put_weight(unsigned char *panel, enum panel_type t, size_t i, float w) {
    uint16_t h = t == PANEL_F16 ? f16_from_f32(w) : (uint16_t)(f32_bits(w) >> 16);
    if (t == PANEL_F32) memcpy(panel + 4 * i, &w, 4);
    else memcpy(panel + 2 * i, &h, 2);
}

bool transpose_pack(void *dst, const struct type_info *type, const void *src, size_t row_bytes, int n_rows,
                    int n_columns) {
    enum { PIECE = 256 }; /* a whole number of blocks of every type */
    enum panel_type t = transpose_panel(type);
    size_t bytes = panel_bytes(t, n_rows);
    float w[PIECE], limit = t == PANEL_F16 ? 65504 : INFINITY;
    bool finite = true;
    for (int row = 0; row < n_rows; row++) {
        const unsigned char *piece = (const unsigned char *)src + (size_t)row * row_bytes;
        for (int c0 = 0; c0 < n_columns; c0 += PIECE, piece += PIECE / type->n_weights * type->n_bytes) {
            int n = n_columns - c0 < PIECE ? n_columns - c0 : PIECE;
            type->to_f32(w, piece, (size_t)n);
            for (int c = c0; c < c0 + n; c++) {
                unsigned char *panel = (unsigned char *)dst + bytes * (size_t)(c / PANEL_ROWS);
                finite &= fabsf(w[c - c0]) <= limit && !isinf(w[c - c0]);
                put_weight(panel, t, (size_t)row * PANEL_ROWS + (size_t)(c % PANEL_ROWS), w[c - c0]);
            }
        }
    }
    return finite;
}
