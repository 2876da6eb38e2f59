/* What linear shares in the SIMD builds.
 *
 * A panel's four rows are the four lanes, so sums need no shuffling and a row's scale is a lane. Weights of a
 * block are unpacked into vectors once and meet one activation row after another: lane by lane the order of
 * sums is the scalar kernel's. */
#ifndef HL_KERNELS_LINEAR_SIMD_H
#define HL_KERNELS_LINEAR_SIMD_H

#include "kernels/impl.h"
#include "kernels/simd.h"

/* Activation rows that share an unpacked block: enough to make unpacking cheap, few enough for their codes to
 * stay in the first-level cache from block to block. */
enum { TILE_COLUMNS = 16 };

/* Constants of the inner loops. */
struct linear_constants {
    struct f16_constants f16;
    v128_t low, high; /* the bits of a code that come from `codes` and from `high` */
    v128_t values;    /* bytes that codes stand for, where they are looked up */
    v128_t offset;    /* of codes, in each byte */
};

/* Types whose codes are looked up. */
INLINE bool has_values(enum panel_type type) {
    return type == PANEL_IQ4_NL || type == PANEL_IQ4_XS || type == PANEL_MXFP4;
}

/* For codes in bytes. Volatile: see SPLAT_REGISTER. */
INLINE struct linear_constants byte_constants(enum panel_type type) {
    static const volatile uint32_t ones[] = {0, 0x01010101, 0x03030303, 0, 0x0f0f0f0f};
    struct linear_constants k = {0};
    k.f16 = f16_constants();
    k.low = wasm_u32x4_splat(ones[panel_code_bits(type)]);
    k.high = wasm_u32x4_splat(ones[panel_high_bits(type)] << panel_code_bits(type));
    k.offset = wasm_u32x4_splat(ones[1] * (uint32_t)panel_code_offset(type));
    if (has_values(type)) k.values = wasm_v128_load(type == PANEL_MXFP4 ? mxfp4_values : iq4_values);
    return k;
}

/* values[codes], codes 0 .. 15: so far the relaxed instruction is the same on every machine. */
INLINE v128_t look_up(v128_t values, v128_t codes) {
#ifdef __wasm_relaxed_simd__
    return wasm_i8x16_relaxed_swizzle(values, codes);
#else
    return wasm_i8x16_swizzle(values, codes);
#endif
}

/* The scales of a block's four rows; m only where the type has one. */
struct scales {
    v128_t d, m;   /* of the block, or of its first half */
    v128_t d2, m2; /* of its second half */
};

/* Sums of products of a block's four rows; high: of its second half, where that has a scale of its own. */
struct sums {
    v128_t low, high;
};

/* Four i8 factors of a scale. */
INLINE v128_t factors(const unsigned char *p) {
    v128_t x = wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p));
    return wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(x));
}

/* What 8 blocks share: d and m. */
INLINE struct scales load_super(const unsigned char *super, enum panel_type type,
                                const struct linear_constants *k) {
    struct scales s = {0};
    s.d = f32x4_from_f16(super, k->f16);
    if (panel_has_m(type)) s.m = f32x4_from_f16(super + 8, k->f16);
    return s;
}

INLINE struct scales load_scales(const unsigned char *block, struct scales super, enum panel_type type,
                                 const struct linear_constants *k) {
    struct scales s = {0};
    const unsigned char *m = block + panel_m_at(type);
    if (!panel_is_super(type)) {
        s.d = f32x4_from_f16(block, k->f16);
        if (panel_has_m(type)) s.m = f32x4_from_f16(m, k->f16);
        return s;
    }
    s.d = wasm_f32x4_mul(super.d, factors(block));
    if (panel_has_m(type)) s.m = wasm_f32x4_mul(super.m, factors(m));
    if (panel_groups(type) == 2) s.d2 = wasm_f32x4_mul(super.d, factors(block + PANEL_ROWS));
    if (panel_groups(type) == 2 && panel_has_m(type)) s.m2 = wasm_f32x4_mul(super.m, factors(m + PANEL_ROWS));
    return s;
}

/* Where a block of activations has its parts; what a kernel does not read costs nothing. */
struct cursor {
    const struct act_block *x;
    const struct act_halves *halves;
    const int8_t (*low8)[PANEL_BLOCK];
    const int16_t (*codes16)[PANEL_BLOCK];
};

INLINE struct cursor cursor_at(const struct act *a, size_t at) {
    return (struct cursor){a->blocks + at, a->halves + at, a->low8 + at, a->codes16 + at};
}

INLINE void cursor_move(struct cursor *c, int n) {
    c->x += n;
    c->halves += n;
    c->low8 += n;
    c->codes16 += n;
}

/* The codes of group g (columns 4 g .. 4 g + 3, four bytes a row), their offset in them. */
INLINE v128_t group_codes(const unsigned char *block, int g, enum panel_type type,
                          const struct linear_constants *k) {
    int bits = panel_code_bits(type), per_byte = 8 / bits;
    v128_t x = wasm_v128_load(block + panel_codes_at(type) + 16 * (g / per_byte));
    x = wasm_v128_and(wasm_u16x8_shr(x, bits * (g % per_byte)), k->low);
    if (!panel_high_bits(type)) return x;
    int high_bits = panel_high_bits(type), high_per_byte = 8 / high_bits,
        from = high_bits * (g % high_per_byte);
    v128_t high = wasm_v128_load(block + panel_high_at(type) + 16 * (g / high_per_byte));
    high = from <= bits ? wasm_i16x8_shl(high, bits - from) : wasm_u16x8_shr(high, from - bits);
    return wasm_v128_or(x, wasm_v128_and(high, k->high));
}

INLINE v128_t add_product(v128_t acc, v128_t a, v128_t b) {
    return wasm_f32x4_add(acc, wasm_f32x4_mul(a, b));
}

/* acc + (dw * d) * sums + m * s of a block with two halves. */
INLINE v128_t add_halves(v128_t acc, struct sums sum, struct scales w, const struct cursor *at,
                         enum panel_type type) {
    v128_t scale = wasm_v128_load32_splat(&at->x->d);
    acc = add_product(acc, wasm_f32x4_mul(w.d, scale), wasm_f32x4_convert_i32x4(sum.low));
    acc = add_product(acc, wasm_f32x4_mul(w.d2, scale), wasm_f32x4_convert_i32x4(sum.high));
    if (!panel_has_m(type)) return acc;
    return add_product(add_product(acc, w.m, wasm_v128_load32_splat(&at->halves->s[0])), w.m2,
                       wasm_v128_load32_splat(&at->halves->s[1]));
}

/* acc + (dw * d) * sum [+ m * s] */
INLINE v128_t add_block(v128_t acc, struct sums sum, struct scales w, const struct cursor *at,
                        enum panel_type type) {
    if (panel_groups(type) == 2) return add_halves(acc, sum, w, at, type);
    acc = add_product(acc, wasm_f32x4_mul(w.d, wasm_v128_load32_splat(&at->x->d)),
                      wasm_f32x4_convert_i32x4(sum.low));
    return panel_has_m(type) ? add_product(acc, w.m, wasm_v128_load32_splat(&at->x->s)) : acc;
}

/* Sums of unsigned codes less those of their offset, 8 or 16. */
INLINE v128_t less_offset(v128_t sum, const struct act_block *x, enum panel_type type) {
    if (type != PANEL_Q4_0 && type != PANEL_Q5_0) return sum;
    v128_t offset = wasm_v128_load32_splat(&x->sum8);
    return wasm_i32x4_sub(sum, type == PANEL_Q5_0 ? wasm_i32x4_shl(offset, 1) : offset);
}

/* Stream i of a GEMV's step number p: the panels of a stream follow each other, the last stream may be short. */
INLINE int stream_panel(int p, int i, int step, int n_panels) {
    return p + i * step < n_panels ? p + i * step : n_panels - 1;
}

/* Loops over columns stay loops: the weights of a block fill the registers, and unrolled they would be
 * spilled. */
#define NO_UNROLL _Pragma("clang loop unroll(disable)")

/* Defines linear_NAME for panels of codes, given
 *     UNPACK(v128_t w[N], block, TYPE, k)     the weights of a block
 *     DOT(w, x, TYPE)                         sums of the products with the block of activations x
 *     K(TYPE)                                 struct linear_constants
 *     STREAMS                                 panels that one column meets at once, each read from a place of
 *                                             its own: memory serves two streams faster than one
 * The loops are functions of their own, which get pointers only: binaryen 120 fails when it evaluates a
 * relaxed dot of constants. */
#define LINEAR_CODES(NAME, TYPE, N, UNPACK, DOT, K, STREAMS)                                                 \
    /* Panel number p of each stream. */                                                                     \
    static                                                                                                   \
        __attribute__((noinline)) void gemv_##NAME(float *y, const unsigned char *panels, int p, int step,   \
                                                   int n_panels, const struct act *a, int col) {             \
        int n_blocks = a->n_in / PANEL_BLOCK, stride = a->n_rows;                                            \
        struct cursor x = cursor_at(a, act_at(a, col, 0));                                                   \
        struct linear_constants k = K(TYPE);                                                                 \
        struct scales super[STREAMS] = {0};                                                                  \
        const unsigned char *block[STREAMS];                                                                 \
        v128_t acc[STREAMS];                                                                                 \
        for (int i = 0; i < STREAMS; i++) {                                                                  \
            block[i] = panels + (size_t)stream_panel(p, i, step, n_panels) * panel_bytes(TYPE, a->n_in);     \
            acc[i] = wasm_f32x4_const_splat(0);                                                              \
        }                                                                                                    \
        for (int b = 0; b < n_blocks; b++) {                                                                 \
            for (int i = 0; i < STREAMS; i++) {                                                              \
                if (panel_is_super(TYPE) && b % SUPER_BLOCKS == 0) {                                         \
                    super[i] = load_super(block[i], TYPE, &k);                                               \
                    block[i] += panel_super_bytes(TYPE);                                                     \
                }                                                                                            \
                v128_t w[N];                                                                                 \
                UNPACK(w, block[i], TYPE, &k);                                                               \
                struct scales scales = load_scales(block[i], super[i], TYPE, &k);                            \
                acc[i] = add_block(acc[i], DOT(w, &x, TYPE), scales, &x, TYPE);                              \
                block[i] += panel_block_bytes(TYPE);                                                         \
            }                                                                                                \
            cursor_move(&x, stride);                                                                         \
        }                                                                                                    \
        for (int i = 0; i < STREAMS; i++)                                                                    \
            wasm_v128_store(y + stream_panel(p, i, step, n_panels) * PANEL_ROWS, acc[i]);                    \
    }                                                                                                        \
    /* n_cols: 1 .. TILE_COLUMNS */                                                                          \
    static __attribute__((noinline)) void tile_##NAME(float *y, size_t y_stride, const unsigned char *block, \
                                                      const struct act *a, int col0, int n_cols) {           \
        int n_blocks = a->n_in / PANEL_BLOCK;                                                                \
        struct linear_constants k = K(TYPE);                                                                 \
        struct scales super = {0};                                                                           \
        v128_t acc[TILE_COLUMNS];                                                                            \
        NO_UNROLL for (int c = 0; c < n_cols; c++) acc[c] = wasm_f32x4_const_splat(0);                       \
        for (int b = 0; b < n_blocks; b++) {                                                                 \
            if (panel_is_super(TYPE) && b % SUPER_BLOCKS == 0) {                                             \
                super = load_super(block, TYPE, &k);                                                         \
                block += panel_super_bytes(TYPE);                                                            \
            }                                                                                                \
            v128_t w[N];                                                                                     \
            UNPACK(w, block, TYPE, &k);                                                                      \
            struct scales scales = load_scales(block, super, TYPE, &k);                                      \
            struct cursor x = cursor_at(a, act_at(a, col0, b));                                              \
            NO_UNROLL for (int c = 0; c < n_cols; c++) {                                                     \
                acc[c] = add_block(acc[c], DOT(w, &x, TYPE), scales, &x, TYPE);                              \
                cursor_move(&x, 1);                                                                          \
            }                                                                                                \
            block += panel_block_bytes(TYPE);                                                                \
        }                                                                                                    \
        NO_UNROLL for (int c = 0; c < n_cols; c++) wasm_v128_store(y + c * y_stride, acc[c]);                \
    }                                                                                                        \
    void linear_##NAME(float *y, size_t y_stride, const unsigned char *panels, int n_panels,                 \
                       const struct act *a, int col0, int n_cols) {                                          \
        size_t bytes = panel_bytes(TYPE, a->n_in);                                                           \
        if (n_cols == 1) {                                                                                   \
            int step = (n_panels + STREAMS - 1) / STREAMS;                                                   \
            for (int p = 0; p < step; p++) gemv_##NAME(y, panels, p, step, n_panels, a, col0);               \
            return;                                                                                          \
        }                                                                                                    \
        for (int p = 0; p < n_panels; p++, panels += bytes, y += PANEL_ROWS) {                               \
            for (int c = 0; c < n_cols; c += TILE_COLUMNS) {                                                 \
                int width = n_cols - c < TILE_COLUMNS ? n_cols - c : TILE_COLUMNS;                           \
                tile_##NAME(y + c * y_stride, y_stride, panels, a, col0 + c, width);                         \
            }                                                                                                \
        }                                                                                                    \
    }

#endif
