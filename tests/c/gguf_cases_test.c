#include "json.h"
#include "model_file.h"
#include "test.h"

/* Words that the refusal of a case must hold, where the case asks for them or where they say what to do. */
static const struct {
    const char *name, *words;
} said[] = {
    {"empty_file", "not a GGUF file"},
    {"three_bytes", "not a GGUF file"},
    {"magic_only", "not a complete GGUF file"},
    {"magic_ggml", "not a GGUF file"},
    {"lfs_pointer", "Git LFS pointer, not a GGUF file"},
    {"version_0x4", "version 4"},
    {"version_0x3000000", "big-endian"},
    {"n_tensors_max", "18446744073709551615 tensors"},
    {"n_tensors_zero", "no tensors"},
    {"duplicate_key", "llama.block_count"},
    {"dup_tensor_name", "output_norm.weight"},
    {"missing_norm", "'output_norm.weight' is missing"},
    {"wrong_shape_q", "blk.0.attn_q.weight"},
    {"tensor_type_0x5", "Q4_3"},
    {"tensor_type_0xff", "255"},
    {"head_count_kv_0", "llama.attention.head_count_kv"},
    {"ctx_missing", "llama.context_length"},
    {"block_count_string", "llama.block_count"},
    {"alignment_0", "general.alignment"},
    {"split_missing_sibling", "split"},
};

static const char *words_of(const char *name) {
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        if (strcmp(said[i].name, name) == 0) return said[i].words;
    }
    return "";
}

/* Loads the file in pieces; what it says of it goes into message. */
static hl_status load_in_pieces(const uint8_t *bytes, size_t n, size_t piece, char message[512]) {
    hl_model *m = hl_model_new(1, HL_FAST);
    hl_status status = push_bytes(m, bytes, n, piece);
    if (status == HL_OK) status = hl_model_check(m);
    snprintf(message, 512, "%s", status == HL_OK ? "" : hl_error());
    hl_model_free(m);
    return status;
}

static void check_case(const char *name, const char *expect) {
    static const size_t pieces[] = {4096, 1, 7, SIZE_MAX};
    char path[128], first[512], message[512];
    size_t n;
    snprintf(path, sizeof path, "tests/cases/gguf/%s.gguf", name);
    uint8_t *bytes = test_read_file(path, &n);
    hl_status status = load_in_pieces(bytes, n, SIZE_MAX, first);
    if (strcmp(expect, "either") != 0 && (status == HL_OK) != (strcmp(expect, "ok") == 0))
        test_fail(__FILE__, __LINE__, "%s: status %d (%s), not %s", name, status, first, expect);
    if (status != HL_OK) EXPECT(first[0] != 0);
    EXPECT_CONTAINS(first, words_of(name));
    for (int i = 0; i < 4; i++) {
        hl_status again = load_in_pieces(bytes, n, pieces[i], message);
        if (again != status || (n > 16 && strcmp(first, message) != 0))
            test_fail(__FILE__, __LINE__, "%s in pieces of %zu: %d (%s), not %d (%s)", name, pieces[i], again,
                      message, status, first);
    }
    free(bytes);
}

TEST(reported_files_load_or_are_refused_in_words_however_they_are_cut) {
    struct json_doc doc = json_load("tests/cases/gguf_cases.json");
    REQUIRE(doc.root);
    EXPECT_EQ(doc.root->n, 63);
    for (const struct json *v = doc.root->child; v; v = v->next)
        check_case(json_text(json_get(v, "name")), json_text(json_get(v, "expect")));
    json_free(&doc);
}
