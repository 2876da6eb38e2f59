#include "quant/types.h"

#include "base/f16.h"
#include "json.h"
#include "test.h"

/* Golden values: bytes of blocks and what gguf-py 0.19.0 makes of them, equal to ggml's C code. Their
 * JSON has lost the signs of zeros. */

static unsigned char *from_hex(const char *hex, size_t n) {
    unsigned char *bytes = malloc(n / 2);
    for (size_t i = 0; i < n / 2; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return bytes;
}

static void compare_with_golden(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/quants/%s.json", name);
    struct json_doc doc = json_load(path);
    REQUIRE(doc.root);
    const struct json *values = json_get(doc.root, "values"), *hex = json_get(doc.root, "bytes_hex");
    const struct type_info *t = type_info((uint32_t)json_number(json_get(doc.root, "ggml_type"), -1));
    REQUIRE(t && t->to_f32);
    EXPECT_STR(t->name, name);
    EXPECT_EQ(t->n_weights, json_number(json_get(doc.root, "block_size"), 0));
    EXPECT_EQ(t->n_bytes, json_number(json_get(doc.root, "type_size"), 0));
    EXPECT_EQ(hex->n / 2 / (size_t)t->n_bytes * (size_t)t->n_weights, values->n);
    unsigned char *bytes = from_hex(hex->text, hex->n);
    float *want = malloc(values->n * sizeof *want), *got = malloc(values->n * sizeof *got);
    json_floats(values, want, values->n);
    t->to_f32(got, bytes, values->n);
    for (size_t i = 0; i < values->n; i++) {
        if (got[i] != 0 || want[i] != 0) EXPECT_EQ(f32_bits(got[i]), f32_bits(want[i]));
    }
    EXPECT(values->n > 0);
    free(bytes);
    free(want);
    free(got);
    json_free(&doc);
}

TEST(block_readers_give_the_reference_s_bits) {
    static const char *const names[] = {"F16",  "BF16", "Q4_0", "Q4_1", "Q5_0",   "Q5_1",   "Q8_0", "Q2_K",
                                        "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) compare_with_golden(names[i]);
}

TEST(f32_rows_are_copied) {
    const float src[3] = {1.5f, -0.0f, 1e-40f};
    float dst[3];
    type_info(TYPE_F32)->to_f32(dst, src, 3);
    EXPECT_MEM(dst, src, sizeof dst);
}

/* Sizes as gguf-py 0.19.0 gives them. */
TEST(every_type_in_use_is_known_by_name_and_size) {
    struct json_doc doc = json_load("tests/golden/quants/INDEX.json");
    REQUIRE(doc.root);
    const struct json *types = json_get(doc.root, "types");
    for (const struct json *v = types->child; v; v = v->next) {
        const struct type_info *t = type_info((uint32_t)json_number(json_get(v, "ggml_type"), -1));
        REQUIRE(t);
        EXPECT_STR(t->name, json_text(json_get(v, "type")));
        EXPECT_EQ(t->n_weights, json_number(json_get(v, "block_size"), 0));
        EXPECT_EQ(t->n_bytes, json_number(json_get(v, "type_size"), 0));
    }
    EXPECT(types->n >= 25);
    json_free(&doc);
}

TEST(types_that_were_removed_have_a_name_and_no_size) {
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        const struct type_info *t = type_info(removed[i]);
        EXPECT(t && t->name && t->n_bytes == 0 && !t->to_f32);
    }
}

TEST(numbers_that_are_no_type_are_not_found) {
    EXPECT(type_info(42) == NULL);
    EXPECT(type_info(255) == NULL);
    EXPECT(type_info(UINT32_MAX) == NULL);
}
