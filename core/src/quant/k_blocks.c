/* Blocks of 256 weights with scales of their own (K types), and 4-bit blocks with a table of values (IQ4,
 * MXFP4). Source of the layouts: ggml's quantization formats. */
#include "quant/k_blocks.h"

#include <string.h>

#include "base/f16.h"

enum { QK_K = 256, N_PARTS = QK_K / PART };

static float f16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f32_from_f16(h);
}

/* Scales and minima: 16 bytes {scale, min << 4}; codes of 2 bits; d, dmin. */
void decode_q2_k(struct part *out, const uint8_t *b) {
    const uint8_t *qs = b + 16;
    for (int p = 0; p < N_PARTS; p++, out++) {
        const uint8_t *q = qs + 32 * (p / 4); /* four parts share 32 bytes */
        out->d = f16_at(b + 80);
        out->dmin = f16_at(b + 82);
        for (int h = 0; h < 2; h++) {
            out->scale[h] = (int8_t)(b[2 * p + h] & 15);
            out->min[h] = (int8_t)(b[2 * p + h] >> 4);
        }
        for (int i = 0; i < PART; i++) out->codes[i] = (int8_t)(q[i] >> 2 * (p % 4) & 3);
    }
}

/* The sixteen 6-bit scales of a q3_k block. */
static int q3_k_scale(const uint8_t *s, int g) {
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return (low | (s[8 + g % 4] >> 2 * (g / 4) & 3) << 4) - 32;
}

/* Third bits (set: + 4) of 256 codes in 32 bytes; low bits as in q2_k; scales; d. */
void decode_q3_k(struct part *out, const uint8_t *b) {
    const uint8_t *qs = b + 32, *scales = b + 96;
    for (int p = 0; p < N_PARTS; p++, out++) {
        const uint8_t *q = qs + 32 * (p / 4);
        *out = (struct part){.d = f16_at(b + 108)};
        for (int h = 0; h < 2; h++) out->scale[h] = (int8_t)q3_k_scale(scales, 2 * p + h);
        for (int i = 0; i < PART; i++)
            out->codes[i] = (int8_t)((q[i] >> 2 * (p % 4) & 3) - (b[i] >> p & 1 ? 0 : 4));
    }
}

/* Scale and minimum of group g of a q4_k or q5_k block: eight of each in 12 bytes, 6 bits a number. */
static void k_scale_min(const uint8_t *s, int g, int *scale, int *min) {
    if (g < 4) {
        *scale = s[g] & 63;
        *min = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
        *min = s[g + 4] >> 4 | (s[g] >> 6) << 4;
    }
}

/* d, dmin, scales; then, for q5_k, fifth bits: bit p of byte i is that of code i of part p; then codes: two
 * parts in 32 bytes. */
static void decode_q45_k(struct part *out, const uint8_t *b, const uint8_t *high, const uint8_t *qs) {
    for (int p = 0; p < N_PARTS; p++, out++) {
        int scale, min;
        k_scale_min(b + 4, p, &scale, &min);
        out->d = f16_at(b);
        out->dmin = f16_at(b + 2);
        out->scale[0] = out->scale[1] = (int8_t)scale;
        out->min[0] = out->min[1] = (int8_t)min;
        for (int i = 0; i < PART; i++) {
            int code = qs[32 * (p / 2) + i] >> 4 * (p % 2) & 15;
            if (high) code |= (high[i] >> p & 1) << 4;
            out->codes[i] = (int8_t)code;
        }
    }
}

void decode_q4_k(struct part *out, const uint8_t *b) { decode_q45_k(out, b, NULL, b + 16); }

void decode_q5_k(struct part *out, const uint8_t *b) { decode_q45_k(out, b, b + 16, b + 48); }

/* Low nibbles (parts p and p + 2 of a half share 32 bytes), two high bits, i8 scales of 16 codes each, d. */
void decode_q6_k(struct part *out, const uint8_t *b) {
    const uint8_t *ql = b, *qh = b + 128;
    const int8_t *scales = (const int8_t *)b + 192;
    for (int p = 0; p < N_PARTS; p++, out++) {
        int half = p / 4, quarter = p % 4;
        const uint8_t *low = ql + 64 * half + 32 * (quarter % 2), *high = qh + 32 * half;
        *out = (struct part){.d = f16_at(b + 208), .scale = {scales[2 * p], scales[2 * p + 1]}};
        for (int i = 0; i < PART; i++) {
            int code = (low[i] >> 4 * (quarter / 2) & 15) | (high[i] >> 2 * quarter & 3) << 4;
            out->codes[i] = (int8_t)(code - 32);
        }
    }
}

const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* Twice the values of a 4-bit float: sign, two bits of exponent, one of mantissa. */
const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Weight i in the low nibble of qs[i], weight i + 16 in the high one. */
static void decode_nibbles(struct part *out, const uint8_t *qs, float d, int scale, const int8_t *values) {
    *out = (struct part){.d = d, .scale = {(int8_t)scale, (int8_t)scale}};
    for (int i = 0; i < PART; i++) out->codes[i] = values[i < 16 ? qs[i] & 15 : qs[i - 16] >> 4];
}

void decode_iq4_nl(struct part *out, const uint8_t *b) {
    decode_nibbles(out, b + 2, f16_at(b), 1, iq4_values);
}

/* d, high bits of the scales (2 each), low bits (4 each), codes. */
void decode_iq4_xs(struct part *out, const uint8_t *b) {
    int high = b[2] | b[3] << 8;
    for (int p = 0; p < N_PARTS; p++, out++) {
        int scale = (b[4 + p / 2] >> 4 * (p % 2) & 15) | (high >> 2 * p & 3) << 4;
        decode_nibbles(out, b + 8 + 16 * p, f16_at(b), scale - 32, iq4_values);
    }
}

/* The scale's exponent: 2^(e - 127), halved since the values are doubled. e = 0, 1 give subnormal numbers. */
void decode_mxfp4(struct part *out, const uint8_t *b) {
    float d = b[0] < 2 ? f32_from_bits(0x00200000u << b[0]) : f32_from_bits((uint32_t)(b[0] - 1) << 23);
    decode_nibbles(out, b + 1, d, 1, mxfp4_values);
}

void parts_to_f32(float *dst, const uint8_t *src, size_t n, decode_fn *decode, int n_weights, int n_bytes) {
    struct part parts[N_PARTS];
    for (; n > 0; n -= (size_t)n_weights, src += n_bytes) {
        decode(parts, src);
        for (const struct part *p = parts; p < parts + n_weights / PART; p++) {
            for (int i = 0; i < PART; i++)
                *dst++ =
                    p->d * (float)p->scale[i / 16] * (float)p->codes[i] - p->dmin * (float)p->min[i / 16];
        }
    }
}
