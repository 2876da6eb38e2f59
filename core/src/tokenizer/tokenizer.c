#include "tokenizer/tokenizer.h"

#include <limits.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/encoder.h"
#include "tokenizer/unicode.h"

enum { MAX_ENDS = 16 };

struct tokenizer {
    struct mem *mem;
    struct vocab vocab;
    bool is_bpe; /* else SentencePiece */
    struct bpe bpe;
    struct spm spm;
    struct merger merger;
    struct token_ids ids;
    bool add_bos, add_eos;
    bool strips;            /* markers take the white space that follows with them */
    int32_t ends[MAX_ENDS]; /* [n_ends] tokens that end a turn or a text */
    int n_ends;
};

/* Markers that end a turn or a text where the file does not name them; only control tokens count. */
static const char *const end_markers[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "</s>",
    "<eos>",
    "<｜end▁of▁sentence｜>", /* DeepSeek: fullwidth bars, U+2581 for spaces */
};

/* Of those, the ones that end a turn, in the order of preference for struct token_ids. */
static const char *const turn_markers[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>"};

/* Files do not say that Phi-3's markers take the white space behind them, all but these. Source: the added
 * tokens of its tokenizer_config.json, which transformers' reader of GGUF and llama.cpp have built in too. */
static const char *const plain_markers[] = {"<unk>", "<s>", "<|endoftext|>"};

static struct str str_of(const char *s) { return (struct str){s, strlen(s)}; }

/* The id that key holds; missing when the key is absent or its id is not in the vocabulary. */
static int id_of(const struct gguf *g, const char *key, int n_vocab, int missing) {
    int at = gguf_find(g, key, strlen(key));
    if (at < 0) return missing;
    double id = gguf_number(g, at, 0);
    return id >= 0 && id < n_vocab ? (int)id : -1;
}

/* The control token with this text; -1 when there is none. */
static int find_control(const struct vocab *v, const char *text) {
    size_t n = strlen(text), length = 0;
    int32_t id = vocab_match_marker(v, (const uint8_t *)text, n, true, &length);
    return id >= 0 && length == n && v->types[id] == TOKEN_CONTROL ? id : -1;
}

static void add_end(struct tokenizer *t, int id) {
    if (id >= 0 && t->n_ends < MAX_ENDS && !tokenizer_is_end(t, id)) t->ends[t->n_ends++] = id;
}

/* SentencePiece files leave out the ids of <unk>, <s> and </s> where they are 0, 1 and 2. */
static int default_id(const struct tokenizer *t, int id, enum token_type type) {
    return !t->is_bpe && id < t->vocab.n && t->vocab.types[id] == type ? id : -1;
}

static void load_ids(struct tokenizer *t, const struct gguf *g) {
    int n = t->vocab.n;
    t->ids.bos = id_of(g, "tokenizer.ggml.bos_token_id", n, default_id(t, 1, TOKEN_CONTROL));
    t->ids.eos = id_of(g, "tokenizer.ggml.eos_token_id", n, default_id(t, 2, TOKEN_CONTROL));
    t->ids.unk = id_of(g, "tokenizer.ggml.unknown_token_id", n, default_id(t, 0, TOKEN_UNKNOWN));
    t->ids.pad = id_of(g, "tokenizer.ggml.padding_token_id", n, -1);
    t->ids.eot = id_of(g, "tokenizer.ggml.eot_token_id", n, -1);
    for (size_t i = 0; i < sizeof turn_markers / sizeof turn_markers[0] && t->ids.eot < 0; i++)
        t->ids.eot = find_control(&t->vocab, turn_markers[i]);
    add_end(t, t->ids.eos);
    add_end(t, t->ids.eot);
    add_end(t, id_of(g, "tokenizer.ggml.eom_token_id", n, -1));
    for (size_t i = 0; i < sizeof end_markers / sizeof end_markers[0]; i++)
        add_end(t, find_control(&t->vocab, end_markers[i]));
}

/* The pre-tokenizer that the file names. */
static hl_status find_pretokenizer(const struct gguf *g, const struct pretokenizer **pre) {
    struct str name;
    char names[256];
    pretokenizer_names(names, sizeof names);
    TRY(gguf_get_str(g, "tokenizer.ggml.pre", str_of(""), &name));
    CHECK(
        name.n > 0, HL_EUNSUPPORTED,
        "tokenizer: the file does not name its pre-tokenizer (tokenizer.ggml.pre): convert it anew, or force "
        "one with the option pretokenizer; there are %s",
        names);
    *pre = pretokenizer_find(name);
    CHECK(
        *pre, HL_EUNSUPPORTED,
        "tokenizer: the pre-tokenizer \"%s\" is not built in; the option pretokenizer forces another, if you "
        "know that it cuts alike; there are %s",
        gguf_label(name).text, names);
    return HL_OK;
}

/* Chooses the tokenizer by tokenizer.ggml.model, and for byte-level BPE the pre-tokenizer unless it is forced. */
static hl_status choose(struct tokenizer *t, const struct gguf *g, const struct pretokenizer *forced,
                        const struct pretokenizer **pre) {
    struct str model;
    TRY(gguf_get_str(g, "tokenizer.ggml.model", str_of(""), &model));
    CHECK(model.n > 0, HL_EFORMAT, "tokenizer: tokenizer.ggml.model is missing");
    t->is_bpe = model.n == 4 && memcmp(model.p, "gpt2", 4) == 0;
    *pre = forced;
    bool is_spm = model.n == 5 && memcmp(model.p, "llama", 5) == 0;
    CHECK(!is_spm || !forced, HL_EARGUMENT,
          "tokenizer: the vocabulary is SentencePiece's, which has no pre-tokenizer to force");
    if (is_spm) return HL_OK;
    CHECK(t->is_bpe, HL_EUNSUPPORTED,
          "tokenizer: the model \"%s\" is not built in; \"gpt2\" and \"llama\" are", gguf_label(model).text);
    return forced ? HL_OK : find_pretokenizer(g, pre);
}

static hl_status load(struct tokenizer *t, const struct gguf *g, const struct pretokenizer *forced) {
    const struct pretokenizer *pre;
    struct str arch;
    bool space_prefix;
    TRY(gguf_get_str(g, "general.architecture", str_of(""), &arch));
    TRY(choose(t, g, forced, &pre));
    TRY(vocab_load(&t->vocab, t->mem, g, t->is_bpe));
    load_ids(t, g);
    TRY(gguf_get_bool(g, "tokenizer.ggml.add_bos_token", t->is_bpe ? pre->add_bos : true, &t->add_bos));
    TRY(gguf_get_bool(g, "tokenizer.ggml.add_eos_token", false, &t->add_eos));
    TRY(gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", true, &space_prefix));
    /* Phi-4 is of the same architecture, but its tokenizer is another one: byte-level BPE. */
    t->strips = !t->is_bpe && arch.n == 4 && memcmp(arch.p, "phi3", 4) == 0;
    t->add_bos = t->add_bos && t->ids.bos >= 0;
    t->add_eos = t->add_eos && t->ids.eos >= 0;
    if (t->is_bpe) return bpe_load(&t->bpe, &t->vocab, pre, g);
    return spm_load(&t->spm, &t->vocab, g, space_prefix, t->ids.unk);
}

hl_status tokenizer_new(struct tokenizer **out, struct mem *mem, const struct gguf *g,
                        const struct pretokenizer *forced) {
    *out = NULL;
    struct tokenizer *t = mem_alloc(mem, MEM_TOKENIZER, sizeof *t);
    CHECK(t, HL_EMEMORY, "tokenizer: no memory");
    t->mem = mem;
    t->merger.mem = mem;
    hl_status status = load(t, g, forced);
    if (status != HL_OK) {
        tokenizer_free(t);
        return status;
    }
    *out = t;
    return HL_OK;
}

void tokenizer_free(struct tokenizer *t) {
    if (!t) return;
    bpe_free(&t->bpe);
    spm_free(&t->spm);
    merger_free(&t->merger);
    vocab_free(&t->vocab);
    mem_free(t->mem, MEM_TOKENIZER, t, sizeof *t);
}

int tokenizer_n_vocab(const struct tokenizer *t) { return t->vocab.n; }

struct token_ids tokenizer_ids(const struct tokenizer *t) { return t->ids; }

bool tokenizer_adds_bos(const struct tokenizer *t) { return t->add_bos; }

bool tokenizer_adds_eos(const struct tokenizer *t) { return t->add_eos; }

enum token_type tokenizer_type(const struct tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocab.n ? (enum token_type)t->vocab.types[id] : TOKEN_UNKNOWN;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id) {
    for (int i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}

const char *tokenizer_text(struct tokenizer *t, int32_t id, size_t *n) {
    *n = 0;
    if (id < 0 || id >= t->vocab.n) {
        status_set(HL_EARGUMENT, "tokenizer: token %d is not in [0, %d)", (int)id, t->vocab.n);
        return NULL;
    }
    return vocab_text(&t->vocab, id, n);
}

bool tokenizer_has_space_prefix(const struct tokenizer *t) { return !t->is_bpe && t->spm.space_prefix; }

struct mem *tokenizer_mem(const struct tokenizer *t) { return t->mem; }

size_t tokenizer_steps(const struct tokenizer *t) { return t->merger.steps; }

/* A stretch of text without markers. */
static hl_status encode_stretch(struct tokenizer *t, const uint8_t *s, size_t n, struct id_list *out) {
    if (n == 0) return HL_OK;
    return t->is_bpe ? bpe_encode(&t->bpe, &t->merger, s, n, out)
                     : spm_encode(&t->spm, &t->merger, s, n, out);
}

/* Bytes of white space at the start of s: [n] that belong to the marker before. */
static size_t stripped(const struct tokenizer *t, int32_t marker, const uint8_t *s, size_t n) {
    size_t length, at = 0;
    const char *text = vocab_text(&t->vocab, marker, &length);
    if (!t->strips) return 0;
    for (size_t i = 0; i < sizeof plain_markers / sizeof plain_markers[0]; i++)
        if (strlen(plain_markers[i]) == length && memcmp(plain_markers[i], text, length) == 0) return 0;
    while (at < n) {
        uint32_t cp;
        int bytes = utf8_decode(s + at, n - at, &cp);
        if (bytes == 0 || unicode_class_of(cp) != UC_SPACE) break;
        at += (size_t)bytes;
    }
    return at;
}

static hl_status encode(struct tokenizer *t, const uint8_t *s, size_t n, bool special, struct id_list *out) {
    size_t start = 0, length = 1;
    for (size_t i = 0; i < n; i += length) {
        int32_t id = vocab_match_marker(&t->vocab, s + i, n - i, special, &length);
        if (id < 0) {
            length = 1;
            continue;
        }
        TRY(encode_stretch(t, s + start, i - start, out));
        id_list_add(out, id);
        length += stripped(t, id, s + i + length, n - i - length);
        start = i + length;
    }
    return encode_stretch(t, s + start, n - start, out);
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t n, int flags, int32_t *ids, int capacity) {
    CHECK(n == 0 || text, HL_EARGUMENT, "tokenize: no text");
    CHECK(capacity == 0 || (capacity > 0 && ids), HL_EARGUMENT, "tokenize: no room for ids");
    CHECK(n <= INT_MAX / 8, HL_EARGUMENT, "tokenize: a text of %zu bytes is too long", n);
    struct id_list out = {ids, 0, capacity};
    t->merger.steps = 0;
    if (flags & HL_BOS && t->add_bos) id_list_add(&out, t->ids.bos);
    hl_status status = encode(t, (const uint8_t *)text, n, flags & HL_SPECIAL, &out);
    merger_trim(&t->merger);
    if (status != HL_OK) return status;
    if (flags & HL_BOS && t->add_eos) id_list_add(&out, t->ids.eos);
    return (int)out.n;
}
