#include "base/f16.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/utf8.h"
#include "test.h"

/* The value of a finite half by IEEE 754's definition. */
static double half_value(unsigned h) {
    unsigned exponent = h >> 10 & 31, mantissa = h & 1023;
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, (int)exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

TEST(every_half_float_has_the_value_of_its_definition) {
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = f32_from_f16((uint16_t)h);
        if ((h & 0x7fff) < 0x7c00) EXPECT((double)f == half_value(h) && !signbit(f) == !(h & 0x8000));
        else if ((h & 0x7fff) == 0x7c00) EXPECT(isinf(f) && (f > 0) == (h < 0x8000));
        else EXPECT(isnan(f));
    }
}

TEST(every_half_float_survives_the_way_through_f32) {
    for (unsigned h = 0; h < 0x10000; h++) {
        if ((h & 0x7fff) > 0x7c00) EXPECT((f16_from_f32(f32_from_f16((uint16_t)h)) & 0x7fff) > 0x7c00);
        else EXPECT_EQ(f16_from_f32(f32_from_f16((uint16_t)h)), h);
    }
}

TEST(halves_are_rounded_to_nearest_and_ties_to_even) {
    for (unsigned h = 0; h < 0x7bff; h++) {
        float middle = (float)((half_value(h) + half_value(h + 1)) / 2);
        EXPECT_EQ(f16_from_f32(middle), h % 2 == 0 ? h : h + 1);
        EXPECT_EQ(f16_from_f32(nextafterf(middle, 0)), h);
        EXPECT_EQ(f16_from_f32(nextafterf(middle, 1e9f)), h + 1);
        EXPECT_EQ(f16_from_f32(-nextafterf(middle, 0)), h | 0x8000);
    }
    EXPECT_EQ(f16_from_f32(65519.996f), 0x7bff);
    EXPECT_EQ(f16_from_f32(65520.0f), 0x7c00);
    EXPECT_EQ(f16_from_f32(1e30f), 0x7c00);
    EXPECT_EQ(f16_from_f32(1e-30f), 0);
}

static int decode(const char *s, size_t n, uint32_t *cp) {
    uint8_t *exact = malloc(n);
    memcpy(exact, s, n);
    int length = utf8_decode(exact, n, cp);
    free(exact);
    return length;
}

TEST(every_scalar_value_survives_utf8) {
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        uint8_t bytes[4];
        uint32_t back = 0;
        if (cp == 0xd800) cp = 0xe000;
        int n = utf8_encode(cp, bytes);
        if (utf8_decode(bytes, (size_t)n, &back) != n || back != cp) EXPECT_EQ(back, cp);
    }
}

/* Source: RFC 3629, sections 3 and 7. */
TEST(utf8_is_encoded_as_in_the_RFC) {
    uint8_t out[4];
    EXPECT_EQ(utf8_encode(0x2262, out), 3);
    EXPECT_MEM(out, "\xe2\x89\xa2", 3);
    EXPECT_EQ(utf8_encode(0x233b4, out), 4);
    EXPECT_MEM(out, "\xf0\xa3\x8e\xb4", 4);
    EXPECT_EQ(utf8_encode(0x391, out), 2);
    EXPECT_MEM(out, "\xce\x91", 2);
}

TEST(bytes_that_are_no_utf8_character_are_refused) {
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc3(",
        "\xe2(\xa1",
        "\xe2\x82(",
    };
    uint32_t cp;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) EXPECT_EQ(decode(bad[i], strlen(bad[i]), &cp), 0);
    EXPECT_EQ(decode("\xf4\x8f\xbf\xbfz", 5, &cp), 4);
    EXPECT_EQ(cp, 0x10ffff);
    EXPECT_EQ(decode("", 1, &cp), 1);
    EXPECT_EQ(cp, 0);
}

/* Outputs of the authors' code for the state {1, 2}, as the test of the rand_xoshiro crate gives them. */
TEST(random_numbers_are_those_of_xoroshiro128_plus_plus) {
    static const uint64_t outputs[] = {393217u, 669327710093319u, 1732421326133921491u, 11394790081659126983u,
                                       9555452776773192676u};
    struct rng r = {{1, 2}};
    for (int i = 0; i < 5; i++) EXPECT(rng_uniform(&r) == (double)(outputs[i] >> 11) * 0x1p-53);
}

/* Outputs of SplitMix64 for 1234567, as its authors' code gives them. */
TEST(a_seed_becomes_two_outputs_of_splitmix64) {
    struct rng r;
    rng_seed(&r, 1234567);
    EXPECT(r.state[0] == 6457827717110365317u);
    EXPECT(r.state[1] == 3203168211198807973u);
}

TEST(memory_is_counted_by_kind_and_the_peak_is_kept) {
    struct mem m = {0};
    char *a = mem_alloc(&m, MEM_WEIGHTS, 100), *b = mem_alloc(&m, MEM_CACHE, 50);
    EXPECT_EQ(m.used[MEM_WEIGHTS], 100);
    EXPECT_EQ(m.used[MEM_CACHE], 50);
    mem_free(&m, MEM_CACHE, b, 50);
    b = mem_alloc(&m, MEM_SCRATCH, 20);
    EXPECT_EQ(m.used[MEM_CACHE], 0);
    EXPECT_EQ(m.peak, 150);
    mem_free(&m, MEM_SCRATCH, b, 20);
    mem_free(&m, MEM_WEIGHTS, a, 100);
    mem_free(&m, MEM_WEIGHTS, NULL, 7);
    EXPECT_EQ(m.used[MEM_WEIGHTS] + m.used[MEM_SCRATCH], 0);
}

TEST(memory_is_zeroed_aligned_and_kept_when_it_grows) {
    struct mem m = {0};
    uint8_t *p = mem_alloc(&m, MEM_SCRATCH, 70), zeros[4000] = {0};
    EXPECT_EQ((uintptr_t)p % 64, 0);
    EXPECT_MEM(p, zeros, 70);
    memset(p, 7, 70);
    p = mem_grow(&m, MEM_SCRATCH, p, 70, 4000);
    EXPECT_EQ((uintptr_t)p % 64, 0);
    EXPECT(p[0] == 7 && p[69] == 7);
    EXPECT_MEM(p + 70, zeros, 4000 - 70);
    EXPECT_EQ(m.used[MEM_SCRATCH], 4000);
    mem_free(&m, MEM_SCRATCH, p, 4000);
    p = mem_alloc(&m, MEM_SCRATCH, 0);
    EXPECT(p != NULL);
    mem_free(&m, MEM_SCRATCH, p, 0);
}

TEST(sizes_that_cannot_be_had_are_refused_and_counted_nowhere) {
    struct mem m = {0};
    EXPECT(mem_size(SIZE_MAX / 2, 3) == SIZE_MAX);
    EXPECT(mem_size(SIZE_MAX, 0) == 0);
    EXPECT(mem_size(1000, 1000) == 1000000);
    EXPECT(mem_alloc(&m, MEM_WEIGHTS, SIZE_MAX) == NULL);
    EXPECT(mem_alloc(&m, MEM_WEIGHTS, SIZE_MAX - 100) == NULL);
    EXPECT_EQ(m.used[MEM_WEIGHTS] + m.peak, 0);
}

TEST(the_last_failure_is_remembered_in_words) {
    EXPECT_EQ(status_set(HL_EFULL, "%d of %s", 3, "four"), HL_EFULL);
    EXPECT_STR(status_message(), "3 of four");
    EXPECT_EQ(hl_error_code(), HL_EFULL);
}
