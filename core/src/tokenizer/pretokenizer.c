/* Each scanner does what the regular expression in its comment does, as Oniguruma would match it from left to
 * right; what no alternative matches is a piece of its own. Patterns: the tokenizer.json files of the models
 * named. */
#include "tokenizer/pretokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/unicode.h"

/* Sets of classes. */
enum {
    L = 1 << UC_LETTER,
    N = 1 << UC_NUMBER,
    P = 1 << UC_PUNCTUATION,
    S = 1 << UC_SYMBOL,
    M = 1 << UC_MARK,
    SPACE = 1 << UC_SPACE,
    OTHER = 1 << UC_OTHER,
    NOT_LN_SPACE = P | S | M | OTHER, /* [^\s\p{L}\p{N}] */
};

struct character {
    uint32_t cp;
    size_t n;     /* bytes; 0 at the end of the text */
    unsigned set; /* its class as a set of one; empty at the end */
};

/* The character at byte i. A byte that is no valid UTF-8 counts as a character of class other. */
static struct character character_at(const uint8_t *s, size_t n, size_t i) {
    struct character c = {0};
    if (i >= n) return c;
    int length = utf8_decode(s + i, n - i, &c.cp);
    if (length == 0) return (struct character){.cp = 0xfffd, .n = 1, .set = OTHER};
    c.n = (size_t)length;
    c.set = 1u << unicode_class_of(c.cp);
    return c;
}

/* End of the run of characters in set that begins at byte i, at most max of them. */
static size_t run_end(const uint8_t *s, size_t n, size_t i, unsigned set, size_t max) {
    struct character c;
    while (max-- > 0 && (c = character_at(s, n, i)).set & set) i += c.n;
    return i;
}

static bool is_newline(uint32_t cp) { return cp == '\r' || cp == '\n'; }

static size_t newlines_end(const uint8_t *s, size_t n, size_t i) {
    while (i < n && is_newline(s[i])) i++;
    return i;
}

/* 's|'t|'re|'ve|'m|'ll|'d; length or 0. */
static size_t contraction(const uint8_t *s, size_t n) {
    if (n < 2 || s[0] != '\'') return 0;
    if (memchr("stmd", s[1], 4)) return 2;
    if (n < 3) return 0;
    return (s[1] == 'l' && s[2] == 'l') || (s[2] == 'e' && (s[1] == 'r' || s[1] == 'v')) ? 3 : 0;
}

/* The same in upper and lower case; the long s (U+017F) folds to s. */
static size_t contraction_any_case(const uint8_t *s, size_t n) {
    if (n >= 3 && s[0] == '\'' && s[1] == 0xc5 && s[2] == 0xbf) return 3;
    uint8_t lower[3] = {0};
    for (size_t i = 0; i < 3 && i < n; i++) lower[i] = s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 0x20 : s[i];
    return contraction(lower, n < 3 ? n : 3);
}

/* \s+(?!\S)|\s+ on a text that begins with white space: leaves the last character to a word that follows. */
static size_t space_piece(const uint8_t *s, size_t n) {
    size_t i = 0, last = 0;
    struct character c;
    while ((c = character_at(s, n, i)).set & SPACE) {
        last = i;
        i += c.n;
    }
    return i == n || last == 0 ? i : last;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ likewise. */
static size_t newline_or_space_piece(const uint8_t *s, size_t n) {
    size_t end = run_end(s, n, 0, SPACE, n);
    while (end > 0 && !is_newline(s[end - 1])) end--;
    return end > 0 ? end : space_piece(s, n);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ (GPT-2) */
static size_t split_gpt2(const uint8_t *s, size_t n) {
    size_t k = contraction(s, n);
    if (k > 0) return k;
    size_t skip = s[0] == ' ';
    unsigned set = character_at(s, n, skip).set;
    if (set & L) return run_end(s, n, skip, L, n);
    if (set & N) return run_end(s, n, skip, N, n);
    if (set & NOT_LN_SPACE) return run_end(s, n, skip, NOT_LN_SPACE, n);
    return space_piece(s, n);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max_digits}
 *     | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ (Llama 3, Qwen 2) */
static size_t split_letters_first(const uint8_t *s, size_t n, size_t max_digits) {
    size_t k = contraction_any_case(s, n);
    if (k > 0) return k;
    struct character first = character_at(s, n, 0);
    size_t prefix = first.set & (L | N) || is_newline(first.cp) ? 0 : first.n;
    if (character_at(s, n, prefix).set & L) return run_end(s, n, prefix, L, n);
    if (first.set & N) return run_end(s, n, 0, N, max_digits);
    size_t skip = first.cp == ' ';
    if (character_at(s, n, skip).set & NOT_LN_SPACE)
        return newlines_end(s, n, run_end(s, n, skip, NOT_LN_SPACE, n));
    return newline_or_space_piece(s, n);
}

static size_t split_llama3(const uint8_t *s, size_t n) { return split_letters_first(s, n, 3); }

static size_t split_qwen2(const uint8_t *s, size_t n) { return split_letters_first(s, n, 1); }

/* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
static bool is_word(struct character c, enum unicode_case other_than) {
    return c.set & (L | M) && unicode_case_of(c.cp) != other_than;
}

/* U*W+ or else U+W*, U and W the sets above: end of the match that begins at byte i, i when there is none. */
static size_t cased_word_end(const uint8_t *s, size_t n, size_t i, bool lower_needed) {
    size_t in_both =
        i; /* behind the last character of the U that is in W too: U gives back as little as it can */
    struct character c;
    for (size_t start = i;; i += c.n) {
        c = character_at(s, n, i);
        if (!is_word(c, CASE_LOWER)) {
            if (is_word(c, CASE_UPPER)) break;
            return lower_needed ? in_both : i > start ? i : start;
        }
        if (is_word(c, CASE_UPPER)) in_both = i + c.n;
    }
    while (is_word(c = character_at(s, n, i), CASE_UPPER)) i += c.n;
    return i;
}

/* [^\r\n\p{L}\p{N}]?U*W+ | [^\r\n\p{L}\p{N}]?U+W*: end of the match, or 0. */
static size_t match_cased_word(const uint8_t *s, size_t n) {
    struct character first = character_at(s, n, 0);
    size_t prefix = first.set & (L | N) || is_newline(first.cp) ? 0 : first.n;
    for (int lower_needed = 1; lower_needed >= 0; lower_needed--) {
        size_t end = cased_word_end(s, n, prefix, lower_needed);
        if (end > prefix) return end;
        end = prefix > 0 ? cased_word_end(s, n, 0, lower_needed) : 0;
        if (end > 0) return end;
    }
    return 0;
}

/* A cased word | \p{N}{1,max_digits} | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t split_cased(const uint8_t *s, size_t n, size_t max_digits, bool contractions) {
    size_t end = match_cased_word(s, n);
    if (end > 0) return contractions ? end + contraction_any_case(s + end, n - end) : end;
    struct character first = character_at(s, n, 0);
    if (first.set & N) return run_end(s, n, 0, N, max_digits);
    size_t skip = first.cp == ' ';
    if (!(character_at(s, n, skip).set & NOT_LN_SPACE)) return newline_or_space_piece(s, n);
    size_t i = run_end(s, n, skip, NOT_LN_SPACE, n);
    while (i < n && (is_newline(s[i]) || s[i] == '/')) i++;
    return i;
}

/* (GPT-4o: o200k) */
static size_t split_gpt4o(const uint8_t *s, size_t n) { return split_cased(s, n, 3, true); }

/* (Mistral's Tekken) */
static size_t split_tekken(const uint8_t *s, size_t n) { return split_cased(s, n, 1, false); }

/* (Youtu-LLM) */
static size_t split_youtu(const uint8_t *s, size_t n) { return split_cased(s, n, 1, true); }

/* \p{N}{1,max}, and what lies between. */
static size_t split_digits(const uint8_t *s, size_t n, size_t max) {
    size_t i = run_end(s, n, 0, N, max);
    return i > 0 ? i : run_end(s, n, 0, (1u << UC_CLASSES) - 1 - N, n);
}

static size_t split_digits1(const uint8_t *s, size_t n) { return split_digits(s, n, 1); }

static size_t split_digits3(const uint8_t *s, size_t n) { return split_digits(s, n, 3); }

/* A test for single characters, for the runs of DeepSeek's patterns. */
typedef bool member_fn(uint32_t cp);

static size_t members_end(const uint8_t *s, size_t n, size_t i, member_fn *member) {
    struct character c;
    while ((c = character_at(s, n, i)).n > 0 && member(c.cp)) i += c.n;
    return i;
}

/* [member]+ where no white space may lead, \s?[member]+ where it may; length or 0. */
static size_t match_members(const uint8_t *s, size_t n, member_fn *member, bool space) {
    struct character first = character_at(s, n, 0);
    size_t skip = space && first.set & SPACE && !member(first.cp) ? first.n : 0;
    size_t end = members_end(s, n, skip, member);
    return end > skip ? end : 0;
}

/* Runs of members, and what lies between. */
static size_t split_members(const uint8_t *s, size_t n, member_fn *member, bool space) {
    size_t i = match_members(s, n, member, space);
    if (i > 0) return i;
    do i += character_at(s, n, i).n;
    while (i < n && match_members(s + i, n - i, member, space) == 0);
    return i;
}

static bool is_v3_cjk(uint32_t cp) {
    return (cp >= 0x4e00 && cp <= 0x9fa5) || (cp >= 0x3040 && cp <= 0x30ff);
}

/* [一-龥぀-ゟ゠-ヿ]+ (DeepSeek-V3) */
static size_t split_v3_cjk(const uint8_t *s, size_t n) { return split_members(s, n, is_v3_cjk, false); }

static bool is_ascii_letter(uint8_t c) { return (uint8_t)((c | 0x20) - 'a') < 26; }

static bool is_ascii_punctuation(uint8_t c) {
    return c > ' ' && c < 0x7f && !is_ascii_letter(c) && (c < '0' || c > '9');
}

/* One match at the start of s, 0 when there is none. */
static size_t match_v3(const uint8_t *s, size_t n) {
    if (n >= 2 && is_ascii_punctuation(s[0]) && is_ascii_letter(s[1])) {
        size_t i = 2;
        while (i < n && is_ascii_letter(s[i])) i++;
        return i;
    }
    struct character first = character_at(s, n, 0);
    size_t prefix = first.set & (L | P | S) || is_newline(first.cp) ? 0 : first.n;
    if (character_at(s, n, prefix).set & (L | M)) return run_end(s, n, prefix, L | M, n);
    if (first.set & M) return first.n;
    size_t skip = first.cp == ' ';
    if (character_at(s, n, skip).set & (P | S)) return newlines_end(s, n, run_end(s, n, skip, P | S, n));
    return first.set & SPACE ? newline_or_space_piece(s, n) : 0;
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 *     | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ (DeepSeek-V3) */
static size_t split_v3(const uint8_t *s, size_t n) {
    size_t i = match_v3(s, n);
    if (i > 0) return i;
    do i += character_at(s, n, i).n;
    while (i < n && match_v3(s + i, n - i) == 0);
    return i;
}

/* [\r\n] (DeepSeek LLM) */
static size_t split_newlines(const uint8_t *s, size_t n) {
    if (is_newline(s[0])) return 1;
    size_t i = 1;
    while (i < n && !is_newline(s[i])) i++;
    return i;
}

/* Letters with case as DeepSeek LLM's pattern lists them: pairs of first and last. */
static const uint32_t cased_letters[][2] = {
    {0x41, 0x5a},       {0x61, 0x7a},       {0xb5, 0xb5},       {0xc0, 0xd6},       {0xd8, 0xf6},
    {0xf8, 0x1ba},      {0x1bc, 0x1bf},     {0x1c4, 0x293},     {0x295, 0x2af},     {0x370, 0x373},
    {0x376, 0x377},     {0x37b, 0x37d},     {0x37f, 0x37f},     {0x386, 0x386},     {0x388, 0x38a},
    {0x38c, 0x38c},     {0x38e, 0x3a1},     {0x3a3, 0x3f5},     {0x3f7, 0x481},     {0x48a, 0x52f},
    {0x531, 0x556},     {0x10a0, 0x10c5},   {0x13a0, 0x13f5},   {0x13f8, 0x13fd},   {0x1c90, 0x1cba},
    {0x1cbd, 0x1cbf},   {0x1d00, 0x1d2b},   {0x1d6b, 0x1d77},   {0x1d79, 0x1d9a},   {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d},   {0x1f20, 0x1f45},   {0x1f48, 0x1f4d},   {0x1f50, 0x1f57},   {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b},   {0x1f5d, 0x1f5d},   {0x1f5f, 0x1f7d},   {0x1f80, 0x1fb4},   {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe},   {0x1fc2, 0x1fc4},   {0x1fc6, 0x1fcc},   {0x1fd0, 0x1fd3},   {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec},   {0x1ff2, 0x1ff4},   {0x1ff6, 0x1ffc},   {0x2102, 0x2102},   {0x2107, 0x2107},
    {0x210a, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211d},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212a, 0x212d},   {0x212f, 0x2134},   {0x2139, 0x2139},   {0x213c, 0x213f},
    {0x2145, 0x2149},   {0x214e, 0x214e},   {0x2183, 0x2184},   {0x2c00, 0x2c7b},   {0x2c7e, 0x2ce4},
    {0x2ceb, 0x2cee},   {0x2cf2, 0x2cf3},   {0xa640, 0xa66d},   {0xa680, 0xa69b},   {0xa722, 0xa76f},
    {0xa771, 0xa787},   {0xa78b, 0xa78e},   {0xab70, 0xabbf},   {0xfb00, 0xfb06},   {0xfb13, 0xfb17},
    {0xff21, 0xff3a},   {0xff41, 0xff5a},   {0x10400, 0x1044f}, {0x104b0, 0x104d3}, {0x104d8, 0x104fb},
    {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};

static bool is_cased_letter(uint32_t cp) {
    size_t lo = 0, hi = sizeof cased_letters / sizeof cased_letters[0];
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (cased_letters[mid][0] <= cp) lo = mid;
        else hi = mid;
    }
    return cp >= cased_letters[lo][0] && cp <= cased_letters[lo][1];
}

static size_t split_cased_letters(const uint8_t *s, size_t n) {
    return split_members(s, n, is_cased_letter, true);
}

/* [!-/:-~！-／：-～‘-‟　-。] */
static bool is_llm_punctuation(uint32_t cp) {
    return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '~') || (cp >= 0xff01 && cp <= 0xff0f) ||
           (cp >= 0xff1a && cp <= 0xff5e) || (cp >= 0x2018 && cp <= 0x201f) || (cp >= 0x3000 && cp <= 0x3002);
}

static size_t split_llm_punctuation(const uint8_t *s, size_t n) {
    return split_members(s, n, is_llm_punctuation, true);
}

/* \s+$ and what lies before. */
static size_t split_trailing_space(const uint8_t *s, size_t n) {
    size_t tail = n; /* where the white space that ends at i began */
    for (size_t i = 0; i < n;) {
        struct character c = character_at(s, n, i);
        if (!(c.set & SPACE)) tail = n;
        else if (tail == n) tail = i;
        i += c.n;
    }
    return tail == 0 ? n : tail;
}

/* [一-龥ࠀ-一가-퟿] */
static bool is_llm_cjk(uint32_t cp) {
    return (cp >= 0x800 && cp <= 0x9fa5) || (cp >= 0xac00 && cp <= 0xd7ff);
}

static size_t split_llm_cjk(const uint8_t *s, size_t n) { return split_members(s, n, is_llm_cjk, false); }

/* Youtu-LLM's sets, of which runs are cut out first: 0 for characters of none.
 * [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+ */
static int youtu_set(uint32_t cp) {
    if ((cp >= 0xac00 && cp <= 0xd7a3) || (cp >= 0x3131 && cp <= 0x318e)) return 1;
    if ((cp >= 0x3001 && cp <= 0x303f) || (cp >= 0xfe30 && cp <= 0xfe4f) || cp == 0xff01 || cp == 0x2026 ||
        cp == 0x201c || cp == 0x201d || cp == 0x2018 || cp == 0x2019 || cp == 0x2014 || cp == 0xff1a ||
        cp == 0xff1b || cp == 0xff0c)
        return 2;
    if (cp >= 0x3105 && cp <= 0x312f) return 3;
    return is_v3_cjk(cp) ? 4 : 0;
}

/* Runs of one of the sets, and what lies between. */
static size_t split_youtu_sets(const uint8_t *s, size_t n) {
    struct character c = character_at(s, n, 0);
    size_t i = c.n;
    for (int set = youtu_set(c.cp); i < n; i += c.n) {
        c = character_at(s, n, i);
        if (youtu_set(c.cp) != set) break;
    }
    return i;
}

#define DEEPSEEK_LLM                                                                                         \
    {split_newlines,       split_cased_letters, split_llm_punctuation,                                       \
     split_trailing_space, split_llm_cjk,       split_digits1}

#define SMOLLM {split_digits1, split_gpt2}
#define SAME_AS_GPT2(NAME) {NAME, .stages = {split_gpt2}, .is_alias = true}
#define SAME_AS_SMOLLM(NAME) {NAME, .stages = SMOLLM, .is_alias = true}
#define LLAMA_BPE .stages = {split_llama3}, .ignore_merges = true, .add_bos = true
#define SAME_AS_LLAMA_BPE(NAME) {NAME, LLAMA_BPE, .is_alias = true}
#define SAME_AS_QWEN2(NAME) {NAME, .stages = {split_qwen2}, .nfc = true, .is_alias = true}

/* Which names go together is llama.cpp's convention, whose converter writes them. */
static const struct pretokenizer pretokenizers[] = {
    {"gpt-2", .stages = {split_gpt2}},
    SAME_AS_GPT2("gpt2"),
    SAME_AS_GPT2("phi-2"),
    SAME_AS_GPT2("gigachat"),
    SAME_AS_GPT2("mellum"),
    SAME_AS_GPT2("a.x-4.0"),
    SAME_AS_GPT2("trillion"),
    SAME_AS_GPT2("granite-docling"),
    {"smollm", .stages = SMOLLM},
    SAME_AS_SMOLLM("refact"),
    SAME_AS_SMOLLM("starcoder"),
    SAME_AS_SMOLLM("minerva-7b"),
    {"llama-bpe", LLAMA_BPE},
    SAME_AS_LLAMA_BPE("llama3"),
    SAME_AS_LLAMA_BPE("llama-v3"),
    SAME_AS_LLAMA_BPE("falcon3"),
    SAME_AS_LLAMA_BPE("falcon-h1"),
    SAME_AS_LLAMA_BPE("pixtral"),
    SAME_AS_LLAMA_BPE("midm-2.0"),
    SAME_AS_LLAMA_BPE("lfm2"),
    {"dbrx", .stages = {split_llama3}},
    {"smaug-bpe", .stages = {split_llama3}, .is_alias = true},
    {"qwen2", .stages = {split_qwen2}, .nfc = true},
    SAME_AS_QWEN2("deepseek-r1-qwen"),
    SAME_AS_QWEN2("megrez"),
    {"gpt-4o", .stages = {split_gpt4o}},
    {"llama4", .stages = {split_gpt4o}, .is_alias = true},
    {"tekken", .stages = {split_tekken}, .ignore_merges = true, .add_bos = true},
    {"youtu", .stages = {split_youtu_sets, split_youtu}, .ignore_merges = true},
    {"deepseek-llm", .stages = DEEPSEEK_LLM},
    {"deepseek-v3", .stages = {split_digits3, split_v3_cjk, split_v3}},
};

enum { N_PRETOKENIZERS = sizeof pretokenizers / sizeof pretokenizers[0] };

void pretokenizer_names(char *out, size_t size) {
    size_t used = 0;
    for (int i = 0; i < N_PRETOKENIZERS && used < size; i++) {
        if (pretokenizers[i].is_alias) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", pretokenizers[i].name);
    }
}

const struct pretokenizer *pretokenizer_find(struct str name) {
    for (int i = 0; i < N_PRETOKENIZERS; i++) {
        const struct pretokenizer *p = &pretokenizers[i];
        if (strlen(p->name) == name.n && memcmp(p->name, name.p, name.n) == 0) return p;
    }
    return NULL;
}

static hl_status cut(split_fn *const *stages, const uint8_t *s, size_t n, word_fn *fn, void *ctx) {
    if (*stages == NULL) return fn(ctx, s, n);
    while (n > 0) {
        size_t k = (*stages)(s, n);
        TRY(cut(stages + 1, s, k, fn, ctx)); /* as deep as there are stages */
        s += k;
        n -= k;
    }
    return HL_OK;
}

hl_status pretokenize(const struct pretokenizer *p, const uint8_t *s, size_t n, word_fn *fn, void *ctx) {
    return cut(p->stages, s, n, fn, ctx);
}
