/* Rows of a q8_0 cache: groups of 32 numbers as {f16 scale, i8 [32]}. */
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "kernels/impl.h"

/* scale = amax / 127 rounded to f16; numbers are rounded to nearest even multiples of it. */
void q8_from_f32_row__scalar(unsigned char *dst, const float *src, int n) {
    for (int g = 0; g < n / Q8_GROUP; g++, dst += Q8_BYTES, src += Q8_GROUP) {
        float amax = 0;
        for (int i = 0; i < Q8_GROUP; i++) amax = fabsf(src[i]) > amax ? fabsf(src[i]) : amax;
        uint16_t d = f16_from_f32(amax / 127);
        float scale = f32_from_f16(d), inverse = scale > 0 ? 1 / scale : 0;
        memcpy(dst, &d, sizeof d);
        for (int i = 0; i < Q8_GROUP; i++) {
            float q = rintf(src[i] * inverse);
            ((int8_t *)dst)[2 + i] = (int8_t)(q > 127 ? 127 : q < -127 ? -127 : q == q ? q : 0);
        }
    }
}

void f32_from_q8_row__scalar(float *dst, const unsigned char *src, int n) {
    for (int g = 0; g < n / Q8_GROUP; g++, src += Q8_BYTES, dst += Q8_GROUP) {
        uint16_t d;
        memcpy(&d, src, sizeof d);
        float scale = f32_from_f16(d);
        for (int i = 0; i < Q8_GROUP; i++) dst[i] = scale * (float)((const int8_t *)src)[2 + i];
    }
}
