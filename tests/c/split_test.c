#include "model_file.h"
#include "split_file.h"

/* Pushes the files one after the other; returns what finish says, or the first failure. */
static hl_status push_parts(hl_model *m, uint8_t *const *p, const size_t *size, int n, size_t piece) {
    for (int i = 0; i < n; i++) {
        hl_status status = i > 0 ? hl_model_next_part(m, false) : HL_OK;
        for (size_t at = 0; status == HL_OK && at < size[i];) {
            size_t room, k = size[i] - at < piece ? size[i] - at : piece;
            uint8_t *window = hl_model_window(m, &room);
            if (!window) return hl_error_code();
            if (room == 0) break;
            if (k > room) k = room;
            memcpy(window, p[i] + at, k);
            status = hl_model_commit(m, k);
            at += k;
        }
        if (status != HL_OK) return status;
    }
    return hl_model_finish(m);
}

static uint8_t *golden_bytes(const char *name, size_t *n) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/models/%s.gguf", name);
    return test_read_file(path, n);
}

enum { N_TOKENS = 9 };

/* Logits after a few tokens, [n_vocab], to be freed; NULL when the model cannot be used. */
static float *logits_of(hl_model *m, struct hl_info *info) {
    int32_t tokens[N_TOKENS];
    hl_session *s = hl_session_new(m, 32, HL_KV_F32);
    float *copy = NULL;
    if (hl_model_info(m, info) == HL_OK && s) {
        for (int i = 0; i < N_TOKENS; i++) tokens[i] = 3 + 7 * i;
        if (hl_feed(s, tokens, N_TOKENS) == HL_OK) {
            copy = malloc((size_t)info->n_vocab * sizeof *copy);
            memcpy(copy, hl_logits(s), (size_t)info->n_vocab * sizeof *copy);
        }
    }
    hl_session_free(s);
    return copy;
}

/* The model in n parts that begin with the tensors of cuts gives the logits, bit for bit, of the whole one. */
static void expect_same(const char *name, int n, const int *cuts, size_t piece) {
    struct hl_info whole_info, info;
    struct hl_memory whole_use, use;
    size_t size;
    uint8_t *bytes = golden_bytes(name, &size);
    hl_model *whole = load_golden(name, 1, HL_FAST), *m = hl_model_new(1, HL_FAST);
    struct test_parts parts = test_split(bytes, size, n, cuts);
    hl_status status = push_parts(m, parts.p, parts.size, n, piece);
    if (status != HL_OK) test_fail(__FILE__, __LINE__, "%s: %s", name, hl_error());
    float *want = logits_of(whole, &whole_info), *is = logits_of(m, &info);
    if (!is || !want) test_fail(__FILE__, __LINE__, "%s in %d parts: %s", name, n, hl_error());
    else EXPECT_MEM(is, want, (size_t)info.n_vocab * sizeof *is);
    EXPECT_EQ(info.n_parts, n);
    EXPECT_EQ(hl_model_parts(m), n);
    EXPECT_EQ(hl_tensor_count(m), hl_tensor_count(whole));
    EXPECT(info.n_params == whole_info.n_params && info.packed_bytes == whole_info.packed_bytes);
    double total = 0;
    for (int i = 0; i < n; i++) total += (double)parts.size[i];
    EXPECT(info.file_bytes == total);
    for (int i = 0; i < hl_tensor_count(m); i++) {
        int32_t part, next;
        double end = hl_tensor_start(m, i, &part) + hl_tensor_bytes(m, i);
        hl_tensor_start(m, i + 1, &next);
        bool is_last = i + 1 == hl_tensor_count(m) || next != part;
        EXPECT(is_last ? end == (double)parts.size[part] : end < (double)parts.size[part]);
    }
    hl_model_memory(whole, &whole_use);
    hl_model_memory(m, &use);
    EXPECT_EQ(use.weights, whole_use.weights);
    hl_model_free(whole);
    hl_model_free(m);
    test_parts_free(&parts);
    free(bytes), free(want), free(is);
}

TEST(a_split_model_gives_the_bits_of_the_whole_one) {
    expect_same("llama_gqa", 3, (int[]){7, 12}, SIZE_MAX);
    expect_same("llama_gqa.q4_0", 4, (int[]){1, 2, 3}, 1000);
    expect_same("gemma3", 3, (int[]){3, 9}, 777);
    expect_same("deepseek_v2_mla", 3, (int[]){9, 11}, SIZE_MAX);
    expect_same("llama3_rope", 2, (int[]){1}, SIZE_MAX);
}

TEST(a_first_part_without_tensors_is_metadata_for_the_others) {
    expect_same("llama_mqa", 3, (int[]){0, 6}, 4096);
    expect_same("phi3", 2, (int[]){0}, SIZE_MAX);
}

TEST(a_layer_may_be_cut_between_any_two_tensors) {
    for (int cut = 1; cut < 14; cut++) {
        expect_same("deepseek_v2_mla", 2, &cut, SIZE_MAX);
        expect_same("llama_mha", 2, &cut, SIZE_MAX);
    }
}

/* Three parts of llama_gqa. */
static struct test_parts three_parts(void) {
    size_t size;
    uint8_t *bytes = golden_bytes("llama_gqa", &size);
    struct test_parts parts = test_split(bytes, size, 3, (int[]){7, 12});
    free(bytes);
    return parts;
}

/* Files in this order (indices into parts, -1 behind the last) are refused with words. */
static void expect_refused(const struct test_parts *parts, const int *order, hl_status code,
                           const char *words) {
    uint8_t *p[MAX_TEST_PARTS];
    size_t size[MAX_TEST_PARTS];
    int n = 0;
    for (; order[n] >= 0; n++) {
        p[n] = parts->p[order[n]];
        size[n] = parts->size[order[n]];
    }
    hl_model *m = hl_model_new(1, HL_FAST);
    EXPECT_EQ(push_parts(m, p, size, n, SIZE_MAX), code);
    if (!strstr(hl_error(), words)) test_fail(__FILE__, __LINE__, "\"%s\" says not: %s", hl_error(), words);
    EXPECT(hl_session_new(m, 8, HL_KV_F32) == NULL);
    hl_model_free(m);
}

TEST(parts_in_a_wrong_arrangement_are_refused_by_number) {
    struct test_parts parts = three_parts();
    size_t n;
    uint8_t *whole = golden_bytes("llama_gqa", &parts.size[3]), *other = golden_bytes("llama_gqa.f16", &n);
    parts.p[3] = whole;
    struct test_parts two = test_split(other, n, 2, (int[]){7});
    struct test_parts foreign = test_split(other, n, 3, (int[]){6, 12});
    parts.p[4] = two.p[1], parts.size[4] = two.size[1];
    parts.p[5] = foreign.p[1], parts.size[5] = foreign.size[1];
    expect_refused(&parts, (int[]){0, 2, 1, -1}, HL_EFORMAT, "part 2 of 3: model: the file is part 3 of 3");
    expect_refused(&parts, (int[]){0, 0, 1, 2, -1}, HL_EFORMAT,
                   "part 2 of 3: model: the file is part 1 of 3");
    expect_refused(&parts, (int[]){0, 1, 1, -1}, HL_EFORMAT, "part 3 of 3: model: the file is part 2 of 3");
    expect_refused(&parts, (int[]){1, 2, 0, -1}, HL_EFORMAT, "the file is part 2 of 3 of a split model");
    expect_refused(&parts, (int[]){0, 1, -1}, HL_ETRUNCATED, "part 3 is missing");
    expect_refused(&parts, (int[]){0, -1}, HL_ETRUNCATED,
                   "1 of the 3 parts of this split model were given; part 2 is missing");
    expect_refused(&parts, (int[]){0, 1, 2, 2, -1}, HL_EFORMAT, "it has 3 parts, and more files");
    expect_refused(&parts, (int[]){0, 3, 2, -1}, HL_EFORMAT, "no part of a split model");
    expect_refused(&parts, (int[]){3, 1, 2, -1}, HL_EFORMAT, "whole model");
    expect_refused(&parts, (int[]){0, 4, 2, -1}, HL_EFORMAT, "belongs to another model");
    expect_refused(&parts, (int[]){0, 5, 2, -1}, HL_EFORMAT, "in part 1 already");
    test_parts_free(&parts), test_parts_free(&two), test_parts_free(&foreign);
    free(whole), free(other);
}

TEST(a_part_with_other_tensors_than_the_first_one_promises_is_refused) {
    size_t n;
    uint8_t *bytes = golden_bytes("llama_gqa", &n);
    struct test_parts parts = test_split(bytes, n, 2, (int[]){7}),
                      shorter = test_split(bytes, n, 2, (int[]){8});
    free(parts.p[1]);
    parts.p[1] = shorter.p[1], parts.size[1] = shorter.size[1];
    expect_refused(&parts, (int[]){0, 1, -1}, HL_EFORMAT,
                   "hold 19 tensors together; the first says that there are 20");
    free(bytes), free(shorter.p[0]);
    test_parts_free(&parts);
}

TEST(a_part_that_ends_anywhere_before_its_end_is_refused_by_number) {
    struct test_parts parts = three_parts();
    for (size_t left = 0; left < parts.size[1]; left += left < 2000 ? 37 : 1499) {
        hl_model *m = hl_model_new(1, HL_FAST);
        size_t size[3] = {parts.size[0], left, parts.size[2]};
        hl_status status = push_parts(m, parts.p, size, 3, SIZE_MAX);
        EXPECT(status == HL_ETRUNCATED || (left < 4 && status == HL_EFORMAT));
        if (!strstr(hl_error(), "part 2 of 3: gguf:")) test_fail(__FILE__, __LINE__, "%s", hl_error());
        hl_model_free(m);
    }
    test_parts_free(&parts);
}

TEST(headers_of_all_parts_tell_all_tensors_without_weights) {
    struct test_parts parts = three_parts();
    hl_model *m = hl_model_new(1, HL_FAST);
    struct hl_info info;
    for (int i = 0; i < 3; i++) {
        size_t room;
        if (i > 0) EXPECT_EQ(hl_model_next_part(m, true), HL_OK);
        EXPECT_EQ(hl_model_parts(m), i);
        uint8_t *window = hl_model_window(m, &room);
        REQUIRE(window);
        size_t k = parts.size[i] < room ? parts.size[i] : room;
        memcpy(window, parts.p[i], k);
        EXPECT_EQ(hl_model_commit(m, k), HL_OK);
        EXPECT_EQ(hl_model_check(m), HL_OK);
        EXPECT_EQ(hl_model_info(m, &info), HL_OK);
        EXPECT_EQ(hl_model_parts(m), i + 1);
    }
    EXPECT_EQ(hl_tensor_count(m), 20);
    EXPECT(info.packed_bytes > 0);
    EXPECT_EQ(hl_model_finish(m), HL_ETRUNCATED);
    hl_model_free(m);
    test_parts_free(&parts);
}

TEST(a_tensor_that_no_part_has_is_missed_with_the_last_header) {
    size_t n, size;
    uint8_t *bytes = test_read_file("tests/cases/gguf/missing_norm.gguf", &n);
    struct test_parts parts = test_split(bytes, n, 2, (int[]){3});
    hl_model *m = hl_model_new(1, HL_FAST);
    EXPECT_EQ(push_parts(m, parts.p, parts.size, 2, SIZE_MAX), HL_EFORMAT);
    if (!strstr(hl_error(), "is missing")) test_fail(__FILE__, __LINE__, "%s", hl_error());
    EXPECT(hl_model_window(m, &size) == NULL);
    hl_model_free(m);
    test_parts_free(&parts);
    free(bytes);
}
