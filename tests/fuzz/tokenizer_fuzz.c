/* Any bytes as text for the small vocabularies of the fixtures, and for vocabularies that are made of the
 * input itself. The first byte says which and with which flags. */
#include "../c/gguf_builder.h"
#include "../c/tokenizer_file.h"
#include "base/utf8.h"

enum { N_FIXED = 3, MAX_TEXT = 4096 };

static struct mem fixed_mem;
static struct tokenizer *fixed[N_FIXED];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const char *const names[N_FIXED] = {"llama_mha", "llama_gqa", "llama_mqa"};
    (void)argc, (void)argv;
    for (int i = 0; i < N_FIXED; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/models/%s.gguf", names[i]);
        fixed[i] = tokenizer_open(path, &fixed_mem);
        if (!fixed[i]) abort();
    }
    return 0;
}

static void require(bool ok) {
    if (!ok) abort();
}

/* What the ids of a text say again, without markers: the text itself, for SentencePiece behind its space
 * prefix and with spaces for U+2581. */
static size_t expected_text(struct tokenizer *t, const uint8_t *text, size_t n, bool spm, uint8_t *out) {
    size_t at = 0;
    if (tokenizer_has_space_prefix(t) && n > 0) out[at++] = ' ';
    for (size_t i = 0; i < n; i++) {
        bool space = spm && n - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0;
        out[at++] = space ? ' ' : text[i];
        i += space ? 2 : 0;
    }
    return at;
}

static void check_detokenizer(struct tokenizer *t, const int32_t *ids, int n_ids, int flags) {
    struct detokenizer *d = detokenizer_new(t, flags);
    require(d != NULL);
    for (int i = 0; i <= n_ids; i++) {
        size_t n;
        uint32_t cp;
        const char *p = i < n_ids ? detokenizer_push(d, ids[i], &n) : detokenizer_flush(d, &n);
        require(p != NULL);
        for (size_t at = 0; at < n;) {
            int length = utf8_decode((const uint8_t *)p + at, n - at, &cp);
            require(length > 0);
            at += (size_t)length;
        }
    }
    detokenizer_free(d);
}

/* Returns the number of ids. */
static int check_encode(struct tokenizer *t, const uint8_t *text, size_t n, int flags, int32_t *ids) {
    int n_ids = tokenizer_encode(t, (const char *)text, n, flags, ids, MAX_TEXT + 8);
    require(n_ids >= 0 && n_ids <= MAX_TEXT + 8);
    require(tokenizer_encode(t, (const char *)text, n, flags, NULL, 0) == n_ids);
    for (int i = 0; i < n_ids; i++) require(ids[i] >= 0 && ids[i] < tokenizer_n_vocab(t));
    check_detokenizer(t, ids, n_ids, flags);
    return n_ids;
}

static void check_fixed(int which, int flags, const uint8_t *text, size_t n) {
    static int32_t ids[MAX_TEXT + 8];
    static uint8_t want[MAX_TEXT + 8];
    struct tokenizer *t = fixed[which];
    int n_ids = check_encode(t, text, n, flags, ids);
    if (flags & (HL_SPECIAL | HL_BOS)) return;
    size_t n_want = expected_text(t, text, n, which == 0, want), at = 0;
    for (int i = 0; i < n_ids; i++) {
        size_t length;
        const char *piece = tokenizer_text(t, ids[i], &length);
        require(at + length <= n_want && memcmp(piece, want + at, length) == 0);
        at += length;
    }
    require(at == n_want);
}

struct reader {
    const uint8_t *p;
    size_t n;
};

static uint8_t take(struct reader *r) {
    if (r->n == 0) return 0;
    r->n--;
    return *r->p++;
}

/* A short word of a few letters, spaces, U+2581 and bytes, with a terminator. */
static void take_word(struct reader *r, char out[32]) {
    static const char *const parts[] = {"a", "b", " ", "\xe2\x96\x81", "\xc3\xa9", "<0x41>", "\xc4\xa0", "<"};
    int n = take(r) % 5;
    out[0] = 0;
    for (int i = 0; i < n; i++) strcat(out, parts[take(r) % 8]);
}

static void add_vocabulary(struct builder *b, struct reader *r) {
    static const char *const pres[] = {"gpt-2",       "llama-bpe", "qwen2", "smollm", "deepseek-llm",
                                       "deepseek-v3", "gpt-4o",    "youtu", "none"};
    uint8_t head = take(r), n_tokens = take(r) % 32, n_merges = take(r) % 16;
    char word[32];
    bool spm = head & 1;
    add_str(b, "general.architecture", "llama");
    add_str(b, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
    add_str(b, "tokenizer.ggml.pre", pres[head / 2 % 9]);
    add_array(b, "tokenizer.ggml.tokens", HL_META_STRING, n_tokens);
    for (int i = 0; i < n_tokens; i++) {
        take_word(r, word);
        put_str(&b->values, word);
    }
    add_array(b, "tokenizer.ggml.token_type", HL_META_I32, n_tokens);
    for (int i = 0; i < n_tokens; i++) put_u32(&b->values, take(r) % 8);
    add_array(b, "tokenizer.ggml.scores", HL_META_F32, n_tokens);
    for (int i = 0; i < n_tokens; i++) {
        float score = (float)(int8_t)take(r);
        put(&b->values, &score, 4);
    }
    add_array(b, "tokenizer.ggml.merges", HL_META_STRING, n_merges);
    for (int i = 0; i < n_merges; i++) {
        take_word(r, word);
        put_str(&b->values, word);
    }
}

static void check_made(struct reader r, int flags) {
    static int32_t ids[MAX_TEXT + 8];
    struct builder b = {0};
    struct mem mem = {0};
    struct tokenizer *t;
    struct byte_source source;
    add_vocabulary(&b, &r);
    uint8_t *bytes = gguf_built(&b, &source.n);
    source.p = bytes;
    if (tokenizer_from(&t, &mem, read_from_bytes, &source) == HL_OK) {
        check_encode(t, r.p, r.n, flags, ids);
        tokenizer_free(t);
    }
    free(bytes);
    require(mem_is_empty(&mem));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0 || n > MAX_TEXT) return 0;
    int which = data[0] >> 3 & 3, flags = data[0] & 7;
    if (which < N_FIXED) check_fixed(which, flags, data + 1, n - 1);
    else check_made((struct reader){data + 1, n - 1}, flags);
    return 0;
}
