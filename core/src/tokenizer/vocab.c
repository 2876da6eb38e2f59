#include "tokenizer/vocab.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

enum { BYTE_ALPHABET = 256 + 68 }; /* GPT-2 moves the 68 bytes that do not print to U+0100 and up */

static bool prints(unsigned byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

/* The byte that a character of GPT-2's alphabet stands for; -1 when it is not in the alphabet.
 * Source: bytes_to_unicode in OpenAI's GPT-2 encoder. */
static int byte_of(uint32_t cp) {
    if (cp < 256) return prints(cp) ? (int)cp : -1;
    if (cp >= BYTE_ALPHABET) return -1;
    unsigned nth = cp - 256; /* among the bytes that do not print: 0 .. 32, 127 .. 160, 173 */
    return (int)(nth < 33 ? nth : nth < 67 ? nth - 33 + 127 : 173);
}

/* Decodes a word of GPT-2's alphabet into out (room for s.n bytes); returns the length, or -1 when it is
 * none. */
static int64_t decode_alphabet(struct str s, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        int length = utf8_decode((const uint8_t *)s.p + i, s.n - i, &cp);
        int byte = length ? byte_of(cp) : -1;
        if (byte < 0) return -1;
        out[n++] = (uint8_t)byte;
        i += (size_t)length;
    }
    return (int64_t)n;
}

/* U+2581 is a space. */
static size_t decode_spaces(struct str s, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < s.n;) {
        bool space = s.n - i >= 3 && memcmp(s.p + i, "\xe2\x96\x81", 3) == 0;
        out[n++] = space ? ' ' : (uint8_t)s.p[i];
        i += space ? 3 : 1;
    }
    return n;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The value of "<0x0A>"; -1 when s is not of that form. */
static int byte_token(struct str s) {
    if (s.n != 6 || memcmp(s.p, "<0x", 3) != 0 || s.p[5] != '>') return -1;
    int high = hex_digit(s.p[3]), low = hex_digit(s.p[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Writes the bytes that token text s stands for to out; returns how many: never more than s.n. */
static size_t decode_token(struct str s, enum token_type type, bool byte_level, uint8_t *out) {
    if (type == TOKEN_BYTE && byte_token(s) >= 0) {
        out[0] = (uint8_t)byte_token(s);
        return 1;
    }
    if (byte_level && (type == TOKEN_NORMAL || type == TOKEN_UNUSED)) {
        int64_t n = decode_alphabet(s, out);
        if (n >= 0) return (size_t)n;
    }
    if (!byte_level && (type == TOKEN_NORMAL || type == TOKEN_UNUSED || type == TOKEN_USER_DEFINED))
        return decode_spaces(s, out);
    if (s.n > 0) memcpy(out, s.p, s.n);
    return s.n;
}

static hl_status load_types(struct vocab *v, const struct gguf *g) {
    int at = gguf_find(g, "tokenizer.ggml.token_type", strlen("tokenizer.ggml.token_type"));
    if (at >= 0) {
        struct gguf_value value = gguf_value(g, at);
        CHECK(value.is_array && value.n == v->n, HL_EFORMAT, "tokenizer: %d token types for %d tokens",
              value.n, v->n);
    }
    for (int i = 0; i < v->n; i++) {
        double number = at >= 0 ? gguf_number(g, at, i) : (double)TOKEN_NORMAL;
        CHECK(number >= 0 && number <= 255, HL_EFORMAT, "tokenizer: the type of token %d is no small number",
              i);
        int type = (int)number;
        v->types[i] = (uint8_t)(type >= TOKEN_NORMAL && type <= TOKEN_BYTE ? type : TOKEN_NORMAL);
    }
    return HL_OK;
}

static hl_status load_texts(struct vocab *v, const struct gguf *g, int tokens, bool byte_level) {
    size_t total = 0;
    for (int i = 0; i < v->n; i++) total += gguf_string(g, tokens, i).n;
    CHECK(total < UINT32_MAX, HL_EFORMAT, "tokenizer: the tokens' texts take %zu bytes", total);
    uint8_t *room = mem_alloc(v->mem, MEM_SCRATCH, total);
    CHECK(room, HL_EMEMORY, "tokenizer: no memory for %zu bytes of tokens", total);
    size_t at = 0;
    for (int i = 0; i < v->n; i++) {
        size_t n = decode_token(gguf_string(g, tokens, i), v->types[i], byte_level, room + at);
        v->at[i] = (uint32_t)at;
        at += n;
        if (n > v->max_n) v->max_n = (uint32_t)n;
    }
    v->at[v->n] = (uint32_t)at;
    v->bytes = mem_alloc(v->mem, MEM_TOKENIZER, at);
    if (v->bytes && at > 0) memcpy(v->bytes, room, at);
    mem_free(v->mem, MEM_SCRATCH, room, total);
    CHECK(v->bytes, HL_EMEMORY, "tokenizer: no memory for %zu bytes of tokens", at);
    return HL_OK;
}

/* FNV-1a with a last mix, since slots are taken from the low bits. */
static uint32_t hash_of(const uint8_t *s, size_t n) {
    uint32_t h = 0x811c9dc5u;
    for (size_t i = 0; i < n; i++) h = (h ^ s[i]) * 0x01000193u;
    return h ^ h >> 15;
}

static bool token_is(const struct vocab *v, int32_t id, const uint8_t *s, size_t n) {
    return v->at[id + 1] - v->at[id] == n && memcmp(v->bytes + v->at[id], s, n) == 0;
}

int32_t vocab_find(const struct vocab *v, const uint8_t *s, size_t n) {
    if (n == 0 || n > v->max_n) return -1;
    for (size_t slot = hash_of(s, n) & (v->n_slots - 1); v->slots[slot];
         slot = (slot + 1) & (v->n_slots - 1)) {
        int32_t id = (int32_t)(v->slots[slot] - 1);
        if (token_is(v, id, s, n)) return id;
    }
    return -1;
}

int32_t vocab_find_encoded(const struct vocab *v, struct str word) {
    uint8_t room[256], *s = word.n <= sizeof room ? room : mem_alloc(v->mem, MEM_SCRATCH, word.n);
    if (!s) return -1;
    int64_t n = decode_alphabet(word, s);
    int32_t id = n >= 0 ? vocab_find(v, s, (size_t)n) : -1;
    if (s != room) mem_free(v->mem, MEM_SCRATCH, s, word.n);
    return id;
}

/* The first of equal tokens stays. */
static void insert(struct vocab *v, int32_t id) {
    size_t n;
    const uint8_t *s = (const uint8_t *)vocab_text(v, id, &n);
    if (n == 0) return;
    size_t slot = hash_of(s, n) & (v->n_slots - 1);
    for (; v->slots[slot]; slot = (slot + 1) & (v->n_slots - 1))
        if (token_is(v, (int32_t)(v->slots[slot] - 1), s, n)) return;
    v->slots[slot] = (uint32_t)id + 1;
}

static hl_status build_hash(struct vocab *v) {
    v->n_slots = 16;
    while (v->n_slots < (size_t)v->n * 2) v->n_slots *= 2;
    v->slots = mem_alloc(v->mem, MEM_TOKENIZER, mem_size(v->n_slots, sizeof *v->slots));
    CHECK(v->slots, HL_EMEMORY, "tokenizer: no memory for the table of %d tokens", v->n);
    for (int i = 0; i < v->n; i++)
        if (v->types[i] == TOKEN_NORMAL || v->types[i] == TOKEN_UNUSED) insert(v, i);
    for (int i = 0; i < v->n; i++)
        if (v->types[i] == TOKEN_USER_DEFINED) insert(v, i);
    return HL_OK;
}

static void find_bytes(struct vocab *v, bool byte_level) {
    for (int b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        v->byte_ids[b] = byte_level ? vocab_find(v, &byte, 1) : -1;
    }
    for (int i = v->n - 1; i >= 0; i--)
        if (v->types[i] == TOKEN_BYTE && v->at[i + 1] - v->at[i] == 1)
            v->byte_ids[(uint8_t)v->bytes[v->at[i]]] = i;
}

static bool is_marker(enum token_type type) {
    return type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
}

/* A new node below parent (0: the root); -1 when there is no memory. */
static int32_t add_node(struct vocab *v, int32_t parent, uint8_t byte) {
    if (v->n_markers == v->markers_room) {
        int room = v->markers_room * 2;
        size_t size = sizeof *v->markers, old = (size_t)v->markers_room * size;
        void *grown =
            room > 0 ? mem_grow(v->mem, MEM_TOKENIZER, v->markers, old, mem_size((size_t)room, size)) : NULL;
        if (!grown) return -1;
        v->markers = grown;
        v->markers_room = room;
    }
    int32_t node = v->n_markers++;
    int32_t *link = parent ? &v->markers[parent].child : &v->first[byte];
    v->markers[node] = (struct marker_node){.sibling = parent ? *link : 0, .id = -1, .byte = byte};
    *link = node;
    return node;
}

static int32_t child_of(const struct vocab *v, int32_t parent, uint8_t byte) {
    if (!parent) return v->first[byte];
    int32_t node = v->markers[parent].child;
    while (node && v->markers[node].byte != byte) node = v->markers[node].sibling;
    return node;
}

static hl_status add_marker(struct vocab *v, int32_t id) {
    size_t n;
    const uint8_t *s = (const uint8_t *)vocab_text(v, id, &n);
    int32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t child = child_of(v, node, s[i]);
        node = child ? child : add_node(v, node, s[i]);
        CHECK(node >= 0, HL_EMEMORY, "tokenizer: no memory for the markers");
    }
    if (node && v->markers[node].id < 0) v->markers[node].id = id;
    return HL_OK;
}

static hl_status build_markers(struct vocab *v) {
    v->markers_room = 256;
    v->n_markers = 1;
    v->markers = mem_alloc(v->mem, MEM_TOKENIZER, (size_t)v->markers_room * sizeof *v->markers);
    CHECK(v->markers, HL_EMEMORY, "tokenizer: no memory for the markers");
    for (int i = 0; i < v->n; i++)
        if (is_marker(v->types[i])) TRY(add_marker(v, i));
    return HL_OK;
}

/* Steps to the child for what s: [n] begins with. A written U+2581 is a space, as in all text of such
 * vocabularies. */
static int32_t step(const struct vocab *v, int32_t node, const uint8_t *s, size_t n, size_t *length) {
    if (v->has_spaces && n >= 3 && memcmp(s, "\xe2\x96\x81", 3) == 0) {
        int32_t child = child_of(v, node, ' ');
        *length = 3;
        if (child) return child;
    }
    *length = 1;
    return child_of(v, node, s[0]);
}

int32_t vocab_match_marker(const struct vocab *v, const uint8_t *s, size_t n, bool special, size_t *length) {
    int32_t node = 0, best = -1;
    for (size_t i = 0, k; i < n && (node = step(v, node, s + i, n - i, &k));) {
        i += k;
        int32_t id = v->markers[node].id;
        if (id < 0 || (!special && v->types[id] != TOKEN_USER_DEFINED)) continue;
        best = id;
        *length = i;
    }
    return best;
}

hl_status vocab_load(struct vocab *v, struct mem *mem, const struct gguf *g, bool byte_level) {
    v->mem = mem;
    v->has_spaces = !byte_level;
    int tokens = gguf_find(g, "tokenizer.ggml.tokens", strlen("tokenizer.ggml.tokens"));
    CHECK(tokens >= 0, HL_EFORMAT, "tokenizer: tokenizer.ggml.tokens is missing");
    struct gguf_value value = gguf_value(g, tokens);
    CHECK(value.is_array && value.type == HL_META_STRING && value.n > 0, HL_EFORMAT,
          "tokenizer: tokenizer.ggml.tokens is no list of texts");
    v->n = value.n;
    v->types = mem_alloc(mem, MEM_TOKENIZER, (size_t)v->n);
    v->at = mem_alloc(mem, MEM_TOKENIZER, mem_size((size_t)v->n + 1, sizeof *v->at));
    CHECK(v->types && v->at, HL_EMEMORY, "tokenizer: no memory for %d tokens", v->n);
    TRY(load_types(v, g));
    TRY(load_texts(v, g, tokens, byte_level));
    TRY(build_hash(v));
    find_bytes(v, byte_level);
    return build_markers(v);
}

void vocab_free(struct vocab *v) {
    if (!v->mem) return;
    if (v->bytes) mem_free(v->mem, MEM_TOKENIZER, v->bytes, v->at[v->n]);
    mem_free(v->mem, MEM_TOKENIZER, v->types, (size_t)v->n);
    mem_free(v->mem, MEM_TOKENIZER, v->at, ((size_t)v->n + 1) * sizeof *v->at);
    mem_free(v->mem, MEM_TOKENIZER, v->slots, v->n_slots * sizeof *v->slots);
    mem_free(v->mem, MEM_TOKENIZER, v->markers, (size_t)v->markers_room * sizeof *v->markers);
}
