#include "json.h"
#include "test.h"
#include "tokenizer/stream.h"
#include "tokenizer_file.h"

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t n = 0;
    for (; hex[0]; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0};
        out[n++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return n;
}

static void expect_piece(const char *id, const uint8_t *got, size_t n, const struct json *want) {
    if (n != want->n || memcmp(got, want->text, n) != 0)
        test_fail(__FILE__, __LINE__, "%s: \"%.*s\" comes out, not \"%s\"", id, (int)n, (const char *)got,
                  want->text);
}

TEST(pieces_of_characters_come_out_whole_or_replaced) {
    struct json_doc doc = json_load("tests/cases/streaming_cases.json");
    int n_cases = 0;
    REQUIRE(doc.root);
    for (const struct json *c = json_get(doc.root, "utf8")->child; c; c = c->next, n_cases++) {
        const char *id = json_text(json_get(c, "id"));
        struct utf8_stream u = {0};
        uint8_t in[64], out[UTF8_STREAM_ROOM(64)], last[3];
        const struct json *want = json_get(c, "emitted")->child;
        for (const struct json *p = json_get(c, "pieces_hex")->child; p; p = p->next, want = want->next) {
            size_t n = from_hex(json_text(p), in);
            expect_piece(id, out, utf8_stream_push(&u, in, n, out), want);
        }
        expect_piece(id, last, utf8_stream_flush(&u, last), json_get(c, "flush"));
    }
    EXPECT_EQ(n_cases, 16);
    json_free(&doc);
}

/* Any cutting gives the same text, and never more than there is room for. */
TEST(bytes_cut_anywhere_give_the_same_text) {
    uint64_t seed = 11;
    for (int round = 0; round < 2000; round++) {
        static const uint8_t likely[] = {0xf0, 0x9f, 0xa4, 0x97, 0xe0, 0xed, 0xc3,
                                         0xf4, 0x8f, 0xbf, 0x80, 'a',  0xc0};
        uint8_t bytes[24], whole[UTF8_STREAM_ROOM(24)], cut[UTF8_STREAM_ROOM(24)];
        size_t n = test_random(&seed) % 25, n_whole, n_cut = 0;
        struct utf8_stream u = {0};
        for (size_t i = 0; i < n; i++) bytes[i] = likely[test_random(&seed) % sizeof likely];
        n_whole = utf8_stream_push(&u, bytes, n, whole);
        n_whole += utf8_stream_flush(&u, whole + n_whole);
        for (size_t i = 0, k; i < n; i += k) {
            k = 1 + test_random(&seed) % 3;
            if (k > n - i) k = n - i;
            n_cut += utf8_stream_push(&u, bytes + i, k, cut + n_cut);
        }
        n_cut += utf8_stream_flush(&u, cut + n_cut);
        EXPECT_EQ(n_cut, n_whole);
        EXPECT_MEM(cut, whole, n_whole);
    }
}

static size_t decode(struct detokenizer *d, const int32_t *ids, int n_ids, char *out) {
    size_t at = 0, n;
    for (int i = 0; i <= n_ids; i++) {
        const char *p = i < n_ids ? detokenizer_push(d, ids[i], &n) : detokenizer_flush(d, &n);
        memcpy(out + at, p, n);
        at += n;
    }
    out[at] = 0;
    return at;
}

static struct tokenizer *open_spm(struct mem *mem) {
    return tokenizer_open("tests/golden/models/llama_mha.gguf", mem);
}

/* In this vocabulary 285 is a space, 304 l, 286 e, 243 the byte f0, 2 </s>. */
TEST(the_space_that_begins_a_text_is_left_out_once) {
    struct mem mem = {0};
    struct tokenizer *t = open_spm(&mem);
    char out[256];
    REQUIRE(t);
    struct detokenizer *d = detokenizer_new(t, 0);
    int32_t words[] = {285, 304, 285, 286};
    decode(d, words, 4, out);
    EXPECT_STR(out, "l e");
    decode(d, words, 4, out); /* as new after a flush */
    EXPECT_STR(out, "l e");
    detokenizer_free(d);
    d = detokenizer_new(t, HL_CONTINUE);
    decode(d, words, 4, out);
    EXPECT_STR(out, " l e");
    detokenizer_free(d);
    tokenizer_free(t);
    EXPECT(mem_is_empty(&mem));
}

TEST(control_tokens_are_shown_only_on_request) {
    struct mem mem = {0};
    struct tokenizer *t = open_spm(&mem);
    char out[256];
    int32_t words[] = {1, 285, 304, 2, 285, 286};
    REQUIRE(t);
    struct detokenizer *d = detokenizer_new(t, 0), *special = detokenizer_new(t, HL_SPECIAL);
    decode(d, words, 6, out);
    EXPECT_STR(out, "l e");
    decode(special, words, 6, out);
    EXPECT_STR(out, "<s> l</s> e");
    detokenizer_free(d);
    detokenizer_free(special);
    tokenizer_free(t);
}

TEST(byte_tokens_are_held_until_their_character_is_whole) {
    struct mem mem = {0};
    struct tokenizer *t = open_spm(&mem);
    int32_t rocket[] = {243, 162, 157, 131}; /* f0 9f 9a 80 */
    size_t n;
    REQUIRE(t);
    struct detokenizer *d = detokenizer_new(t, 0);
    for (int i = 0; i < 3; i++) {
        detokenizer_push(d, rocket[i], &n);
        EXPECT_EQ(n, 0);
    }
    EXPECT_MEM(detokenizer_push(d, rocket[3], &n), "\xf0\x9f\x9a\x80", 4);
    EXPECT_EQ(n, 4);
    EXPECT(detokenizer_push(d, 352, &n) == NULL && n == 0);
    detokenizer_push(d, rocket[0], &n);
    EXPECT_MEM(detokenizer_flush(d, &n), "\xef\xbf\xbd", 3);
    EXPECT_EQ(n, 3);
    detokenizer_free(d);
    tokenizer_free(t);
}
