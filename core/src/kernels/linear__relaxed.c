#ifdef __wasm_relaxed_simd__

#include "kernels/linear_simd.h"

/* Groups of four columns in a block. */
enum { GROUPS = 8 };

/* What a code is in the products: 0 .. 24 where MXFP4's values are -12 .. 12. */
enum { MXFP4_OFFSET = 12 };

/* w[g]: columns 4 g .. 4 g + 3, four bytes a row. */
INLINE void unpack(v128_t *w, const unsigned char *block, enum panel_type type,
                   const struct linear_constants *k) {
#pragma clang loop unroll(full)
    for (int g = 0; g < GROUPS; g++) w[g] = group_codes(block, g, type, k);
}

INLINE void unpack_mxfp4(v128_t *w, const unsigned char *block, enum panel_type type,
                         const struct linear_constants *k) {
    unpack(w, block, type, k);
#pragma clang loop unroll(full)
    for (int g = 0; g < GROUPS; g++) w[g] = look_up(k->values, w[g]);
}

static inline struct linear_constants mxfp4_constants(enum panel_type type) {
    struct linear_constants k = byte_constants(type);
    k.values = wasm_i8x16_add(k.values, wasm_i8x16_splat(MXFP4_OFFSET));
    return k;
}

/* How many groups' products fit into an i16, where a lane gets two products of each: codes to 15 a block's
 * (8 * 2 * 15 * 127 = 30480), to 31 four (31496), to 63 two (32004). */
INLINE int groups_in_i16(enum panel_type type) {
    if (type == PANEL_Q6_K) return 2;
    return type == PANEL_MXFP4 || panel_code_bits(type) + panel_high_bits(type) > 4 ? 4 : GROUPS;
}

/* The products of four columns. The instruction gives the same on every machine since the weights' codes, its
 * second operand, are 0 .. 127. */
INLINE v128_t products(v128_t w, const int8_t *a) {
    return wasm_i16x8_relaxed_dot_i8x16_i7x16(wasm_v128_load32_splat(a), w);
}

/* Two groups. */
#define PAIR(G) wasm_i16x8_add(products(w[G], a + 4 * (G)), products(w[(G) + 1], a + 4 * (G) + 4))
#define FOUR(G) wasm_i16x8_add(PAIR(G), PAIR((G) + 2))

/* Sums of n = 4 or 8 groups. w: [n] vectors; a: [4 n]. */
INLINE v128_t dot_groups(const v128_t *w, const int8_t *a, int n, enum panel_type type) {
    if (groups_in_i16(type) == 2) {
        v128_t sum = wasm_i32x4_extadd_pairwise_i16x8(PAIR(0));
        sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(PAIR(2)));
        return sum;
    }
    if (n == 4) return wasm_i32x4_extadd_pairwise_i16x8(FOUR(0));
    if (groups_in_i16(type) == GROUPS)
        return wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_add(FOUR(0), FOUR(4)));
    return wasm_i32x4_add(wasm_i32x4_extadd_pairwise_i16x8(FOUR(0)),
                          wasm_i32x4_extadd_pairwise_i16x8(FOUR(4)));
}

/* The same of codes to 15 bits. */
INLINE v128_t dot_wide(v128_t sum, const v128_t *w, const int8_t *low8, int n, enum panel_type type) {
    return wasm_i32x4_add(wasm_i32x4_shl(sum, LOW_BITS), dot_groups(w, low8, n, type));
}

INLINE struct sums dot(const v128_t *w, const struct cursor *at, enum panel_type type) {
    v128_t sum = dot_groups(w, at->x->codes8, GROUPS, type);
    if (at->x->wide) sum = dot_wide(sum, w, *at->low8, GROUPS, type);
    sum = less_offset(sum, at->x, type);
    if (type == PANEL_MXFP4) {
        v128_t sum8 = wasm_v128_load32_splat(&at->x->sum8);
        sum = wasm_i32x4_sub(wasm_i32x4_sub(sum, sum8), wasm_i32x4_shr(sum8, 1));
    }
    return (struct sums){sum, sum};
}

/* Less offset * sum of a half's activations; the offset of a type of two scales is 0, 4 or 32. */
INLINE v128_t less_half(v128_t sum, const int32_t *sum_half, enum panel_type type) {
    if (!panel_code_offset(type)) return sum;
    return wasm_i32x4_sub(sum, wasm_i32x4_shl(wasm_v128_load32_splat(sum_half), type == PANEL_Q3_K ? 2 : 5));
}

INLINE struct sums dot_halves(const v128_t *w, const struct cursor *at, enum panel_type type) {
    const v128_t *w2 = w + GROUPS / 2;
    v128_t low = dot_groups(w, at->x->codes8, GROUPS / 2, type),
           high = dot_groups(w2, at->x->codes8 + PANEL_BLOCK / 2, GROUPS / 2, type);
    if (at->x->wide) {
        low = dot_wide(low, w, *at->low8, GROUPS / 2, type);
        high = dot_wide(high, w2, *at->low8 + PANEL_BLOCK / 2, GROUPS / 2, type);
    }
    return (struct sums){less_half(low, &at->halves->sum[0], type),
                         less_half(high, &at->halves->sum[1], type)};
}

LINEAR_CODES(q4_0__relaxed, PANEL_Q4_0, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(q4_1__relaxed, PANEL_Q4_1, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(q5_0__relaxed, PANEL_Q5_0, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(q5_1__relaxed, PANEL_Q5_1, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(q4_k__relaxed, PANEL_Q4_K, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(q5_k__relaxed, PANEL_Q5_K, GROUPS, unpack, dot, byte_constants, 2)
LINEAR_CODES(mxfp4__relaxed, PANEL_MXFP4, GROUPS, unpack_mxfp4, dot, mxfp4_constants, 2)
LINEAR_CODES(q2_k__relaxed, PANEL_Q2_K, GROUPS, unpack, dot_halves, byte_constants, 2)
LINEAR_CODES(q3_k__relaxed, PANEL_Q3_K, GROUPS, unpack, dot_halves, byte_constants, 2)
LINEAR_CODES(q6_k__relaxed, PANEL_Q6_K, GROUPS, unpack, dot_halves, byte_constants, 2)

#endif
