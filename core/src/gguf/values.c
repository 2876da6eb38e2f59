#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/f16.h"
#include "gguf/parser.h"

int gguf_n_values(const struct gguf *g) { return g->n_entries; }

struct gguf_value gguf_value(const struct gguf *g, int i) {
    assert(i >= 0 && i < g->n_entries);
    const struct entry *e = &g->entries[i];
    return (struct gguf_value){
        .key = {(const char *)g->head + e->key, e->key_n},
        .type = (hl_meta_type)e->type,
        .is_array = e->is_array,
        .n = e->n,
    };
}

/* Index behind name in a table sorted by name, -1 when it is not there. */
static int look_up(const struct named *table, int n, struct str name) {
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        const struct str s = table[mid].name;
        int c = memcmp(s.p, name.p, s.n < name.n ? s.n : name.n);
        if (c == 0 && s.n == name.n) return table[mid].index;
        if (c < 0 || (c == 0 && s.n < name.n)) lo = mid + 1;
        else hi = mid;
    }
    return -1;
}

int gguf_find(const struct gguf *g, const char *key, size_t n) {
    return g->keys == NULL ? -1 : look_up(g->keys, g->n_entries, (struct str){key, n});
}

int gguf_find_tensor_str(const struct gguf *g, struct str name) {
    return g->names == NULL ? -1 : look_up(g->names, g->n_infos, name);
}

int gguf_find_tensor(const struct gguf *g, const char *name) {
    return gguf_find_tensor_str(g, (struct str){name, strlen(name)});
}

/* Any element of a number type as a double. */
static double load_number(const uint8_t *p, hl_meta_type type) {
    switch (type) {
    case HL_META_U8: return p[0];
    case HL_META_I8: return (int8_t)p[0];
    case HL_META_BOOL: return p[0] != 0;
    case HL_META_U16: return p[0] | p[1] << 8;
    case HL_META_I16: return (int16_t)(p[0] | p[1] << 8);
    case HL_META_U32: return load_u32(p);
    case HL_META_I32: return (int32_t)load_u32(p);
    case HL_META_F32: return (double)f32_from_bits(load_u32(p));
    case HL_META_U64: return (double)load_u64(p);
    case HL_META_I64: return (double)(int64_t)load_u64(p);
    case HL_META_F64: {
        uint64_t bits = load_u64(p);
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    case HL_META_STRING:
    case HL_META_ARRAY: break;
    }
    return (double)NAN;
}

double gguf_number(const struct gguf *g, int i, int j) {
    assert(i >= 0 && i < g->n_entries && j >= 0 && j < g->entries[i].n);
    const struct entry *e = &g->entries[i];
    return load_number(g->head + e->at + (size_t)j * value_size(e->type), (hl_meta_type)e->type);
}

struct str gguf_string(const struct gguf *g, int i, int j) {
    assert(i >= 0 && i < g->n_entries && j >= 0 && j < g->entries[i].n);
    const struct entry *e = &g->entries[i];
    if (e->type != HL_META_STRING) return (struct str){NULL, 0};
    size_t at = e->is_array ? g->marks[e->mark + (uint32_t)j / MARK_EVERY] : e->at;
    for (int skip = j % MARK_EVERY; skip > 0; skip--) at += 8 + (size_t)load_u64(g->head + at);
    return (struct str){(const char *)g->head + at + 8, (size_t)load_u64(g->head + at)};
}

int gguf_n_tensors(const struct gguf *g) { return g->n_infos; }

const struct gguf_tensor *gguf_tensor(const struct gguf *g, int i) {
    assert(i >= 0 && i < g->n_infos);
    return &g->infos[i].tensor;
}

uint64_t gguf_header_hash(const struct gguf *g) { return hash_bytes(HASH_START, g->head, g->head_n); }

uint64_t gguf_tensor_start(const struct gguf *g, int i) { return g->data_start + g->infos[i].tensor.offset; }

uint64_t gguf_file_bytes(const struct gguf *g) { return g->file_bytes; }

/* ---- by key ---- */

static bool is_integer(hl_meta_type t) {
    return value_size(t) > 0 && t != HL_META_F32 && t != HL_META_F64 && t != HL_META_BOOL;
}

static bool is_number(hl_meta_type t) { return value_size(t) > 0 && t != HL_META_BOOL; }

static int find_key(const struct gguf *g, const char *key) { return gguf_find(g, key, strlen(key)); }

/* The entry is a single value of the kind that `fits` accepts. */
static hl_status check_single(const struct gguf *g, int i, bool fits, const char *wanted) {
    struct gguf_value v = gguf_value(g, i);
    CHECK(fits && !v.is_array, HL_EFORMAT, "metadata '%s' is of type %s%s; %s is expected",
          gguf_label(v.key).text, v.is_array ? "array of " : "", value_type_name(v.type), wanted);
    return HL_OK;
}

static hl_status int_in_range(const struct gguf *g, int i, int j, int32_t lo, int32_t hi, int32_t *out) {
    double v = gguf_number(g, i, j);
    CHECK(v >= lo && v <= hi, HL_EFORMAT, "metadata '%s' is %.17g; %d to %d is expected",
          gguf_label(gguf_value(g, i).key).text, v, lo, hi);
    *out = (int32_t)v;
    return HL_OK;
}

hl_status gguf_get_int(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t missing,
                       int32_t *out) {
    int i = find_key(g, key);
    *out = missing;
    if (i < 0) return HL_OK;
    TRY(check_single(g, i, is_integer(gguf_value(g, i).type), "an integer"));
    return int_in_range(g, i, 0, lo, hi, out);
}

hl_status gguf_get_float(const struct gguf *g, const char *key, double lo, double hi, float missing,
                         float *out) {
    int i = find_key(g, key);
    *out = missing;
    if (i < 0) return HL_OK;
    TRY(check_single(g, i, is_number(gguf_value(g, i).type), "a number"));
    double v = gguf_number(g, i, 0);
    CHECK(v >= lo && v <= hi, HL_EFORMAT, "metadata '%s' is %.9g; %.9g to %.9g is expected", key, v, lo, hi);
    *out = (float)v;
    return HL_OK;
}

hl_status gguf_get_bool(const struct gguf *g, const char *key, bool missing, bool *out) {
    int i = find_key(g, key);
    *out = missing;
    if (i < 0) return HL_OK;
    TRY(check_single(g, i, gguf_value(g, i).type == HL_META_BOOL, "a bool"));
    *out = gguf_number(g, i, 0) != 0;
    return HL_OK;
}

hl_status gguf_get_str(const struct gguf *g, const char *key, struct str missing, struct str *out) {
    int i = find_key(g, key);
    *out = missing;
    if (i < 0) return HL_OK;
    TRY(check_single(g, i, gguf_value(g, i).type == HL_META_STRING, "a string"));
    *out = gguf_string(g, i, 0);
    return HL_OK;
}

hl_status gguf_get_ints(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int n, int32_t *out,
                        bool *found) {
    int i = find_key(g, key);
    *found = i >= 0;
    if (!*found) return HL_OK;
    struct gguf_value v = gguf_value(g, i);
    CHECK(is_integer(v.type), HL_EFORMAT, "metadata '%s' is of type %s%s; integers are expected", key,
          v.is_array ? "array of " : "", value_type_name(v.type));
    CHECK(!v.is_array || v.n == n, HL_EFORMAT, "metadata '%s' has %d elements; %d are expected", key, v.n, n);
    for (int j = 0; j < n; j++) TRY(int_in_range(g, i, v.is_array ? j : 0, lo, hi, &out[j]));
    return HL_OK;
}
