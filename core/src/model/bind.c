#include "model/bind.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Lengths that shapes are made of. */
enum length { NONE, EMBD, VOCAB, FF, QUERY, KEY, VALUE, HEADS_OUT, HALF_ROT };

/* A tensor that a model may have: its name, its field, its shape in the file's order (columns first). */
struct slot {
    const char *name;
    size_t field;           /* offset in struct model or struct layer: struct matrix, or const float * */
    enum length dims[2];    /* one: a vector */
    bool optional;
};

static const struct slot model_slots[] = {
    {"token_embd.weight", offsetof(struct model, token_embd), {EMBD, VOCAB}, false},
    {"output_norm.weight", offsetof(struct model, output_norm), {EMBD}, false},
    {"output.weight", offsetof(struct model, output), {EMBD, VOCAB}, true},
    {"output.bias", offsetof(struct model, output_bias), {VOCAB}, true},
    {"rope_freqs.weight", offsetof(struct model, rope_factors), {HALF_ROT}, true},
};

/* Names behind "blk.N." */
static const struct slot layer_slots[] = {
    {"attn_norm.weight", offsetof(struct layer, attn_norm), {EMBD}, false},
    {"attn_q.weight", offsetof(struct layer, wq), {EMBD, QUERY}, false},
    {"attn_k.weight", offsetof(struct layer, wk), {EMBD, KEY}, false},
    {"attn_v.weight", offsetof(struct layer, wv), {EMBD, VALUE}, false},
    {"attn_q.bias", offsetof(struct layer, bq), {QUERY}, true},
    {"attn_k.bias", offsetof(struct layer, bk), {KEY}, true},
    {"attn_v.bias", offsetof(struct layer, bv), {VALUE}, true},
    {"attn_output.weight", offsetof(struct layer, wo), {HEADS_OUT, EMBD}, false},
    {"attn_output.bias", offsetof(struct layer, bo), {EMBD}, true},
    {"ffn_norm.weight", offsetof(struct layer, ffn_norm), {EMBD}, false},
    {"ffn_gate.weight", offsetof(struct layer, w_gate), {EMBD, FF}, false},
    {"ffn_up.weight", offsetof(struct layer, w_up), {EMBD, FF}, false},
    {"ffn_down.weight", offsetof(struct layer, w_down), {FF, EMBD}, false},
    {"ffn_gate.bias", offsetof(struct layer, b_gate), {FF}, true},
    {"ffn_up.bias", offsetof(struct layer, b_up), {FF}, true},
    {"ffn_down.bias", offsetof(struct layer, b_down), {EMBD}, true},
};

enum {
    N_MODEL_SLOTS = sizeof model_slots / sizeof model_slots[0],
    N_LAYER_SLOTS = sizeof layer_slots / sizeof layer_slots[0],
};

/* wasm32 addresses 4 GiB; one tensor may not take more than half of it. The same limits hold natively. */
static const double max_total = 4294967296.0;
static const uint64_t max_tensor = (uint64_t)1 << 31;

static int length_of(const struct hparams *hp, enum length l) {
    switch (l) {
    case EMBD: return hp->n_embd;
    case VOCAB: return hp->n_vocab;
    case FF: return hp->n_ff;
    case QUERY: return hp->n_head * hp->d_head_k;
    case KEY: return hp->n_head_kv * hp->d_head_k;
    case VALUE: return hp->n_head_kv * hp->d_head_v;
    case HEADS_OUT: return hp->n_head * hp->d_head_v;
    case HALF_ROT: return hp->n_rot / 2;
    case NONE: break;
    }
    return 1;
}

static hl_status check_tensor(const struct gguf_tensor *t, int n0, int n1) {
    CHECK(t->dims[0] == n0 && t->dims[1] == n1 && t->dims[2] == 1 && t->dims[3] == 1, HL_EFORMAT,
          "model: tensor '%s' has the shape %d x %d x %d x %d; the hyperparameters ask for %d x %d", gguf_label(t->name).text,
          t->dims[0], t->dims[1], t->dims[2], t->dims[3], n0, n1);
    CHECK(t->type->to_f32 != NULL, HL_EUNSUPPORTED, "model: tensor '%s' has type %s, which is not built in",
          gguf_label(t->name).text, t->type->name);
    CHECK(t->n_bytes < max_tensor, HL_EMEMORY, "model: tensor '%s' of %.1f GiB: the model needs more than 4 GiB of memory",
          gguf_label(t->name).text, (double)t->n_bytes / 1073741824.0);
    return HL_OK;
}

/* Gives tensor i its field and its place behind what is packed already. */
static void place(struct model *m, int i, void *field, bool is_vector) {
    const struct gguf_tensor *t = gguf_tensor(m->gguf, i);
    enum { ALIGN = 64 };
    size_t n = is_vector ? (size_t)t->dims[0] * sizeof(float) : panel_matrix_bytes(t->type->panel, t->dims[0], t->dims[1]);
    m->bindings[i] = (struct model_binding){field, is_vector, (size_t)m->packed_bytes, n};
    m->packed_bytes += (double)((n + ALIGN - 1) / ALIGN * ALIGN);
    if ((double)t->n_bytes > m->staging_bytes) m->staging_bytes = (double)t->n_bytes;
}

/* base: the struct that slot->field is in. */
static hl_status bind_slot(struct model *m, const struct slot *slot, const char *name, void *base) {
    int i = gguf_find_tensor(m->gguf, name);
    if (i < 0 && slot->optional) return HL_OK;
    CHECK(i >= 0, HL_EFORMAT, "model: tensor '%s' is missing", name);
    TRY(check_tensor(gguf_tensor(m->gguf, i), length_of(&m->hp, slot->dims[0]), length_of(&m->hp, slot->dims[1])));
    place(m, i, (char *)base + slot->field, slot->dims[1] == NONE);
    CHECK(m->packed_bytes + m->staging_bytes < max_total, HL_EMEMORY, "model: the model needs more than 4 GiB of memory");
    return HL_OK;
}

/* Rows of the embedding and the list of tokens must agree. */
static hl_status read_n_vocab(struct model *m) {
    int i = gguf_find_tensor(m->gguf, "token_embd.weight"), tokens = gguf_find(m->gguf, "tokenizer.ggml.tokens", 21);
    CHECK(i >= 0, HL_EFORMAT, "model: tensor 'token_embd.weight' is missing");
    m->hp.n_vocab = gguf_tensor(m->gguf, i)->dims[1];
    CHECK(tokens < 0 || gguf_value(m->gguf, tokens).n == m->hp.n_vocab, HL_EFORMAT,
          "model: tensor 'token_embd.weight' has %d rows and the vocabulary %d tokens", m->hp.n_vocab,
          gguf_value(m->gguf, tokens).n);
    return HL_OK;
}

static hl_status bind_tensors(struct model *m) {
    size_t n_layer = (size_t)m->hp.n_layer, n_tensors = (size_t)gguf_n_tensors(m->gguf);
    m->layers = mem_alloc(m->mem, MEM_SCRATCH, n_layer * sizeof *m->layers);
    m->bindings = mem_alloc(m->mem, MEM_SCRATCH, n_tensors * sizeof *m->bindings);
    CHECK(m->layers != NULL && m->bindings != NULL, HL_EMEMORY, "model: no memory for a list of %zu tensors", n_tensors);
    for (int s = 0; s < N_MODEL_SLOTS; s++) TRY(bind_slot(m, &model_slots[s], model_slots[s].name, m));
    for (int l = 0; l < m->hp.n_layer; l++) {
        m->layers[l].rope = true;
        for (int s = 0; s < N_LAYER_SLOTS; s++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s", l, layer_slots[s].name);
            TRY(bind_slot(m, &layer_slots[s], name, &m->layers[l]));
        }
    }
    return HL_OK;
}

/* Files that hold something else than a whole model. */
static hl_status check_kind(const struct gguf *g) {
    int32_t n_split;
    struct str type, model = {"model", 5};
    CHECK(gguf_n_tensors(g) > 0, HL_EUNSUPPORTED, "model: the file has no tensors: with a vocabulary alone it can only tokenize");
    TRY(gguf_get_int(g, "split.count", 0, INT32_MAX, 0, &n_split));
    CHECK(n_split < 2, HL_EUNSUPPORTED, "model: this is one of %d parts of a split model: join them with "
          "llama-gguf-split --merge", n_split);
    TRY(gguf_get_str(g, "general.type", model, &type));
    CHECK(type.n == model.n && memcmp(type.p, model.p, model.n) == 0, HL_EUNSUPPORTED,
          "model: the file is of general.type '%s', not a model", gguf_label(type).text);
    return HL_OK;
}

static hl_status find_arch(struct model *m) {
    struct str name;
    char names[256];
    TRY(gguf_get_str(m->gguf, "general.architecture", (struct str){NULL, 0}, &name));
    CHECK(name.p != NULL, HL_EFORMAT, "model: metadata 'general.architecture' is missing");
    arch_names(names, sizeof names);
    m->arch = arch_find(name);
    CHECK(m->arch != NULL, HL_EUNSUPPORTED, "model: architecture '%s' is not built in; there are: %s", gguf_label(name).text,
          names);
    return HL_OK;
}

hl_status model_bind(struct model *m) {
    TRY(check_kind(m->gguf));
    TRY(find_arch(m));
    TRY(hparams_read(&m->hp, m->arch, m->gguf));
    TRY(read_n_vocab(m));
    return bind_tensors(m);
}
