#include <stdlib.h>
#include <string.h>

#include "gguf/parser.h"

/* Reads forward through the bytes that have arrived. */
struct cursor {
    const uint8_t *p;
    size_t n, pos;
};

static struct cursor cursor_at(const struct gguf *g) { return (struct cursor){g->head, g->head_n, g->pos}; }

static size_t left(const struct cursor *c) { return c->n - c->pos; }

static hl_status read_u32(struct cursor *c, uint32_t *out) {
    if (left(c) < 4) return NEED_MORE;
    *out = load_u32(c->p + c->pos);
    c->pos += 4;
    return HL_OK;
}

static hl_status read_u64(struct cursor *c, uint64_t *out) {
    if (left(c) < 8) return NEED_MORE;
    *out = load_u64(c->p + c->pos);
    c->pos += 8;
    return HL_OK;
}

/* A GGUF string: u64 length, then that many bytes of UTF-8, not terminated. what: for the message. */
static hl_status read_str(struct cursor *c, const char *what, size_t limit, struct str *s) {
    uint64_t n;
    size_t start = c->pos;
    TRY(read_u64(c, &n));
    CHECK(n <= limit, HL_EFORMAT, "gguf: %s of %llu bytes at offset %zu; at most %zu are possible there",
          what, (unsigned long long)n, start, limit);
    if (n > left(c)) return NEED_MORE;
    *s = (struct str){(const char *)c->p + c->pos, (size_t)n};
    c->pos += (size_t)n;
    return HL_OK;
}

struct gguf_label gguf_label(struct str s) {
    struct gguf_label l;
    size_t room = sizeof l.text - 4, n = s.n < room ? s.n : room;
    for (size_t i = 0; i < n; i++) l.text[i] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?';
    memcpy(l.text + n, s.n > room ? "..." : "", s.n > room ? 4 : 1);
    return l;
}

hl_status grow_array(struct mem *mem, void **items, int n, int *cap, size_t size) {
    if (n < *cap) return HL_OK;
    int more = *cap == 0 ? 64 : *cap + *cap / 2;
    void *grown = mem_grow(mem, MEM_TOKENIZER, *items, size * (size_t)*cap, size * (size_t)more);
    CHECK(grown != NULL, HL_EMEMORY, "gguf: no memory for %d header entries", more);
    *items = grown;
    *cap = more;
    return HL_OK;
}

size_t value_size(uint32_t type) {
    static const uint8_t sizes[] = {
        [HL_META_U8] = 1,  [HL_META_I8] = 1,  [HL_META_U16] = 2, [HL_META_I16] = 2,
        [HL_META_U32] = 4, [HL_META_I32] = 4, [HL_META_F32] = 4, [HL_META_BOOL] = 1,
        [HL_META_U64] = 8, [HL_META_I64] = 8, [HL_META_F64] = 8,
    };
    return type < sizeof sizes ? sizes[type] : 0;
}

const char *value_type_name(uint32_t type) {
    static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

/* ---- the first 24 bytes ---- */

static bool starts(const uint8_t *p, size_t n, const char *magic) {
    size_t m = strlen(magic);
    return n >= m && memcmp(p, magic, m) == 0;
}

static const struct {
    const char *magic, *text;
} look_alikes[] = {
    {"<", "this is an HTML or XML page, not a GGUF file: check the URL"},
    {"{", "this is JSON, not a GGUF file: check the URL (servers answer so when they refuse)"},
    {"vers", "this is a Git LFS pointer, not a GGUF file: fetch the file that it stands for"},
    {"PK\3\4", "this is a ZIP archive (PyTorch files are), not a GGUF file"},
    {"\x1f\x8b", "this is gzip-compressed, not a GGUF file: unpack it first"},
    {"ggml", "this is a GGML file, the format before GGUF, not a GGUF file: convert the model again"},
    {"lmgg", "this is a GGML file, the format before GGUF, not a GGUF file: convert the model again"},
    {"fmgg", "this is a GGMF file, a format before GGUF, not a GGUF file: convert the model again"},
    {"tjgg", "this is a GGJT file, a format before GGUF, not a GGUF file: convert the model again"},
    {"algg", "this is a GGLA adapter of the format before GGUF, not a GGUF file: convert it again"},
    {"FUGG", "this is a big-endian GGUF file; only little-endian ones can be read"},
};

hl_status header_refuse_magic(const uint8_t *p, size_t n) {
    CHECK(n > 0, HL_EFORMAT, "gguf: the file is empty, not a GGUF file");
    const uint8_t *q = p;
    size_t m = n;
    while (m > 0 && strchr(" \t\r\n\xef\xbb\xbf", *q) != NULL && *q != 0) q++, m--;
    for (size_t i = 0; i < sizeof look_alikes / sizeof look_alikes[0]; i++) {
        CHECK(!starts(q, m, look_alikes[i].magic), HL_EFORMAT, "gguf: %s", look_alikes[i].text);
    }
    CHECK(n >= 4, HL_EFORMAT, "gguf: %zu bytes are not a GGUF file", n);
    CHECK(n < 9 || p[8] != '{', HL_EFORMAT,
          "gguf: this looks like a safetensors file, not a GGUF file: convert the model");
    return status_set(
        HL_EFORMAT, "gguf: not a GGUF file: it begins with the bytes %02x %02x %02x %02x instead of \"GGUF\"",
        p[0], p[1], p[2], p[3]);
}

static hl_status check_version(uint32_t version) {
    CHECK((version & 0xffff) != 0, HL_EFORMAT,
          "gguf: version 0x%08x: this is a big-endian GGUF file; only little-endian ones can be read",
          version);
    CHECK(version != 1, HL_EUNSUPPORTED,
          "gguf: version 1 of the format; 2 and 3 are supported: convert the model again");
    CHECK(version == 2 || version == 3, HL_EUNSUPPORTED,
          "gguf: version %u of the format; 2 and 3 are supported", version);
    return HL_OK;
}

static hl_status parse_fixed(struct gguf *g) {
    struct cursor c = cursor_at(g);
    uint32_t magic;
    TRY(read_u32(&c, &magic));
    if (!starts(g->head, g->head_n, "GGUF")) return header_refuse_magic(g->head, g->head_n);
    TRY(read_u32(&c, &g->version));
    TRY(check_version(g->version));
    TRY(read_u64(&c, &g->want_tensors));
    CHECK(g->want_tensors <= MAX_TENSORS, HL_EFORMAT,
          "gguf: the header claims %llu tensors; %llu are the limit", (unsigned long long)g->want_tensors,
          (unsigned long long)MAX_TENSORS);
    TRY(read_u64(&c, &g->want_values));
    CHECK(g->want_values <= MAX_VALUES, HL_EFORMAT,
          "gguf: the header claims %llu metadata entries; %llu are the limit",
          (unsigned long long)g->want_values, (unsigned long long)MAX_VALUES);
    g->pos = c.pos;
    g->stage = STAGE_VALUES;
    return HL_OK;
}

/* ---- metadata ---- */

static hl_status check_type(struct str key, uint32_t type) {
    CHECK(type <= HL_META_F64, HL_EFORMAT, "gguf: metadata '%s' has the unknown value type %u",
          gguf_label(key).text, type);
    return HL_OK;
}

/* Element type and count of an array whose type code has been read. */
static hl_status read_array(struct cursor *c, struct str key, uint32_t *type, uint64_t *n) {
    TRY(read_u32(c, type));
    TRY(check_type(key, *type));
    TRY(read_u64(c, n));
    size_t least = *type == HL_META_STRING ? 8 : *type == HL_META_ARRAY ? 12 : value_size(*type);
    CHECK(*n <= (MAX_HEADER - c->pos) / least, HL_EFORMAT,
          "gguf: metadata '%s' claims an array of %llu elements of type %s", gguf_label(key).text,
          (unsigned long long)*n, value_type_name(*type));
    return HL_OK;
}

static hl_status begin_value(struct gguf *g) {
    struct cursor c = cursor_at(g);
    struct str key;
    uint32_t type;
    uint64_t n = 1;
    TRY(read_str(&c, "a metadata key", MAX_NAME, &key));
    TRY(read_u32(&c, &type));
    TRY(check_type(key, type));
    bool is_array = type == HL_META_ARRAY;
    if (is_array) TRY(read_array(&c, key, &type, &n));
    TRY(grow_array(g->mem, (void **)&g->entries, g->n_entries, &g->cap_entries, sizeof *g->entries));
    g->entries[g->n_entries++] = (struct entry){
        .key = (uint32_t)(key.p - (const char *)g->head),
        .key_n = (uint32_t)key.n,
        .at = (uint32_t)c.pos,
        .mark = (uint32_t)g->n_marks,
        .n = (int32_t)n,
        .type = (uint8_t)type,
        .is_array = is_array,
    };
    g->depth = 1;
    g->level[0].type = type;
    g->level[0].left = n;
    g->pos = c.pos;
    return HL_OK;
}

static struct str key_of(const struct gguf *g, const struct entry *e) {
    return (struct str){(const char *)g->head + e->key, e->key_n};
}

/* Remembers where the string that begins at pos is, if it is one of the array's every MARK_EVERY strings. */
static hl_status mark_string(struct gguf *g) {
    const struct entry *e = &g->entries[g->n_entries - 1];
    uint64_t j = (uint64_t)e->n - g->level[0].left;
    if (g->depth != 1 || !e->is_array || j % MARK_EVERY != 0) return HL_OK;
    TRY(grow_array(g->mem, (void **)&g->marks, g->n_marks, &g->cap_marks, sizeof *g->marks));
    g->marks[g->n_marks++] = (uint32_t)g->pos;
    return HL_OK;
}

/* Walks over one string, one array's head, or as many numbers as have arrived, on the innermost level. */
static hl_status walk_elements(struct gguf *g) {
    struct cursor c = cursor_at(g);
    struct str key = key_of(g, &g->entries[g->n_entries - 1]), s;
    uint32_t type = g->level[g->depth - 1].type;
    uint64_t *remaining = &g->level[g->depth - 1].left;
    if (type == HL_META_STRING) {
        TRY(read_str(&c, "a string", MAX_HEADER - c.pos, &s));
        TRY(mark_string(g));
        --*remaining;
    } else if (type == HL_META_ARRAY) {
        CHECK(g->depth < MAX_DEPTH, HL_EFORMAT, "gguf: metadata '%s' nests arrays more than %d deep",
              gguf_label(key).text, MAX_DEPTH);
        TRY(read_array(&c, key, &g->level[g->depth].type, &g->level[g->depth].left));
        --*remaining;
        g->depth++;
    } else {
        size_t size = value_size(type), n = left(&c) / size;
        if (n == 0) return NEED_MORE;
        if (n > *remaining) n = (size_t)*remaining;
        c.pos += n * size;
        *remaining -= n;
    }
    g->pos = c.pos;
    return HL_OK;
}

static hl_status parse_values(struct gguf *g) {
    for (;;) {
        while (g->depth > 0) {
            if (g->level[g->depth - 1].left == 0) g->depth--;
            else TRY(walk_elements(g));
        }
        if ((uint64_t)g->n_entries == g->want_values) break;
        TRY(begin_value(g));
    }
    g->stage = STAGE_TENSORS;
    return HL_OK;
}

/* ---- tensor list ---- */

static hl_status read_dims(struct cursor *c, struct gguf_tensor *t) {
    uint32_t n_dims;
    TRY(read_u32(c, &n_dims));
    CHECK(n_dims >= 1 && n_dims <= MAX_DIMS, HL_EFORMAT,
          "gguf: tensor '%s' has %u dimensions; 1 to %d are possible", gguf_label(t->name).text, n_dims,
          MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < MAX_DIMS; i++) {
        uint64_t d = 1;
        if (i < t->n_dims) TRY(read_u64(c, &d));
        CHECK(d >= 1 && d <= INT32_MAX, HL_EFORMAT, "gguf: dimension %d of tensor '%s' is %llu", i,
              gguf_label(t->name).text, (unsigned long long)d);
        t->dims[i] = (int32_t)d;
    }
    return HL_OK;
}

static hl_status read_type(struct cursor *c, struct gguf_tensor *t) {
    uint32_t type;
    TRY(read_u32(c, &type));
    t->type = type_info(type);
    CHECK(t->type != NULL, HL_EUNSUPPORTED, "gguf: tensor '%s' has the unknown type %u",
          gguf_label(t->name).text, type);
    CHECK(t->type->n_bytes > 0, HL_EUNSUPPORTED,
          "gguf: tensor '%s' has type %s, which was removed from the format: convert "
          "the model again",
          gguf_label(t->name).text, t->type->name);
    CHECK(t->dims[0] % t->type->n_weights == 0, HL_EFORMAT,
          "gguf: rows of tensor '%s' have %d weights; %s needs a multiple of %d", gguf_label(t->name).text,
          t->dims[0], t->type->name, t->type->n_weights);
    return HL_OK;
}

/* Bytes of the tensor: row bytes times the other dimensions, each product checked. */
static hl_status size_tensor(struct gguf_tensor *t) {
    uint64_t bytes = (uint64_t)(t->dims[0] / t->type->n_weights) * (uint64_t)t->type->n_bytes;
    for (int i = 1; i < MAX_DIMS; i++) {
        CHECK(bytes <= MAX_FILE / (uint64_t)t->dims[i], HL_EFORMAT,
              "gguf: tensor '%s' claims %d x %d x %d x %d weights", gguf_label(t->name).text, t->dims[0],
              t->dims[1], t->dims[2], t->dims[3]);
        bytes *= (uint64_t)t->dims[i];
    }
    t->n_bytes = bytes;
    return HL_OK;
}

static hl_status parse_tensor(struct gguf *g) {
    struct cursor c = cursor_at(g);
    struct gguf_tensor t = {0};
    TRY(read_str(&c, "a tensor name", MAX_NAME, &t.name));
    TRY(read_dims(&c, &t));
    TRY(read_type(&c, &t));
    TRY(size_tensor(&t));
    TRY(read_u64(&c, &t.offset));
    CHECK(t.offset <= MAX_FILE, HL_EFORMAT, "gguf: tensor '%s' is at offset %llu", gguf_label(t.name).text,
          (unsigned long long)t.offset);
    TRY(grow_array(g->mem, (void **)&g->infos, g->n_infos, &g->cap_infos, sizeof *g->infos));
    uint32_t name = (uint32_t)(t.name.p - (const char *)g->head);
    g->infos[g->n_infos++] = (struct info){name, (uint32_t)t.name.n, t};
    g->pos = c.pos;
    return HL_OK;
}

hl_status header_parse(struct gguf *g) {
    if (g->stage == STAGE_FIXED) TRY(parse_fixed(g));
    if (g->stage == STAGE_VALUES) TRY(parse_values(g));
    while ((uint64_t)g->n_infos < g->want_tensors) TRY(parse_tensor(g));
    return HL_OK;
}

/* ---- checks over the whole header ---- */

static int compare_names(const void *a, const void *b) {
    const struct str x = ((const struct named *)a)->name, y = ((const struct named *)b)->name;
    int c = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return c != 0 ? c : (x.n > y.n) - (x.n < y.n);
}

static int compare_offsets(const void *a, const void *b) {
    const struct slice *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->index - y->index;
}

/* The table of n names, sorted; two equal ones are refused. */
static hl_status sort_names(struct named *table, int n, const char *what) {
    qsort(table, (size_t)n, sizeof *table, compare_names);
    for (int i = 1; i < n; i++) {
        CHECK(compare_names(&table[i - 1], &table[i]) != 0, HL_EFORMAT, "gguf: two %s have the name '%s'",
              what, gguf_label(table[i].name).text);
    }
    return HL_OK;
}

static hl_status index_names(struct gguf *g) {
    size_t n_values = (size_t)g->n_entries, n_tensors = (size_t)g->n_infos;
    g->keys = mem_alloc(g->mem, MEM_TOKENIZER, n_values * sizeof *g->keys);
    g->names = mem_alloc(g->mem, MEM_TOKENIZER, n_tensors * sizeof *g->names);
    g->order = mem_alloc(g->mem, MEM_TOKENIZER, n_tensors * sizeof *g->order);
    CHECK(g->keys != NULL && g->names != NULL && g->order != NULL, HL_EMEMORY,
          "gguf: no memory for %zu names", n_values + 2 * n_tensors);
    for (int i = 0; i < g->n_entries; i++) g->keys[i] = (struct named){key_of(g, &g->entries[i]), i};
    for (int i = 0; i < g->n_infos; i++) {
        struct info *info = &g->infos[i];
        info->tensor.name = (struct str){(const char *)g->head + info->name, info->name_n};
        g->names[i] = (struct named){info->tensor.name, i};
        g->order[i] = (struct slice){info->tensor.offset, i};
    }
    TRY(sort_names(g->keys, g->n_entries, "metadata entries"));
    return sort_names(g->names, g->n_infos, "tensors");
}

/* The specification: a u32 multiple of 8; only powers of two make sense of "rounded up to". */
static hl_status read_alignment(struct gguf *g) {
    g->alignment = 32;
    int i = gguf_find(g, "general.alignment", 17);
    if (i < 0) return HL_OK;
    struct gguf_value v = gguf_value(g, i);
    CHECK(!v.is_array && v.type == HL_META_U32, HL_EFORMAT,
          "gguf: general.alignment is of type %s%s; it must be u32", v.is_array ? "array of " : "",
          value_type_name(v.type));
    uint32_t a = load_u32(g->head + g->entries[i].at);
    CHECK(a >= 8 && a <= 1 << 20 && (a & (a - 1)) == 0, HL_EFORMAT,
          "gguf: general.alignment is %u; it must be a power of two from 8 to 1048576", a);
    g->alignment = a;
    return HL_OK;
}

/* Every tensor aligned, none over another. */
static hl_status place_tensors(struct gguf *g) {
    uint64_t end = 0;
    qsort(g->order, (size_t)g->n_infos, sizeof *g->order, compare_offsets);
    for (int i = 0; i < g->n_infos; i++) {
        const struct gguf_tensor *t = &g->infos[g->order[i].index].tensor;
        CHECK(t->offset % g->alignment == 0, HL_EFORMAT,
              "gguf: tensor '%s' is at offset %llu, no multiple of the alignment %u",
              gguf_label(t->name).text, (unsigned long long)t->offset, g->alignment);
        CHECK(t->offset >= end, HL_EFORMAT,
              "gguf: tensor '%s' at offset %llu overlaps '%s', which ends at %llu", gguf_label(t->name).text,
              (unsigned long long)t->offset,
              gguf_label(g->infos[g->order[i > 0 ? i - 1 : 0].index].tensor.name).text,
              (unsigned long long)end);
        end = t->offset + t->n_bytes;
    }
    g->data_start = (g->pos + g->alignment - 1) & ~(uint64_t)(g->alignment - 1);
    g->file_bytes = g->n_infos > 0 ? g->data_start + end : g->pos;
    return HL_OK;
}

hl_status header_index(struct gguf *g) {
    TRY(index_names(g));
    TRY(read_alignment(g));
    return place_tensors(g);
}
