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

TEST(texts_are_cut_as_the_published_patterns_cut_them) {
    struct json_doc doc = json_load("tests/golden/splits.json");
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

static hl_status count_bytes(void *ctx, const uint8_t *s, size_t n) {
    (void)s;
    *(size_t *)ctx += n;
    return n > 0 ? HL_OK : HL_EARGUMENT;
}

TEST(pieces_of_any_bytes_are_the_whole_text) {
    static const char *const names[] = {"gpt-2", "smollm",       "llama-bpe",
                                        "qwen2", "deepseek-llm", "deepseek-v3"};
    uint64_t seed = 17;
    for (int round = 0; round < 3000; round++) {
        const char *name = names[round % 6];
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
