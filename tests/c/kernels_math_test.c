#include "base/f16.h"
#include "kernels/kernels.h"
#include "test.h"

enum { N = 67 }; /* longest array: no multiple of what SIMD takes at once */

/* n random numbers in a buffer of exactly their size. */
static float *randoms(int n, float scale, uint64_t *seed) {
    float *x = malloc(n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = test_random_float(seed) * scale;
    return x;
}

static float *copy(const float *x, int n) {
    float *y = malloc(n * sizeof *y);
    memcpy(y, x, n * sizeof *y);
    return y;
}

/* Runs CALL with k and y: first scalar, then this build's table, on the same y; expects the same bits. */
#define SAME_BITS(Y, SIZE, CALL)                                                                             \
    do {                                                                                                     \
        float *first = (Y), *scalar = copy(first, SIZE), *here = copy(first, SIZE), *y = scalar;             \
        const struct kernels *k = kernels_scalar();                                                          \
        CALL;                                                                                                \
        k = kernels_get();                                                                                   \
        y = here;                                                                                            \
        CALL;                                                                                                \
        EXPECT_MEM(here, scalar, (SIZE) * sizeof *y);                                                        \
        free(scalar);                                                                                        \
        free(here);                                                                                          \
    } while (0)

TEST(elementwise_kernels_give_the_bits_of_the_scalar_ones_for_every_length) {
    for (int n = 1; n <= N; n++) {
        uint64_t seed = n;
        float *x = randoms(n, 30, &seed), *w = randoms(n, 2, &seed), *start = randoms(n, 3, &seed), sum = 0;
        SAME_BITS(start, n, k->rms_norm(y, x, w, n, 1e-5f));
        SAME_BITS(start, n, k->rms_norm(y, y, w, n, 1e-5f));
        SAME_BITS(start, n, k->add(y, x, n));
        SAME_BITS(start, n, k->scale_add(y, 0.3f, x, -1.7f, n));
        SAME_BITS(start, n, k->scale(y, 0.3f, n));
        SAME_BITS(start, n, k->silu_mul(y, x, w, n));
        SAME_BITS(start, n, k->gelu_mul(y, x, w, n));
        SAME_BITS(start, n, k->silu_mul(y, y, w, n));
        SAME_BITS(start, n, y[0] = k->exp_sum(y, x, n, 4));
        SAME_BITS(start, n, sum += k->exp_sum(y, x, n, 30));
        SAME_BITS(start, n, y[0] = k->max(x, n));
        EXPECT(sum > 0);
        free(x);
        free(w);
        free(start);
    }
}

TEST(rope_gives_the_bits_of_the_scalar_kernel_for_every_number_of_pairs) {
    for (int pairs = 1; pairs <= 19; pairs++) {
        uint64_t seed = pairs;
        float *cs = randoms(pairs, 1, &seed), *sn = randoms(pairs, 1, &seed),
              *x = randoms(2 * pairs, 1, &seed);
        SAME_BITS(x, 2 * pairs, k->rope(y, cs, sn, 2 * pairs, 0));
        SAME_BITS(x, 2 * pairs, k->rope(y, cs, sn, 2 * pairs, 1));
        free(cs);
        free(sn);
        free(x);
    }
}

/* Rows of f16 where they are: the scalar bits, and those of the same rows turned into f32 before. */
static void same_from_f16(float *q, const float *rows, float *s, float *out, int stride, int s_stride,
                          int n_q, int n_k, int d) {
    int n_rows = (n_k - 1) * stride + d, n_s = (n_q - 1) * s_stride + n_k, n_out = (n_q - 1) * stride + d;
    uint16_t *half = malloc((size_t)n_rows * sizeof *half);
    float *same = malloc((size_t)n_rows * sizeof *same), *want_s = copy(s, n_s), *want_out = copy(out, n_out);
    const struct kernels *native = kernels_get();
    native->f16_from_f32_row(half, rows, n_rows);
    native->f32_from_f16_row(same, half, n_rows);
    SAME_BITS(s, n_s, k->attn_scores_f16(y, s_stride, q, stride, n_q, half, stride, n_k, d));
    SAME_BITS(out, n_out, k->attn_values_f16(y, stride, s, s_stride, n_q, half, stride, n_k, d));
    native->attn_values_f16(out, stride, s, s_stride, n_q, half, stride, n_k, d);
    native->attn_values(want_out, stride, s, s_stride, n_q, same, stride, n_k, d);
    EXPECT_MEM(out, want_out, (size_t)n_out * sizeof *out);
    native->attn_scores_f16(s, s_stride, q, stride, n_q, half, stride, n_k, d);
    native->attn_scores(want_s, s_stride, q, stride, n_q, same, stride, n_k, d);
    EXPECT_MEM(s, want_s, (size_t)n_s * sizeof *s);
    free(half);
    free(same);
    free(want_s);
    free(want_out);
}

TEST(attention_kernels_give_the_bits_of_the_scalar_ones_for_odd_shapes) {
    const int dims[] = {1, 3, 4, 7, 8, 13, 64};
    for (int i = 0; i < 7; i++) {
        for (int n_q = 1; n_q <= 9; n_q++) {
            for (int n_k = 1; n_k <= 9; n_k++) {
                int d = dims[i], stride = d + 2, s_stride = n_k + 1;
                uint64_t seed = n_q * 100 + n_k;
                float *q = randoms((n_q - 1) * stride + d, 1, &seed),
                      *k_rows = randoms((n_k - 1) * stride + d, 1, &seed);
                float *s = randoms((n_q - 1) * s_stride + n_k, 1, &seed),
                      *out = randoms((n_q - 1) * stride + d, 1, &seed);
                SAME_BITS(s, (n_q - 1) * s_stride + n_k,
                          k->attn_scores(y, s_stride, q, stride, n_q, k_rows, stride, n_k, d));
                SAME_BITS(out, (n_q - 1) * stride + d,
                          k->attn_values(y, stride, s, s_stride, n_q, k_rows, stride, n_k, d));
                same_from_f16(q, k_rows, s, out, stride, s_stride, n_q, n_k, d);
                free(q);
                free(k_rows);
                free(s);
                free(out);
            }
        }
    }
}

/* Distance in units of the last place of want. */
static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

TEST(exp_is_within_two_units_of_the_last_place) {
    double worst = 0;
    for (int i = 0; i < 400000; i++) {
        float x = -87 + (float)i * (175.0f / 400000), y[4] = {x, x, x, x};
        kernels_get()->exp_sum(y, y, 4, 0);
        double off = ulps(y[3], exp((double)x));
        if (off > worst) worst = off;
    }
    EXPECT(worst < 2);
}

TEST(exp_has_its_limits) {
    float x[8] = {-87.5f, -1e30f, -INFINITY, 0, 89, INFINITY, NAN, -0.0f}, y[8];
    kernels_get()->exp_sum(y, x, 8, 0);
    EXPECT(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1);
    EXPECT(y[4] == INFINITY && y[5] == INFINITY && y[6] != y[6] && y[7] == 1);
    float z[5] = {1, 2, 3, 4, 5};
    EXPECT_NEAR(kernels_get()->exp_sum(z, z, 5, 5), 1.5713174, 1e-6); /* exp(-4) + ... + exp(0), by bc */
}

TEST(silu_and_gelu_follow_their_formulas) {
    float one[4] = {1, 1, 1, 1};
    for (float x = -20; x <= 20; x += 0.037f) {
        float a[4] = {x, x, x, x}, b[4] = {x, x, x, x};
        double v = (double)x;
        kernels_get()->silu_mul(a, a, one, 4);
        kernels_get()->gelu_mul(b, b, one, 4);
        EXPECT_NEAR(a[1], v / (1 + exp(-v)), fabs(v) * 4e-7);
        EXPECT_NEAR(b[1], 0.5 * v * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v))),
                    fabs(v) * 4e-7);
    }
}

TEST(silu_and_gelu_are_exact_far_from_zero) {
    float x[5] = {1e30f, -1e30f, 200, -200, 0}, one[5] = {1, 1, 1, 1, 1}, silu[5], gelu[5];
    kernels_get()->silu_mul(silu, x, one, 5);
    kernels_get()->gelu_mul(gelu, x, one, 5);
    for (int i = 0; i < 5; i++) {
        EXPECT(silu[i] == (x[i] > 0 ? x[i] : 0));
        EXPECT(gelu[i] == (x[i] > 0 ? x[i] : 0));
    }
}

TEST(rms_norm_divides_by_the_root_of_the_mean_square) {
    float x[5] = {1, -2, 3, -4, 5}, w[5] = {1, 2, 0.5f, 1, 3}, y[5];
    kernels_get()->rms_norm(y, x, w, 5, 0.25f);
    for (int i = 0; i < 5; i++) EXPECT_NEAR(y[i], (double)(x[i] * w[i]) / sqrt(55.0 / 5 + 0.25), 1e-6);
}

TEST(rope_rotates_pairs_by_their_angles) {
    const float cs[2] = {0.6f, 0.8f}, sn[2] = {0.8f, -0.6f};
    float split[5] = {1, 2, 3, 4, 9}, interleaved[5] = {1, 3, 2, 4, 9};
    kernels_get()->rope(split, cs, sn, 4, 0);
    kernels_get()->rope(interleaved, cs, sn, 4, 1);
    const double want[4] = {0.6 - 2.4, 1.6 + 2.4, 0.8 + 1.8, -1.2 + 3.2}; /* pairs (1, 3) and (2, 4) */
    EXPECT_NEAR(split[0], want[0], 1e-6);
    EXPECT_NEAR(split[2], want[1] - 1.4, 1e-6); /* 0.8 * 1 + 0.6 * 3 */
    EXPECT_NEAR(split[1], 0.8 * 2 + 0.6 * 4, 1e-6);
    EXPECT_NEAR(split[3], -0.6 * 2 + 0.8 * 4, 1e-6);
    EXPECT(split[4] == 9 && interleaved[4] == 9);
    EXPECT(interleaved[0] == split[0] && interleaved[1] == split[2] && interleaved[2] == split[1] &&
           interleaved[3] == split[3]);
}

TEST(scores_and_values_are_matrix_products) {
    const float q[2][3] = {{1, 2, 3}, {-1, 0.5f, 2}}, rows[2][3] = {{4, 5, 6}, {7, -8, 9}};
    float s[2][2], out[2][3];
    kernels_get()->attn_scores(s[0], 2, q[0], 3, 2, rows[0], 3, 2, 3);
    EXPECT(s[0][0] == 32 && s[0][1] == 18 && s[1][0] == 10.5f && s[1][1] == 7);
    kernels_get()->attn_values(out[0], 3, s[0], 2, 2, rows[0], 3, 2, 3);
    EXPECT(out[0][0] == 254 && out[0][1] == 16 && out[0][2] == 354);
    EXPECT(out[1][0] == 91 && out[1][1] == -3.5f && out[1][2] == 126);
}

TEST(rows_of_the_cache_convert_from_every_f16_exactly_without_infinity_and_NaN) {
    enum { ALL = 1 << 16 };
    uint16_t *h = malloc(ALL * sizeof *h);
    float *f = malloc(ALL * sizeof *f);
    for (int i = 0; i < ALL; i++) h[i] = (uint16_t)i;
    kernels_get()->f32_from_f16_row(f, h, ALL - 1);
    for (int i = 0; i < ALL - 1; i++) {
        bool finite = (i & 0x7c00) != 0x7c00;
        float want = finite ? f32_from_f16((uint16_t)i) : ldexpf(1 + (float)(i & 0x3ff) / 1024, 16);
        if (!finite && i & 0x8000) want = -want;
        EXPECT(memcmp(&f[i], &want, sizeof want) == 0);
    }
    free(h);
    free(f);
}

TEST(rows_of_the_cache_round_to_f16_as_one_number_does) {
    enum { COUNT = 4 << 16 };
    uint64_t seed = 3;
    float *f = malloc(COUNT * sizeof *f);
    uint16_t *h = malloc(COUNT * sizeof *h);
    for (uint32_t i = 0; i < COUNT; i++) {
        /* Half-way to the next f16, a little below and above; then anything. */
        uint32_t bits =
            i % 4 == 3 ? test_random(&seed) : f32_bits(f32_from_f16((uint16_t)(i / 4))) + 0xfff + i % 4;
        f[i] = f32_from_bits(bits);
    }
    kernels_get()->f16_from_f32_row(h, f, COUNT - 3);
    for (int i = 0; i < COUNT - 3; i++) EXPECT_EQ(h[i], f16_from_f32(f[i]));
    free(f);
    free(h);
}
