/* Cuts a GGUF file into the parts of a split set, as llama-gguf-split does: the first holds the metadata, each
 * its own tensors. */
#ifndef HL_TEST_SPLIT_FILE_H
#define HL_TEST_SPLIT_FILE_H

#include "gguf/gguf.h"
#include "gguf_builder.h"
#include "tokenizer_file.h"

enum { MAX_TEST_PARTS = 8 };

struct test_parts {
    int n;
    uint8_t *p[MAX_TEST_PARTS]; /* [n] files of size[i] bytes each */
    size_t size[MAX_TEST_PARTS];
};

static inline void test_parts_free(struct test_parts *t) {
    for (int i = 0; i < t->n; i++) free(t->p[i]);
}

static inline void add_number(struct builder *b, const char *key, hl_meta_type type, int32_t v) {
    add_value(b, key, type, &v, type == HL_META_U16 ? 2 : 4);
}

/* The tensors first .. last - 1 of file g, whose bytes are `file`, with the keys of part `no` of `count`. */
static inline uint8_t *test_part(const struct gguf *g, const uint8_t *file, int no, int count, int first,
                                 int last, size_t *size) {
    struct builder b = {0};
    uint64_t data_start = gguf_file_bytes(g), data_end = 0;
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        if (t->offset + t->n_bytes > data_end) data_end = t->offset + t->n_bytes;
    }
    data_start -= data_end;
    if (no == 0) {
        /* The metadata lies between the counts and the name of the first tensor. */
        const char *from = gguf_value(g, 0).key.p - 8, *to = gguf_tensor(g, 0)->name.p - 8;
        put(&b.values, from, (size_t)(to - from));
        b.n_values = (uint64_t)gguf_n_values(g);
    }
    add_number(&b, "split.no", HL_META_U16, no);
    add_number(&b, "split.count", HL_META_U16, count);
    add_number(&b, "split.tensors.count", HL_META_I32, gguf_n_tensors(g));
    for (int i = first; i < last; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        uint64_t dims[4];
        uint32_t code = 0;
        char name[128];
        for (int d = 0; d < 4; d++) dims[d] = (uint64_t)t->dims[d];
        while (type_info(code) != t->type) code++;
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        put(&b.data, NULL, (32 - b.data.n % 32) % 32);
        add_info(&b, name, code, (uint32_t)t->n_dims, dims, b.data.n);
        put(&b.data, file + data_start + t->offset, (size_t)t->n_bytes);
    }
    return gguf_built(&b, size);
}

/* file: n bytes, a valid whole model. cuts: [n_parts - 1] ascending indices of the tensors that parts after the
 * first begin with. */
static inline struct test_parts test_split(const uint8_t *file, size_t n, int n_parts, const int *cuts) {
    struct test_parts parts = {0};
    struct mem mem = {0};
    struct gguf_sink sink = {NULL, header_ignored, begin_skipped, done_ignored};
    struct gguf *g = gguf_new(&mem, &sink);
    struct byte_source source = {file, n};
    while (g && !gguf_has_header(g)) {
        size_t room = 0;
        uint8_t *window = gguf_window(g, &room);
        if (!window || gguf_commit(g, read_from_bytes(&source, window, room)) != HL_OK) abort();
    }
    for (int i = 0; i < n_parts; i++) {
        int first = i > 0 ? cuts[i - 1] : 0, last = i < n_parts - 1 ? cuts[i] : gguf_n_tensors(g);
        parts.p[i] = test_part(g, file, i, n_parts, first, last, &parts.size[i]);
    }
    parts.n = n_parts;
    gguf_free(g);
    return parts;
}

#endif
