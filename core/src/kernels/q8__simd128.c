#ifdef __wasm_simd128__

#include <string.h>
#include <wasm_simd128.h>

#include "base/f16.h"
#include "kernels/impl.h"

void f32_from_q8_row__simd128(float *dst, const unsigned char *src, int n) {
    for (int g = 0; g < n / Q8_GROUP; g++, src += Q8_BYTES, dst += Q8_GROUP) {
        uint16_t d;
        memcpy(&d, src, sizeof d);
        v128_t scale = wasm_f32x4_splat(f32_from_f16(d));
        for (int i = 0; i < Q8_GROUP; i += 8) {
            v128_t q = wasm_i16x8_load8x8(src + 2 + i);
            v128_t low = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(q));
            v128_t high = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(q));
            wasm_v128_store(dst + i, wasm_f32x4_mul(scale, low));
            wasm_v128_store(dst + i + 4, wasm_f32x4_mul(scale, high));
        }
    }
}

#endif
