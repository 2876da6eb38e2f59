#include "json.h"
#include "test.h"
#include "tokenizer/pretokenizer.h"

/* The pieces that are still to come. */
struct pieces {
    const struct json *next;
    bool same;
};

static hl_status next_piece(void *ctx, const uint8_t *s, size_t n) {
    struct pieces *p = (struct pieces *)ctx;
    p->same = p->same && p->next && p->next->n == n && memcmp(p->next->text, s, n) == 0;
    if (p->next) p->next = p->next->next;
    return HL_OK;
}

static void check_splits(const char *path) {
    struct json_doc doc = json_load(path);
    REQUIRE(doc.root);
    for (const struct json *list = json_get(doc.root, "pieces")->child; list; list = list->next) {
        const struct pretokenizer *pre = pretokenizer_find((struct str){list->key, strlen(list->key)});
        const struct json *text = json_get(doc.root, "texts")->child, *want = list->child;
        REQUIRE(pre);
        for (; text && want; text = text->next, want = want->next) {
            struct pieces p = {want->child, true};
            pretokenize(pre, (const uint8_t *)text->text, text->n, next_piece, &p);
            if (!p.same || p.next)
                test_fail(__FILE__, __LINE__, "%s: \"%s\" is cut otherwise", list->key, text->text);
        }
        EXPECT(!text && !want);
    }
    json_free(&doc);
}

TEST(texts_are_cut_as_the_published_patterns_cut_them) {
    check_splits("tests/golden/splits.json");
    check_splits("tests/golden/splits_cased.json");
}

TEST(names_that_mean_one_pattern_cut_alike) {
    static const char *const pairs[][2] = {{"falcon3", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"},
                                           {"refact", "smollm"},     {"gigachat", "gpt-2"},
                                           {"smaug-bpe", "dbrx"},    {"llama4", "gpt-4o"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct pretokenizer *a = pretokenizer_find((struct str){pairs[i][0], strlen(pairs[i][0])}),
                                  *b = pretokenizer_find((struct str){pairs[i][1], strlen(pairs[i][1])});
        REQUIRE(a && b);
        EXPECT(a->is_alias && !b->is_alias);
        EXPECT_MEM(a->stages, b->stages, sizeof a->stages);
        EXPECT(a->ignore_merges == b->ignore_merges && a->add_bos == b->add_bos && a->nfc == b->nfc);
    }
}

TEST(the_list_of_names_fits_an_error_message) {
    char names[256];
    pretokenizer_names(names, sizeof names);
    EXPECT(strstr(names, "gpt-2, ") == names && strstr(names, ", deepseek-v3") != NULL);
}

static hl_status count_bytes(void *ctx, const uint8_t *s, size_t n) {
    (void)s;
    *(size_t *)ctx += n;
    return n > 0 ? HL_OK : HL_EARGUMENT;
}

TEST(pieces_of_any_bytes_are_the_whole_text) {
    static const char *const names[] = {"gpt-2",       "smollm", "llama-bpe", "qwen2", "deepseek-llm",
                                        "deepseek-v3", "gpt-4o", "tekken",    "youtu"};
    uint64_t seed = 17;
    for (int round = 0; round < 4500; round++) {
        const char *name = names[round % 9];
        uint8_t *text = malloc(40);
        size_t n = test_random(&seed) % 41, total = 0;
        for (size_t i = 0; i < n; i++) text[i] = (uint8_t)(test_random(&seed) >> (round % 5 ? 25 : 24));
        uint8_t *exact = realloc(text, n ? n : 1); /* so that a read past the end is seen */
        const struct pretokenizer *pre = pretokenizer_find((struct str){name, strlen(name)});
        EXPECT_EQ(pretokenize(pre, exact, n, count_bytes, &total), HL_OK);
        EXPECT_EQ(total, n);
        free(exact);
    }
}
