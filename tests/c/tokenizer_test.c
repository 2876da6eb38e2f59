#include "gguf_builder.h"
#include "json.h"
#include "sha256.h"
#include "test.h"
#include "tokenizer_file.h"

enum { MAX_IDS = 200000 };

static int32_t ids[MAX_IDS];

/* ---- published vocabularies: ids from Hugging Face tokenizers and sentencepiece, decoded back exactly */

static void expect_ids(struct tokenizer *t, const char *id, const struct json *text, const struct json *want,
                       int flags) {
    static int32_t expected[MAX_IDS];
    int n_want = (int)json_ints(want, expected, MAX_IDS);
    int n = tokenizer_encode(t, text->text, text->n, flags, ids, MAX_IDS);
    bool same = n == n_want && memcmp(ids, expected, (size_t)n * sizeof *ids) == 0;
    if (!same)
        test_fail(__FILE__, __LINE__, "%s: other ids for \"%s\" (%d, not %d)", id, text->text, n, n_want);
}

static void expect_text(struct tokenizer *t, const char *id, const struct json *list,
                        const struct json *want) {
    static char out[1 << 20];
    int n_ids = (int)json_ints(list, ids, MAX_IDS);
    struct detokenizer *d = detokenizer_new(t, HL_SPECIAL);
    size_t at = 0, n;
    REQUIRE(d);
    for (int i = 0; i <= n_ids; i++) {
        const char *piece = i < n_ids ? detokenizer_push(d, ids[i], &n) : detokenizer_flush(d, &n);
        if (!piece || at + n > sizeof out) break;
        memcpy(out + at, piece, n);
        at += n;
    }
    detokenizer_free(d);
    if (at != want->n || memcmp(out, want->text, at) != 0)
        test_fail(__FILE__, __LINE__, "%s: decodes to \"%.*s\", not \"%s\"", id, (int)at, out, want->text);
}

/* The text is text_unit, text_repeat times; the digest is that of the ids joined by commas. */
static void expect_long(struct tokenizer *t, const char *id, const struct json *c) {
    const struct json *unit = json_get(c, "text_unit");
    int repeat = (int)json_number(json_get(c, "text_repeat"), 0), n = 0;
    char *text = malloc(unit->n * (size_t)repeat), *joined = malloc(MAX_IDS * 8), digest[65];
    for (int i = 0; i < repeat; i++) memcpy(text + (size_t)i * unit->n, unit->text, unit->n);
    int n_ids = tokenizer_encode(t, text, unit->n * (size_t)repeat, 0, ids, MAX_IDS);
    if (n_ids != (int)json_number(json_get(c, "n_ids"), -1))
        test_fail(__FILE__, __LINE__, "%s: %d ids", id, n_ids);
    for (int i = 0; i < n_ids && n < MAX_IDS * 8 - 16; i++)
        n += snprintf(joined + n, 16, i ? ",%d" : "%d", (int)ids[i]);
    sha256_hex((const uint8_t *)joined, (size_t)n, digest);
    if (strcmp(digest, json_text(json_get(c, "ids_sha256"))) != 0)
        test_fail(__FILE__, __LINE__, "%s: other ids", id);
    free(text);
    free(joined);
}

static void check_case(struct tokenizer *t, const struct json *c) {
    const char *id = json_text(json_get(c, "id"));
    const struct json *text = json_get(c, "text"), *list = json_get(c, "ids"),
                      *decoded = json_get(c, "decoded");
    const struct json *plain = json_get(c, "ids_special_as_text");
    if (!text) {
        expect_long(t, id, c);
        return;
    }
    expect_ids(t, id, text, list, HL_SPECIAL);
    expect_ids(t, id, text, plain ? plain : list, 0);
    expect_text(t, id, list, decoded ? decoded : text);
    if (plain) expect_text(t, id, plain, text);
}

static void check_vocabulary(const char *name, const char *file) {
    char cases[128];
    struct mem mem = {0};
    struct tokenizer *t = tokenizer_open(file, &mem);
    if (!t) {
        char why[256];
        snprintf(why, sizeof why, "no %s: make setup, models/make-vocab.py %s", file, name);
        test_skip(why);
        return;
    }
    snprintf(cases, sizeof cases, "tests/cases/tokenizer_cases_%s.json", name);
    struct json_doc doc = json_load(cases);
    EXPECT(doc.root && doc.root->n > 100);
    for (const struct json *c = doc.root ? doc.root->child : NULL; c; c = c->next) check_case(t, c);
    json_free(&doc);
    tokenizer_free(t);
    EXPECT(mem_is_empty(&mem));
}

TEST(the_vocabulary_of_smollm2_gives_the_reference_ids) {
    check_vocabulary("smollm2", "models/cache/SmolLM2-135M-Instruct.Q4_1.gguf");
}
TEST(the_vocabulary_of_gpt_2_gives_the_reference_ids) {
    check_vocabulary("gpt2", "models/cache/vocab-gpt2.gguf");
}
TEST(the_vocabulary_of_llama_3_gives_the_reference_ids) {
    check_vocabulary("llama3", "models/cache/vocab-llama3.gguf");
}
TEST(the_vocabulary_of_qwen_2_5_gives_the_reference_ids) {
    check_vocabulary("qwen2.5", "models/cache/vocab-qwen2.5.gguf");
}
TEST(the_vocabulary_of_qwen_3_gives_the_reference_ids) {
    check_vocabulary("qwen3", "models/cache/vocab-qwen3.gguf");
}
TEST(the_vocabulary_of_deepseek_v2_gives_the_reference_ids) {
    check_vocabulary("deepseek_v2", "models/cache/vocab-deepseek_v2.gguf");
}
TEST(the_vocabulary_of_deepseek_v3_gives_the_reference_ids) {
    check_vocabulary("deepseek_v3", "models/cache/vocab-deepseek_v3.gguf");
}
TEST(the_vocabulary_of_gemma_2_gives_the_reference_ids) {
    check_vocabulary("gemma2", "models/cache/vocab-gemma2.gguf");
}
TEST(the_vocabulary_of_gemma_3_gives_the_reference_ids) {
    check_vocabulary("gemma3", "models/cache/vocab-gemma3.gguf");
}
TEST(the_vocabulary_of_mistral_v1_gives_the_reference_ids) {
    check_vocabulary("mistral_v1", "models/cache/vocab-mistral_v1.gguf");
}
TEST(the_vocabulary_of_llama_2_gives_the_reference_ids) {
    check_vocabulary("llama2", "models/cache/vocab-llama2.gguf");
}

/* ---- small vocabularies of the fixtures */

static struct tokenizer *open_golden(const char *name, struct mem *mem) {
    char path[256];
    snprintf(path, sizeof path, "tests/golden/models/%s.gguf", name);
    return tokenizer_open(path, mem);
}

TEST(fixture_vocabularies_give_the_reference_ids) {
    struct json_doc doc = json_load("tests/golden/tokenizers.golden.json");
    int n_checked = 0;
    REQUIRE(doc.root);
    for (const struct json *v = json_get(doc.root, "tokenizers")->child; v; v = v->next) {
        char path[256];
        struct mem mem = {0};
        snprintf(path, sizeof path, "tests/golden/models/%s", json_text(json_get(v, "gguf")));
        struct tokenizer *t = tokenizer_open(path, &mem);
        if (!t) continue; /* the models of an architecture are here once it is built in */
        for (const struct json *c = json_get(v, "texts")->child; c; c = c->next) {
            expect_ids(t, v->key, json_get(c, "text"), json_get(c, "ids"), 0);
            expect_text(t, v->key, json_get(c, "ids"), json_get(c, "text"));
        }
        tokenizer_free(t);
        n_checked++;
    }
    EXPECT(n_checked >= 3); /* SentencePiece, llama-bpe, gpt-2 */
    json_free(&doc);
}

TEST(ids_are_counted_even_where_there_is_no_room_for_them) {
    struct mem mem = {0};
    struct tokenizer *t = open_golden("llama_gqa", &mem);
    int32_t few[3] = {-7, -7, -7};
    REQUIRE(t);
    int n = tokenizer_encode(t, "Hello world", 11, 0, NULL, 0);
    EXPECT_EQ(n, 9);
    EXPECT_EQ(tokenizer_encode(t, "Hello world", 11, 0, few, 2), n);
    EXPECT_EQ(few[1], 68);
    EXPECT_EQ(few[2], -7);
    EXPECT_EQ(tokenizer_encode(t, "", 0, 0, few, 3), 0);
    tokenizer_free(t);
}

TEST(bos_is_added_on_request_where_the_tokenizer_adds_it) {
    struct mem mem = {0};
    struct tokenizer *spm = open_golden("llama_mha", &mem), *llama3 = open_golden("llama_gqa", &mem);
    struct tokenizer *gpt2 = open_golden("llama_mqa", &mem);
    REQUIRE(spm && llama3 && gpt2);
    EXPECT_EQ(tokenizer_encode(spm, "", 0, HL_BOS, ids, MAX_IDS), 1);
    EXPECT_EQ(ids[0], 1);
    EXPECT_EQ(tokenizer_encode(llama3, "x", 1, HL_BOS, ids, MAX_IDS), 2);
    EXPECT_EQ(ids[0], 318);
    EXPECT_EQ(ids[1], 87);
    EXPECT_EQ(tokenizer_encode(gpt2, "x", 1, HL_BOS, ids, MAX_IDS), 1);
    EXPECT(tokenizer_adds_bos(spm) && tokenizer_adds_bos(llama3) && !tokenizer_adds_bos(gpt2));
    tokenizer_free(spm);
    tokenizer_free(llama3);
    tokenizer_free(gpt2);
    EXPECT(mem_is_empty(&mem));
}

TEST(control_markers_are_parsed_only_on_request) {
    struct mem mem = {0};
    struct tokenizer *t = open_golden("llama_mha", &mem);
    size_t n;
    REQUIRE(t);
    EXPECT_EQ(tokenizer_encode(t, "</s>", 4, HL_SPECIAL, ids, MAX_IDS), 1);
    EXPECT_EQ(ids[0], 2);
    EXPECT(tokenizer_encode(t, "</s>", 4, 0, ids, MAX_IDS) > 1);
    EXPECT(tokenizer_is_end(t, 2) && !tokenizer_is_end(t, 1));
    EXPECT_EQ(tokenizer_type(t, 2), TOKEN_CONTROL);
    EXPECT_EQ(tokenizer_type(t, 13), TOKEN_BYTE);
    EXPECT(memcmp(tokenizer_text(t, 2, &n), "</s>", 4) == 0 && n == 4);
    EXPECT(tokenizer_text(t, 13, &n)[0] == '\n' && n == 1);
    EXPECT(tokenizer_text(t, 352, &n) == NULL && tokenizer_text(t, -1, &n) == NULL);
    EXPECT_CONTAINS(status_message(), "-1 is not in [0, 352)");
    tokenizer_free(t);
}

TEST(any_bytes_come_back_from_byte_level_ids) {
    static const char *const names[] = {"llama_gqa", "llama_mqa"};
    uint64_t seed = 5;
    for (int k = 0; k < 2; k++) {
        struct mem mem = {0};
        struct tokenizer *t = open_golden(names[k], &mem);
        REQUIRE(t);
        for (int round = 0; round < 300; round++) {
            uint8_t bytes[64];
            size_t n = test_random(&seed) % sizeof bytes, at = 0, length;
            for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(test_random(&seed) >> (round & 1 ? 24 : 25));
            int n_ids = tokenizer_encode(t, (const char *)bytes, n, 0, ids, MAX_IDS);
            for (int i = 0; i < n_ids; i++, at += length) {
                const char *piece = tokenizer_text(t, ids[i], &length);
                if (at + length <= n) EXPECT_MEM(piece, bytes + at, length);
            }
            EXPECT_EQ(at, n);
        }
        tokenizer_free(t);
    }
}

/* ---- time on long input, in steps */

static size_t steps_for(struct tokenizer *t, const char *unit, size_t n) {
    size_t length = strlen(unit);
    char *text = malloc(n * length);
    for (size_t i = 0; i < n; i++) memcpy(text + i * length, unit, length);
    int n_ids = tokenizer_encode(t, text, n * length, HL_SPECIAL, NULL, 0);
    EXPECT(n_ids > 0);
    free(text);
    return tokenizer_steps(t);
}

TEST(steps_grow_near_linearly_on_long_input_without_words) {
    static const char *const names[] = {"llama_mha", "llama_gqa", "llama_mqa"};
    static const char *const units[] = {"a", " ",       "\n", "1", "ab", "th", " t", "\xf0\x9f\xa4\x97",
                                        "<", "\xcc\x81"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        struct mem mem = {0};
        struct tokenizer *t = open_golden(names[k], &mem);
        REQUIRE(t);
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            size_t once = steps_for(t, units[i], 50000), twice = steps_for(t, units[i], 100000);
            EXPECT(twice <= 2 * once + once / 4);
        }
        EXPECT(steps_for(t, "a", 1000000) <= 60 * (size_t)1000000);
        EXPECT(steps_for(t, " ", 1000000) <= 60 * (size_t)1000000);
        tokenizer_free(t);
        EXPECT(mem_is_empty(&mem));
    }
}

/* ---- vocabularies made here */

struct piece {
    const char *text;
    float score;
    uint32_t type;
};

static void add_pieces(struct builder *b, const char *model, const struct piece *pieces, uint64_t n,
                       uint64_t n_scores) {
    add_str(b, "tokenizer.ggml.model", model);
    add_array(b, "tokenizer.ggml.tokens", HL_META_STRING, n);
    for (uint64_t i = 0; i < n; i++) put_str(&b->values, pieces[i].text);
    add_array(b, "tokenizer.ggml.token_type", HL_META_U32, n);
    for (uint64_t i = 0; i < n; i++) put_u32(&b->values, pieces[i].type);
    add_array(b, "tokenizer.ggml.scores", HL_META_F32, n_scores);
    for (uint64_t i = 0; i < n_scores; i++) put(&b->values, &pieces[i].score, 4);
}

static hl_status build(struct tokenizer **t, struct mem *mem, struct builder *b, const char *arch) {
    struct byte_source source;
    add_str(b, "general.architecture", arch);
    uint8_t *bytes = gguf_built(b, &source.n);
    source.p = bytes;
    hl_status status = tokenizer_from(t, mem, read_from_bytes, &source);
    free(bytes);
    return status;
}

/* want: the ids that are expected, ended by -1. */
static void expect_encoded(struct tokenizer *t, const char *text, int flags, const int32_t *want) {
    int n = tokenizer_encode(t, text, strlen(text), flags, ids, MAX_IDS), i = 0;
    while (i < n && want[i] >= 0 && ids[i] == want[i]) i++;
    if (i != n || want[i] >= 0) test_fail(__FILE__, __LINE__, "\"%s\": id %d of %d differs", text, i, n);
}

static void expect_pieces(struct tokenizer *t, const char *text, const int32_t *want) {
    expect_encoded(t, text, 0, want);
}

/* Expected ids: sentencepiece 0.2.3 with the same pieces, without dummy prefix. */
static const struct piece small_spm[] = {
    {"<unk>", 0, TOKEN_UNKNOWN},    {"<s>", 0, TOKEN_CONTROL},
    {"</s>", 0, TOKEN_CONTROL},     {"a", -10, TOKEN_NORMAL},
    {"b", -11, TOKEN_NORMAL},       {"c", -12, TOKEN_NORMAL},
    {"ab", -1, TOKEN_UNUSED},       {"abc", -2, TOKEN_NORMAL},
    {"abab", -3, TOKEN_UNUSED},     {"\xe2\x96\x81", -13, TOKEN_NORMAL},
    {"<s", -5, TOKEN_NORMAL},       {"<", -14, TOKEN_NORMAL},
    {"s", -15, TOKEN_NORMAL},       {">", -16, TOKEN_NORMAL},
    {"ca", -4, TOKEN_USER_DEFINED}, {"cab", -9, TOKEN_USER_DEFINED},
};

static struct tokenizer *new_small_spm(struct mem *mem, bool prefix) {
    struct builder b = {0};
    struct tokenizer *t;
    uint8_t space = prefix;
    add_pieces(&b, "llama", small_spm, sizeof small_spm / sizeof small_spm[0],
               sizeof small_spm / sizeof small_spm[0]);
    add_value(&b, "tokenizer.ggml.add_space_prefix", HL_META_BOOL, &space, 1);
    if (build(&t, mem, &b, "llama") != HL_OK) test_fail(__FILE__, __LINE__, "%s", status_message());
    return t;
}

TEST(unused_pieces_come_apart_again_as_in_sentencepiece) {
    struct mem mem = {0};
    struct tokenizer *t = new_small_spm(&mem, false);
    REQUIRE(t);
    expect_pieces(t, "ab", (const int32_t[]){3, 4, -1});
    expect_pieces(t, "abc", (const int32_t[]){7, -1});
    expect_pieces(t, "ababc", (const int32_t[]){3, 4, 7, -1});
    expect_pieces(t, "abab", (const int32_t[]){3, 4, 3, 4, -1});
    expect_pieces(t, "ababab", (const int32_t[]){3, 4, 3, 4, 3, 4, -1});
    tokenizer_free(t);
    EXPECT(mem_is_empty(&mem));
}

TEST(user_defined_pieces_match_longest_first_and_control_pieces_never_as_text) {
    struct mem mem = {0};
    struct tokenizer *t = new_small_spm(&mem, false);
    REQUIRE(t);
    expect_pieces(t, "cabca", (const int32_t[]){15, 14, -1});
    expect_pieces(t, "cacab", (const int32_t[]){14, 15, -1});
    expect_pieces(t, "<s>", (const int32_t[]){10, 13, -1});
    expect_pieces(t,
                  "a\xe2\x96\x81"
                  "b",
                  (const int32_t[]){3, 9, 4, -1});
    tokenizer_free(t);
}

TEST(pieces_may_hold_spaces_between_letters) {
    static const struct piece pieces[] = {
        {"a", -1, TOKEN_NORMAL},
        {"b", -1, TOKEN_NORMAL},
        {"\xe2\x96\x81", -1, TOKEN_NORMAL},
        {"\xe2\x96\x81\x62", -3, TOKEN_NORMAL},
        {"a\xe2\x96\x81", -2, TOKEN_NORMAL},
        {"a\xe2\x96\x81\x62", -4, TOKEN_NORMAL},
    };
    struct mem mem = {0};
    struct builder b = {0};
    struct tokenizer *t;
    uint8_t off = 0;
    add_pieces(&b, "llama", pieces, 6, 6);
    add_value(&b, "tokenizer.ggml.add_space_prefix", HL_META_BOOL, &off, 1);
    REQUIRE(build(&t, &mem, &b, "llama") == HL_OK);
    expect_pieces(t, "a b", (const int32_t[]){5, -1});
    expect_pieces(t, "b a b b", (const int32_t[]){1, 2, 5, 3, -1});
    tokenizer_free(t);
}

TEST(characters_without_piece_and_byte_tokens_are_unknown) {
    struct mem mem = {0};
    struct tokenizer *t = new_small_spm(&mem, false);
    REQUIRE(t);
    expect_pieces(t, "xa", (const int32_t[]){0, 3, -1});
    expect_pieces(t, "a\xc3\xa9", (const int32_t[]){3, 0, -1});
    tokenizer_free(t);
}

static const struct piece phi3[] = {
    {"<unk>", 0, TOKEN_UNKNOWN},
    {"<s>", 0, TOKEN_CONTROL},
    {"</s>", 0, TOKEN_CONTROL},
    {"<0x0A>", 0, TOKEN_BYTE},
    {"\xe2\x96\x81", -2, TOKEN_NORMAL},
    {"a", -3, TOKEN_NORMAL},
    {"b", -4, TOKEN_NORMAL},
    {"\xe2\x96\x81"
     "a",
     -1, TOKEN_NORMAL},
    {"<|endoftext|>", 0, TOKEN_CONTROL},
    {"<|user|>", 0, TOKEN_CONTROL},
    {"<|end|>", 0, TOKEN_CONTROL},
};

/* Expected ids: tokenizers 0.23.3 with the same pieces and the added tokens of Phi-3's tokenizer_config.json. */
TEST(white_space_behind_phi_3_s_markers_belongs_to_them) {
    static const char turns[] = "<s><|user|>\n a b<|end|>\n<|user|> \t\n\xc2\xa0\xe3\x80\x80"
                                "a";
    struct mem mem = {0};
    struct builder b = {0}, c = {0};
    struct tokenizer *t;
    uint64_t n = sizeof phi3 / sizeof phi3[0];
    add_pieces(&b, "llama", phi3, n, n);
    REQUIRE(build(&t, &mem, &b, "phi3") == HL_OK);
    expect_encoded(t, turns, HL_SPECIAL, (const int32_t[]){1, 9, 7, 4, 6, 10, 9, 7, -1});
    expect_encoded(t, "<s> a<|endoftext|>\na</s>  b", HL_SPECIAL,
                   (const int32_t[]){1, 4, 7, 8, 4, 3, 5, 2, 4, 6, -1});
    expect_encoded(t, "<|end|>\n", HL_SPECIAL, (const int32_t[]){10, -1});
    expect_encoded(t, "<|user|>a a", HL_SPECIAL, (const int32_t[]){9, 7, 7, -1});
    expect_encoded(t, " <|user|>  <|end|>", HL_SPECIAL, (const int32_t[]){4, 4, 9, 10, -1});
    tokenizer_free(t);
    add_pieces(&c, "llama", phi3, n, n);
    REQUIRE(build(&t, &mem, &c, "llama") == HL_OK);
    expect_encoded(t, "<|end|>\n", HL_SPECIAL, (const int32_t[]){10, 4, 3, -1});
    tokenizer_free(t);
    EXPECT(mem_is_empty(&mem));
}

TEST(missing_ids_have_sentencepiece_s_defaults_and_ids_out_of_range_are_none) {
    struct mem mem = {0};
    struct tokenizer *t = new_small_spm(&mem, true);
    struct builder b = {0};
    REQUIRE(t);
    EXPECT_EQ(tokenizer_ids(t).bos, 1);
    EXPECT_EQ(tokenizer_ids(t).eos, 2);
    EXPECT_EQ(tokenizer_ids(t).unk, 0);
    EXPECT_EQ(tokenizer_ids(t).pad, -1);
    tokenizer_free(t);
    add_pieces(&b, "llama", small_spm, 16, 16);
    add_u32(&b, "tokenizer.ggml.bos_token_id", 16);
    add_u32(&b, "tokenizer.ggml.padding_token_id", 0xffffffff);
    REQUIRE(build(&t, &mem, &b, "llama") == HL_OK);
    EXPECT_EQ(tokenizer_ids(t).bos, -1);
    EXPECT_EQ(tokenizer_ids(t).pad, -1);
    EXPECT(!tokenizer_adds_bos(t));
    tokenizer_free(t);
}

static const struct piece letters[] = {
    {"a", 0, TOKEN_NORMAL}, {"b", 0, TOKEN_NORMAL}, {"ab", 0, TOKEN_NORMAL}};

static void expect_refused(struct builder *b, hl_status code, const char *part) {
    struct mem mem = {0};
    struct tokenizer *t;
    EXPECT_EQ(build(&t, &mem, b, "llama"), code);
    EXPECT_CONTAINS(status_message(), part);
    EXPECT(t == NULL);
    EXPECT(mem_is_empty(&mem));
}

TEST(unknown_models_and_pre_tokenizers_are_refused_by_name) {
    struct builder b = {0};
    add_pieces(&b, "t5", letters, 3, 3);
    expect_refused(&b, HL_EUNSUPPORTED, "\"t5\"");
    add_pieces(&b, "gpt2", letters, 3, 3);
    add_str(&b, "tokenizer.ggml.pre", "viking");
    expect_refused(&b, HL_EUNSUPPORTED, "\"viking\"");
    add_pieces(&b, "gpt2", letters, 3, 3);
    expect_refused(&b, HL_EUNSUPPORTED, "tokenizer.ggml.pre");
}

TEST(contradictory_vocabularies_are_refused) {
    struct builder b = {0};
    float nan[3] = {0, NAN, 0};
    add_pieces(&b, "llama", letters, 3, 2);
    expect_refused(&b, HL_EFORMAT, "2 scores for 3 tokens");
    add_pieces(&b, "gpt2", letters, 3, 3);
    add_str(&b, "tokenizer.ggml.pre", "gpt-2");
    expect_refused(&b, HL_EFORMAT, "merges is missing");
    add_str(&b, "tokenizer.ggml.model", "llama");
    expect_refused(&b, HL_EFORMAT, "tokens is missing");
    expect_refused(&b, HL_EFORMAT, "model is missing");
    struct piece broken[3] = {letters[0], letters[1], letters[2]};
    for (int i = 0; i < 3; i++) broken[i].score = nan[i];
    add_pieces(&b, "llama", broken, 3, 3);
    expect_refused(&b, HL_EFORMAT, "score of token 1");
}

static struct tokenizer *new_bpe(struct mem *mem, const char *pre, const struct piece *pieces, uint64_t n,
                                 const char *const *merges, uint64_t n_merges) {
    struct builder b = {0};
    struct tokenizer *t;
    add_pieces(&b, "gpt2", pieces, n, n);
    add_str(&b, "tokenizer.ggml.pre", pre);
    add_array(&b, "tokenizer.ggml.merges", HL_META_STRING, n_merges);
    for (uint64_t i = 0; i < n_merges; i++) put_str(&b.values, merges[i]);
    if (build(&t, mem, &b, "llama") != HL_OK) test_fail(__FILE__, __LINE__, "%s", status_message());
    return t;
}

TEST(merges_that_cannot_apply_are_left_out) {
    static const char *const merges[] = {"", " ", "a", "a ", " b", "x y", "a c", "b a", "a b"};
    struct mem mem = {0};
    struct tokenizer *t = new_bpe(&mem, "gpt-2", letters, 3, merges, 9);
    REQUIRE(t);
    expect_pieces(t, "ab", (const int32_t[]){2, -1});
    expect_pieces(t, "ba", (const int32_t[]){1, 0, -1});
    expect_pieces(t, "axb", (const int32_t[]){0, 1, -1}); /* a byte that has no token is left out */
    tokenizer_free(t);
}

/* U+00E9 in GPT-2's alphabet is C3 A9 as U+00C3 U+00A9. Composition: UAX 15. */
TEST(text_is_composed_where_the_pre_tokenizer_says_so) {
    static const struct piece accents[] = {
        {"e", 0, TOKEN_NORMAL},        {"\xc3\x8c", 0, TOKEN_NORMAL}, {"\xc4\xa3", 0, TOKEN_NORMAL},
        {"\xc3\x83", 0, TOKEN_NORMAL}, {"\xc2\xa9", 0, TOKEN_NORMAL},
    };
    struct mem mem = {0};
    struct tokenizer *qwen2 = new_bpe(&mem, "qwen2", accents, 5, NULL, 0);
    struct tokenizer *gpt2 = new_bpe(&mem, "gpt-2", accents, 5, NULL, 0);
    REQUIRE(qwen2 && gpt2);
    expect_pieces(qwen2, "e\xcc\x81", (const int32_t[]){3, 4, -1});
    expect_pieces(gpt2, "e\xcc\x81", (const int32_t[]){0, 1, 2, -1});
    tokenizer_free(qwen2);
    tokenizer_free(gpt2);
    EXPECT(mem_is_empty(&mem));
}

TEST(a_whole_word_that_is_a_token_is_taken_where_merges_are_ignored) {
    static const char *const merges[] = {"b c"};
    static const struct piece words[] = {{"a", 0, TOKEN_NORMAL},   {"b", 0, TOKEN_NORMAL},
                                         {"c", 0, TOKEN_NORMAL},   {"bc", 0, TOKEN_NORMAL},
                                         {"abc", 0, TOKEN_NORMAL}, {"<end>", 0, TOKEN_CONTROL}};
    struct mem mem = {0};
    struct tokenizer *llama = new_bpe(&mem, "llama-bpe", words, 6, merges, 1);
    struct tokenizer *gpt2 = new_bpe(&mem, "gpt-2", words, 6, merges, 1);
    REQUIRE(llama && gpt2);
    expect_pieces(llama, "abc", (const int32_t[]){4, -1});
    expect_pieces(gpt2, "abc", (const int32_t[]){0, 3, -1});
    tokenizer_free(llama);
    tokenizer_free(gpt2);
}
