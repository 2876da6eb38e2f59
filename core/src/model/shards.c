/* The files of a model, one after the other: llama.cpp splits large models into parts, each a GGUF file with
 * its own tensors; metadata and vocabulary are in the first. */
#include <limits.h>

#include "model/bind.h"

enum { MAX_PARTS = 65535 }; /* split.count is a u16 */

hl_status shards_add(struct model *m, const struct gguf_sink *sink) {
    size_t size = sizeof *m->shards, n = (size_t)m->n_shards;
    struct shard *grown = mem_grow(m->mem, MEM_SCRATCH, m->shards, n * size, (n + 1) * size);
    CHECK(grown != NULL, HL_EMEMORY, "model: no memory");
    m->shards = grown;
    m->shards[n] = (struct shard){.gguf = gguf_new(m->mem, sink)};
    m->n_shards++;
    CHECK(m->shards[n].gguf != NULL, HL_EMEMORY, "model: no memory");
    m->gguf = m->shards[0].gguf;
    return HL_OK;
}

void shards_free(struct model *m) {
    for (int s = 0; s < m->n_shards; s++) {
        struct shard *shard = &m->shards[s];
        size_t n_tensors = shard->bindings != NULL ? (size_t)gguf_n_tensors(shard->gguf) : 0;
        mem_free(m->mem, MEM_WEIGHTS, shard->weights, (size_t)shard->n_bytes);
        mem_free(m->mem, MEM_SCRATCH, shard->bindings, n_tensors * sizeof *shard->bindings);
        gguf_free(shard->gguf);
    }
    mem_free(m->mem, MEM_SCRATCH, m->shards, (size_t)m->n_shards * sizeof *m->shards);
}

int shards_find(const struct model *m, const char *name, int *shard) {
    for (int s = m->n_shards - 1; s >= 0; s--) {
        int i = gguf_find_tensor(m->shards[s].gguf, name);
        *shard = s;
        if (i >= 0) return i;
    }
    return -1;
}

/* What a file says of the set it belongs to. */
struct set {
    int no, count, n_tensors; /* split.no, split.count, split.tensors.count; -1 where it is not said */
};

static hl_status read_set(const struct gguf *g, struct set *set) {
    TRY(gguf_get_int(g, "split.no", 0, MAX_PARTS - 1, 0, &set->no));
    TRY(gguf_get_int(g, "split.count", 0, MAX_PARTS, 1, &set->count));
    TRY(gguf_get_int(g, "split.tensors.count", 0, INT_MAX, -1, &set->n_tensors));
    CHECK(set->count < 2 || set->no < set->count, HL_EFORMAT, "model: split.no is %d, of a set of %d files",
          set->no, set->count);
    return HL_OK;
}

/* The first file: with it begins a set, or it is a whole model. */
static hl_status check_first(struct model *m, const struct set *set) {
    m->n_split = set->count > 1 ? set->count : 1;
    CHECK(m->n_split == 1 || set->no == 0, HL_EFORMAT,
          "model: the file is part %d of %d of a split model: give all parts, the first one first",
          set->no + 1, set->count);
    return HL_OK;
}

static hl_status check_next(const struct model *m, const struct set *first, const struct set *set) {
    CHECK(set->count > 1, HL_EFORMAT, "model: the file is no part of a split model");
    CHECK(set->count == first->count && set->n_tensors == first->n_tensors, HL_EFORMAT,
          "model: the file is one of %d with %d tensors together, the first one of %d with %d: it belongs to "
          "another model",
          set->count, set->n_tensors, first->count, first->n_tensors);
    CHECK(set->no == m->n_shards - 1, HL_EFORMAT,
          "model: the file is part %d of %d: give the parts in their order, each once", set->no + 1,
          set->count);
    return HL_OK;
}

/* No tensor is in two files. */
static hl_status check_names(const struct model *m) {
    const struct gguf *g = shard_now(m)->gguf;
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        struct str name = gguf_tensor(g, i)->name;
        for (int s = 0; s < m->n_shards - 1; s++) {
            CHECK(gguf_find_tensor_str(m->shards[s].gguf, name) < 0, HL_EFORMAT,
                  "model: tensor '%s' is in part %d already: the file belongs to another model",
                  gguf_label(name).text, s + 1);
        }
    }
    return HL_OK;
}

hl_status shards_check(struct model *m) {
    struct set set, first;
    TRY(read_set(shard_now(m)->gguf, &set));
    if (m->n_shards == 1) TRY(check_first(m, &set));
    if (m->n_split == 1) return HL_OK;
    TRY(read_set(m->gguf, &first));
    if (m->n_shards > 1) TRY(check_next(m, &first, &set));
    TRY(check_names(m));
    CHECK(m->n_shards < m->n_split || first.n_tensors < 0 || model_n_tensors(m) == first.n_tensors,
          HL_EFORMAT, "model: the %d parts hold %d tensors together; the first says that there are %d",
          m->n_split, model_n_tensors(m), first.n_tensors);
    return HL_OK;
}

/* ---- over all files */

int model_n_headers(const struct model *m) {
    return m->n_shards - (gguf_has_header(shard_now(m)->gguf) ? 0 : 1);
}

int model_n_tensors(const struct model *m) {
    int n = 0;
    for (int s = 0; s < model_n_headers(m); s++) n += gguf_n_tensors(m->shards[s].gguf);
    return n;
}

int model_tensor_part(const struct model *m, int i, int *j) {
    int s = 0;
    for (int n; i >= (n = gguf_n_tensors(m->shards[s].gguf)); s++) i -= n;
    *j = i;
    return s;
}

const struct gguf_tensor *model_tensor(const struct model *m, int i) {
    int j, s = model_tensor_part(m, i, &j);
    return gguf_tensor(m->shards[s].gguf, j);
}

double model_file_bytes(const struct model *m) {
    double n = 0;
    for (int s = 0; s < model_n_headers(m); s++) n += (double)gguf_file_bytes(m->shards[s].gguf);
    return n;
}
