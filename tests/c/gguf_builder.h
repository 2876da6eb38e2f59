/* Writes GGUF files in memory: entries and tensors are added in order, gguf_built puts them together. */
#ifndef HL_TEST_GGUF_BUILDER_H
#define HL_TEST_GGUF_BUILDER_H

#include "headlight.h"
#include "quant/types.h"
#include "test.h"

struct bytes {
    uint8_t *p;
    size_t n, room;
};

struct builder {
    struct bytes values, infos, data;
    uint64_t n_values, n_tensors;
    uint32_t version, alignment; /* 0: 3 and 32 */
};

static inline void put(struct bytes *b, const void *src, size_t n) {
    if (n == 0) return;
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->p = realloc(b->p, b->room);
        if (!b->p) abort();
    }
    if (src) memcpy(b->p + b->n, src, n);
    else memset(b->p + b->n, 0, n);
    b->n += n;
}

static inline void put_u32(struct bytes *b, uint32_t v) { put(b, &v, 4); }

static inline void put_u64(struct bytes *b, uint64_t v) { put(b, &v, 8); }

static inline void put_str(struct bytes *b, const char *s) {
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

/* The entry's key and type; its bytes are to follow in b->values. */
static inline void add_key(struct builder *b, const char *key, hl_meta_type type) {
    put_str(&b->values, key);
    put_u32(&b->values, type);
    b->n_values++;
}

static inline void add_value(struct builder *b, const char *key, hl_meta_type type, const void *value,
                             size_t n) {
    add_key(b, key, type);
    put(&b->values, value, n);
}

static inline void add_u32(struct builder *b, const char *key, uint32_t v) {
    add_value(b, key, HL_META_U32, &v, 4);
}

static inline void add_f32(struct builder *b, const char *key, float v) {
    add_value(b, key, HL_META_F32, &v, 4);
}

static inline void add_str(struct builder *b, const char *key, const char *v) {
    add_key(b, key, HL_META_STRING);
    put_str(&b->values, v);
}

/* The head of an array; its n elements are to follow. */
static inline void add_array(struct builder *b, const char *key, hl_meta_type type, uint64_t n) {
    add_key(b, key, HL_META_ARRAY);
    put_u32(&b->values, type);
    put_u64(&b->values, n);
}

static inline void add_u32s(struct builder *b, const char *key, const uint32_t *v, uint64_t n) {
    add_array(b, key, HL_META_U32, n);
    put(&b->values, v, (size_t)n * sizeof *v);
}

/* Only the entry in the list of tensors. */
static inline void add_info(struct builder *b, const char *name, uint32_t type, uint32_t n_dims,
                            const uint64_t *dims, uint64_t offset) {
    put_str(&b->infos, name);
    put_u32(&b->infos, n_dims);
    put(&b->infos, dims, n_dims * sizeof *dims);
    put_u32(&b->infos, type);
    put_u64(&b->infos, offset);
    b->n_tensors++;
}

/* A tensor of n0 columns and n1 rows (0: a vector) behind the others. data: its bytes, NULL for zeros. */
static inline void add_tensor(struct builder *b, const char *name, uint32_t type, uint64_t n0, uint64_t n1,
                              const void *data) {
    const struct type_info *t = type_info(type);
    uint64_t dims[2] = {n0, n1}, n = n0 / (uint64_t)t->n_weights * (uint64_t)t->n_bytes * (n1 ? n1 : 1);
    uint32_t alignment = b->alignment ? b->alignment : 32;
    put(&b->data, NULL, (alignment - b->data.n % alignment) % alignment);
    add_info(b, name, type, n1 ? 2 : 1, dims, b->data.n);
    put(&b->data, data, (size_t)n);
}

/* The whole file, to be freed by the caller; the builder is then empty. */
static inline uint8_t *gguf_built(struct builder *b, size_t *n) {
    struct bytes f = {0};
    put(&f, "GGUF", 4);
    put_u32(&f, b->version ? b->version : 3);
    put_u64(&f, b->n_tensors);
    put_u64(&f, b->n_values);
    put(&f, b->values.p, b->values.n);
    put(&f, b->infos.p, b->infos.n);
    uint32_t alignment = b->alignment ? b->alignment : 32;
    if (b->data.n) put(&f, NULL, (alignment - f.n % alignment) % alignment);
    put(&f, b->data.p, b->data.n);
    free(b->values.p);
    free(b->infos.p);
    free(b->data.p);
    *b = (struct builder){0};
    uint8_t *exact = realloc(f.p, f.n); /* so that a read past the end is seen */
    *n = f.n;
    return exact ? exact : f.p;
}

#endif
