#ifdef __wasm_relaxed_simd__

#include "kernels/linear_simd.h"

/* Groups of four columns in a block. */
enum { GROUPS = 8 };

static inline struct linear_constants constants(void) {
    struct linear_constants k;
    k.f16 = f16_constants();
    k.nibble = SPLAT_REGISTER(0x0f0f0f0f);
    k.bit = SPLAT_REGISTER(0x10101010);
    return k;
}

/* w[g]: columns 4 g .. 4 g + 3, four bytes a row. */
INLINE void unpack(v128_t *w, const unsigned char *block, enum panel_type type,
                   const struct linear_constants *k) {
#pragma clang loop unroll(full)
    for (int v = 0; v < GROUPS / 2; v++) {
        v128_t x = wasm_v128_load(block + panel_codes_at(type) + 16 * v);
        w[2 * v] = wasm_v128_and(x, k->nibble);
        w[2 * v + 1] = wasm_v128_and(wasm_u16x8_shr(x, 4), k->nibble);
    }
    if (!panel_high_planes(type)) return;
    v128_t high = wasm_v128_load(block + panel_high_at(type));
#pragma clang loop unroll(full)
    for (int g = 0; g < GROUPS; g++) {
        v128_t moved = g <= 4 ? wasm_i16x8_shl(high, 4 - g) : wasm_u16x8_shr(high, g - 4);
        w[g] = wasm_v128_or(w[g], wasm_v128_and(moved, k->bit));
    }
}

/* The products of four columns. The instruction gives the same on every machine since the weights' codes, its
 * second operand, are 0 .. 127. */
#define PRODUCTS(G) wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load32_splat(a + bias + 4 * (G)), w[G])

/* Sums stay in i16 as long as they fit: a lane gets two products an addition. Codes to 15: 8 * 2 * 15 * 127 =
 * 30480, a whole block. Codes to 31: 4 * 2 * 31 * 127 = 31496, half a block.
 * a: the codes are `bias` bytes behind. */
INLINE v128_t dot8(const v128_t *w, const int8_t *a, int bias, enum panel_type type) {
    v128_t sum = wasm_i16x8_add(PRODUCTS(0), PRODUCTS(1));
    sum = wasm_i16x8_add(wasm_i16x8_add(sum, PRODUCTS(2)), PRODUCTS(3));
    v128_t more = wasm_i16x8_add(PRODUCTS(4), PRODUCTS(5));
    more = wasm_i16x8_add(wasm_i16x8_add(more, PRODUCTS(6)), PRODUCTS(7));
    if (!panel_high_planes(type)) return wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(sum, more));
    return wasm_i32x4_add(wasm_i32x4_extadd_pairwise_i16x8(sum), wasm_i32x4_extadd_pairwise_i16x8(more));
}

INLINE struct sums dot(const v128_t *w, const struct cursor *x, enum panel_type type) {
    v128_t sum = dot8(w, x->codes8, 0, type);
    if (*x->wide) sum = wasm_i32x4_add(wasm_i32x4_shl(sum, LOW_BITS), dot8(w, x->low8, LOW_BIAS, type));
    return (struct sums){sum, sum};
}

LINEAR_CODES(q4_0__relaxed, PANEL_Q4_0, GROUPS, unpack, dot, constants)
LINEAR_CODES(q4_1__relaxed, PANEL_Q4_1, GROUPS, unpack, dot, constants)
LINEAR_CODES(q5_0__relaxed, PANEL_Q5_0, GROUPS, unpack, dot, constants)
LINEAR_CODES(q5_1__relaxed, PANEL_Q5_1, GROUPS, unpack, dot, constants)
LINEAR_CODES(q4_k__relaxed, PANEL_Q4_K, GROUPS, unpack, dot, constants)
LINEAR_CODES(q5_k__relaxed, PANEL_Q5_K, GROUPS, unpack, dot, constants)

#endif
