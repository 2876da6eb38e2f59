#include "tokenizer/nfc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/unicode_table.h"

enum {
    FIRST_COMBINING = 0x300, /* everything below is composed and starts a character */
    RAW_BYTE = 0x110000,     /* plus a byte that is no valid UTF-8 */
    HANGUL = 0xac00,
    LEADS = 0x1100,
    VOWELS = 0x1161,
    TAILS = 0x11a7,
    N_LEADS = 19,
    N_VOWELS = 21,
    N_TAILS = 28,
    MAX_PARTS = 4,  /* longest canonical decomposition */
    N_SLOTS = 2048, /* of the compositions' hash table: 964 entries */
};

struct decomposition {
    uint32_t cp, first, second; /* second 0: a singleton */
};

struct combining_run {
    uint32_t first, count;
    uint8_t ccc;
};

/* A code point in the making. */
struct mark {
    uint32_t cp;
    uint8_t ccc; /* canonical combining class; 0: starts a character */
};

struct nfc {
    struct mem *mem;
    struct decomposition decompositions[N_DECOMPOSITIONS]; /* by cp */
    struct combining_run runs[N_COMBINING_RUNS];
    uint16_t slots[N_SLOTS]; /* index + 1 of a decomposition that composes, hashed by its parts */
    struct mark *marks;      /* [room]; in the end the composed text's bytes */
    size_t n_marks, room;
};

static uint32_t take_varint(const uint8_t **p) {
    uint32_t v = 0;
    int shift = 0;
    while (**p & 0x80) {
        v |= (uint32_t)(*(*p)++ & 0x7f) << shift;
        shift += 7;
    }
    return v | (uint32_t)*(*p)++ << shift;
}

static uint32_t take_zigzag(const uint8_t **p) {
    uint32_t v = take_varint(p);
    return v & 1 ? ~(v >> 1) : v >> 1;
}

static size_t slot_of(uint32_t first, uint32_t second) {
    return (first * 0x9e3779b1u ^ second * 0x85ebca6bu) >> 21;
}

static void unpack(struct nfc *f) {
    const uint8_t *p = combining_stream;
    uint32_t at = 0, a = 0, b = 0;
    for (int i = 0; i < N_COMBINING_RUNS; i++) {
        struct combining_run *r = &f->runs[i];
        r->first = at + take_varint(&p);
        r->count = take_varint(&p);
        r->ccc = *p++;
        at = r->first + r->count;
    }
    p = decomposition_stream;
    at = 0;
    for (int i = 0; i < N_DECOMPOSITIONS; i++) {
        uint32_t head = take_varint(&p);
        at += head >> 1;
        a += take_zigzag(&p);
        b += take_zigzag(&p);
        f->decompositions[i] = (struct decomposition){at, a, b};
        if (!(head & 1)) continue;
        size_t slot = slot_of(a, b);
        while (f->slots[slot]) slot = (slot + 1) % N_SLOTS;
        f->slots[slot] = (uint16_t)(i + 1);
    }
}

struct nfc *nfc_new(struct mem *mem) {
    struct nfc *f = mem_alloc(mem, MEM_TOKENIZER, sizeof *f);
    if (!f) return NULL;
    f->mem = mem;
    unpack(f);
    return f;
}

void nfc_free(struct nfc *f) {
    if (!f) return;
    mem_free(f->mem, MEM_TOKENIZER, f->marks, f->room * sizeof *f->marks);
    mem_free(f->mem, MEM_TOKENIZER, f, sizeof *f);
}

static uint8_t ccc_of(const struct nfc *f, uint32_t cp) {
    if (cp < FIRST_COMBINING) return 0;
    size_t lo = 0, hi = N_COMBINING_RUNS;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (f->runs[mid].first <= cp) lo = mid;
        else hi = mid;
    }
    return cp - f->runs[lo].first < f->runs[lo].count ? f->runs[lo].ccc : 0;
}

static const struct decomposition *decomposition_of(const struct nfc *f, uint32_t cp) {
    size_t lo = 0, hi = N_DECOMPOSITIONS;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (f->decompositions[mid].cp <= cp) lo = mid;
        else hi = mid;
    }
    return f->decompositions[lo].cp == cp ? &f->decompositions[lo] : NULL;
}

/* Writes the full decomposition of cp into out, at most MAX_PARTS; returns how many. Only the first part
 * decomposes again. */
static int decompose(const struct nfc *f, uint32_t cp, uint32_t out[MAX_PARTS]) {
    if (cp - HANGUL < N_LEADS * N_VOWELS * N_TAILS) {
        uint32_t i = cp - HANGUL, tail = i % N_TAILS;
        out[0] = LEADS + i / (N_VOWELS * N_TAILS);
        out[1] = VOWELS + i / N_TAILS % N_VOWELS;
        out[2] = TAILS + tail;
        return tail ? 3 : 2;
    }
    uint32_t reversed[MAX_PARTS];
    int n = 0;
    const struct decomposition *d;
    while ((d = decomposition_of(f, cp)) && n < MAX_PARTS - 1) {
        if (d->second) reversed[n++] = d->second;
        cp = d->first;
    }
    out[0] = cp;
    for (int i = 0; i < n; i++) out[1 + i] = reversed[n - 1 - i];
    return n + 1;
}

/* The character that first and second compose to; 0 when they do not. */
static uint32_t compose(const struct nfc *f, uint32_t first, uint32_t second) {
    if (first - LEADS < N_LEADS && second - VOWELS < N_VOWELS)
        return HANGUL + ((first - LEADS) * N_VOWELS + (second - VOWELS)) * N_TAILS;
    if (first - HANGUL < N_LEADS * N_VOWELS * N_TAILS && (first - HANGUL) % N_TAILS == 0 &&
        second - TAILS - 1 < N_TAILS - 1)
        return first + (second - TAILS);
    for (size_t slot = slot_of(first, second); f->slots[slot]; slot = (slot + 1) % N_SLOTS) {
        const struct decomposition *d = &f->decompositions[f->slots[slot] - 1];
        if (d->first == first && d->second == second) return d->cp;
    }
    return 0;
}

/* Sorts a run of combining marks by class, equal ones in their order. marks: [n] */
static hl_status sort_marks(struct nfc *f, struct mark *marks, size_t n) {
    size_t i = 1;
    while (i < n && marks[i - 1].ccc <= marks[i].ccc) i++;
    if (i >= n) return HL_OK;
    struct mark *sorted = mem_alloc(f->mem, MEM_SCRATCH, n * sizeof *sorted);
    CHECK(sorted, HL_EMEMORY, "tokenizer: no memory to normalize %zu combining marks", n);
    size_t starts[257] = {0};
    for (i = 0; i < n; i++) starts[marks[i].ccc + 1]++;
    for (i = 0; i < 256; i++) starts[i + 1] += starts[i];
    for (i = 0; i < n; i++) sorted[starts[marks[i].ccc]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *marks);
    mem_free(f->mem, MEM_SCRATCH, sorted, n * sizeof *sorted);
    return HL_OK;
}

/* f->marks becomes the canonical decomposition of s: [n], in canonical order. */
static hl_status decompose_text(struct nfc *f, const uint8_t *s, size_t n) {
    size_t run = 0; /* first of the combining marks that are not in order yet */
    f->n_marks = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp, parts[MAX_PARTS] = {RAW_BYTE + s[i]};
        int length = utf8_decode(s + i, n - i, &cp), count = length ? decompose(f, cp, parts) : 1;
        i += length ? (size_t)length : 1;
        for (int k = 0; k < count; k++) {
            struct mark m = {parts[k], ccc_of(f, parts[k])};
            if (m.ccc == 0) {
                TRY(sort_marks(f, f->marks + run, f->n_marks - run));
                run = f->n_marks + 1;
            }
            f->marks[f->n_marks++] = m;
        }
    }
    return run < f->n_marks ? sort_marks(f, f->marks + run, f->n_marks - run) : HL_OK;
}

/* Composes f->marks in place: a mark joins the last starter unless one of its class or above stands
 * between. */
static void compose_marks(struct nfc *f) {
    size_t out = 0, starter = SIZE_MAX;
    int last = -1; /* class of the last mark behind the starter, -1: none */
    for (size_t i = 0; i < f->n_marks; i++) {
        struct mark m = f->marks[i];
        uint32_t cp = starter != SIZE_MAX && last < m.ccc ? compose(f, f->marks[starter].cp, m.cp) : 0;
        if (cp) {
            f->marks[starter].cp = cp;
            continue;
        }
        if (m.ccc == 0) {
            starter = out;
            last = -1;
        } else {
            last = m.ccc;
        }
        f->marks[out++] = m;
    }
    f->n_marks = out;
}

static bool is_plain(const uint8_t *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] >= 0xcc) return false; /* the lead byte of U+0300 */
    return true;
}

static hl_status reserve(struct nfc *f, size_t n) {
    if (n <= f->room) return HL_OK;
    mem_free(f->mem, MEM_TOKENIZER, f->marks, f->room * sizeof *f->marks);
    f->room = 0;
    f->marks = mem_alloc(f->mem, MEM_TOKENIZER, mem_size(n, sizeof *f->marks));
    CHECK(f->marks, HL_EMEMORY, "tokenizer: no memory to normalize %zu bytes", n / 2);
    f->room = n;
    return HL_OK;
}

hl_status nfc_compose(struct nfc *f, const uint8_t *s, size_t n, const uint8_t **out, size_t *n_out) {
    *out = s;
    *n_out = n;
    if (is_plain(s, n)) return HL_OK;
    TRY(reserve(f, mem_size(n, 2))); /* at most 3 parts for a character of 2 bytes */
    TRY(decompose_text(f, s, n));
    compose_marks(f);
    uint8_t *text =
        (uint8_t *)f->marks; /* a mark is 8 bytes and gives at most 4: writing stays behind reading */
    size_t at = 0;
    for (size_t i = 0; i < f->n_marks; i++) {
        uint32_t cp = f->marks[i].cp;
        if (cp >= RAW_BYTE) text[at++] = (uint8_t)(cp - RAW_BYTE);
        else at += (size_t)utf8_encode(cp, text + at);
    }
    *out = text;
    *n_out = at;
    return HL_OK;
}
