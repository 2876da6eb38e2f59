#include "model/bind.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "quant/transpose.h"

/* Lengths that shapes are made of. */
enum length {
    NONE,
    EMBD,
    VOCAB,
    FF,
    QUERY,
    KEY,
    VALUE,
    HEADS_OUT,
    HALF_ROT,
    Q_NORM,
    K_NORM,
    Q_LORA,
    KV_LORA,
    KV_A,
    NOPE,
    HEAD_V,
    HEADS,
    EXPERTS,
    FF_EXP,
    FF_SHEXP
};

/* In which layers a tensor has a place. */
enum when {
    ALWAYS,
    PRE_NORM,
    POST_NORM,
    QK_NORM,
    GQA,
    MLA,
    MLA_Q_ONE_STEP,
    MLA_Q_TWO_STEPS,
    DENSE,
    DENSE_GATE,
    MOE,
    SHARED,
    SHARED_GATE
};

enum need { NEEDED, OPTIONAL };

/* A tensor that a model may have: its name, its field, its shape in the file's order (columns first). */
struct slot {
    const char *name;
    size_t field; /* offset in struct model or struct layer: const float *, struct matrix or struct stack */
    enum length dims[3]; /* one: a vector; two: a matrix; three: a stack */
    enum when when;
    enum need need;
};

static const struct slot model_slots[] = {
    {"token_embd.weight", offsetof(struct model, token_embd), {EMBD, VOCAB}, ALWAYS, NEEDED},
    {"output_norm.weight", offsetof(struct model, output_norm), {EMBD}, ALWAYS, NEEDED},
    {"output.weight", offsetof(struct model, output), {EMBD, VOCAB}, ALWAYS, OPTIONAL},
    {"output.bias", offsetof(struct model, output_bias), {VOCAB}, ALWAYS, OPTIONAL},
    {"rope_freqs.weight", offsetof(struct model, rope_factors), {HALF_ROT}, ALWAYS, OPTIONAL},
    {"rope_factors_short.weight", offsetof(struct model, rope_factors), {HALF_ROT}, ALWAYS, OPTIONAL},
    {"rope_factors_long.weight", offsetof(struct model, rope_factors_long), {HALF_ROT}, ALWAYS, OPTIONAL},
};

#define LAYER(FIELD) offsetof(struct layer, FIELD)

/* Names behind "blk.N." */
static const struct slot layer_slots[] = {
    {"attn_norm.weight", LAYER(attn_norm), {EMBD}, PRE_NORM, NEEDED},
    {"attn_q_norm.weight", LAYER(q_norm), {Q_NORM}, QK_NORM, NEEDED},
    {"attn_k_norm.weight", LAYER(k_norm), {K_NORM}, QK_NORM, NEEDED},
    {"attn_q.weight", LAYER(wq), {EMBD, QUERY}, MLA_Q_ONE_STEP, NEEDED},
    {"attn_q_a.weight", LAYER(wq_a), {EMBD, Q_LORA}, MLA_Q_TWO_STEPS, NEEDED},
    {"attn_q_a_norm.weight", LAYER(q_a_norm), {Q_LORA}, MLA_Q_TWO_STEPS, NEEDED},
    {"attn_q_b.weight", LAYER(wq), {Q_LORA, QUERY}, MLA_Q_TWO_STEPS, NEEDED},
    {"attn_kv_a_mqa.weight", LAYER(wkv_a), {EMBD, KV_A}, MLA, NEEDED},
    {"attn_kv_a_norm.weight", LAYER(kv_a_norm), {KV_LORA}, MLA, OPTIONAL},
    {"attn_output.weight", LAYER(wo), {HEADS_OUT, EMBD}, ALWAYS, NEEDED},
    {"attn_output.bias", LAYER(bo), {EMBD}, ALWAYS, OPTIONAL},
    {"post_attention_norm.weight", LAYER(post_attn_norm), {EMBD}, POST_NORM, NEEDED},
    {"ffn_norm.weight", LAYER(ffn_norm), {EMBD}, PRE_NORM, NEEDED},
    {"ffn_gate.bias", LAYER(b_gate), {FF}, DENSE_GATE, OPTIONAL},
    {"ffn_up.bias", LAYER(b_up), {FF}, DENSE, OPTIONAL},
    {"ffn_down.weight", LAYER(w_down), {FF, EMBD}, DENSE, NEEDED},
    {"ffn_down.bias", LAYER(b_down), {EMBD}, DENSE, OPTIONAL},
    {"ffn_gate_inp.weight", LAYER(w_router), {EMBD, EXPERTS}, MOE, NEEDED},
    {"exp_probs_b.bias", LAYER(router_bias), {EXPERTS}, MOE, OPTIONAL},
    {"ffn_down_exps.weight", LAYER(w_down_exps), {FF_EXP, EMBD, EXPERTS}, MOE, NEEDED},
    {"ffn_gate_shexp.weight", LAYER(w_gate_shexp), {EMBD, FF_SHEXP}, SHARED, NEEDED},
    {"ffn_up_shexp.weight", LAYER(w_up_shexp), {EMBD, FF_SHEXP}, SHARED, NEEDED},
    {"ffn_down_shexp.weight", LAYER(w_down_shexp), {FF_SHEXP, EMBD}, SHARED, NEEDED},
    {"ffn_gate_inp_shexp.weight", LAYER(shexp_gate), {EMBD}, SHARED_GATE, NEEDED},
    {"post_ffw_norm.weight", LAYER(post_ffn_norm), {EMBD}, POST_NORM, NEEDED},
};

/* What files store as several tensors or as one: see bind_split. */
static const struct slot qkv_slots[] = {
    {"attn_q.weight", LAYER(wq), {EMBD, QUERY}, GQA, NEEDED},
    {"attn_k.weight", LAYER(wk), {EMBD, KEY}, GQA, NEEDED},
    {"attn_v.weight", LAYER(wv), {EMBD, VALUE}, GQA, NEEDED},
};
static const struct slot qkv_bias_slots[] = {
    {"attn_q.bias", LAYER(bq), {QUERY}, GQA, OPTIONAL},
    {"attn_k.bias", LAYER(bk), {KEY}, GQA, OPTIONAL},
    {"attn_v.bias", LAYER(bv), {VALUE}, GQA, OPTIONAL},
};
static const struct slot up_slots[] = {
    {"ffn_gate.weight", LAYER(w_gate), {EMBD, FF}, DENSE_GATE, NEEDED},
    {"ffn_up.weight", LAYER(w_up), {EMBD, FF}, DENSE, NEEDED},
};
static const struct slot up_exps_slots[] = {
    {"ffn_gate_exps.weight", LAYER(w_gate_exps), {EMBD, FF_EXP, EXPERTS}, MOE, NEEDED},
    {"ffn_up_exps.weight", LAYER(w_up_exps), {EMBD, FF_EXP, EXPERTS}, MOE, NEEDED},
};
static const struct slot kv_b_slots[] = {
    {"attn_k_b.weight", LAYER(wk_b), {NOPE, KV_LORA, HEADS}, MLA, NEEDED},
    {"attn_v_b.weight", LAYER(wv_b), {KV_LORA, HEAD_V, HEADS}, MLA, NEEDED},
};

#define COUNT(ARRAY) ((int)(sizeof(ARRAY) / sizeof(ARRAY)[0]))

/* wasm32 addresses 4 GiB; one tensor may not take more than half of it. The same limits hold natively. */
static const double max_total = 4294967296.0;
static const uint64_t max_tensor = (uint64_t)1 << 31;

static int length_of(const struct model *m, enum length l) {
    const struct hparams *hp = &m->hp;
    switch (l) {
    case EMBD: return hp->n_embd;
    case VOCAB: return hp->n_vocab;
    case FF: return hp->n_ff;
    case QUERY: return hp->n_head * hp->d_head_k;
    case KEY: return hp->n_head_kv * hp->d_head_k;
    case VALUE: return hp->n_head_kv * hp->d_head_v;
    case HEADS_OUT: return hp->n_head * hp->d_head_v;
    case HALF_ROT: return hp->n_rot / 2;
    case Q_NORM: return m->arch->qk_norm_whole ? hp->n_head * hp->d_head_k : hp->d_head_k;
    case K_NORM: return m->arch->qk_norm_whole ? hp->n_head_kv * hp->d_head_k : hp->d_head_k;
    case Q_LORA: return hp->q_lora_rank;
    case KV_LORA: return hp->kv_lora_rank;
    case KV_A: return hp->kv_lora_rank + hp->n_rot;
    case NOPE: return hp->d_nope;
    case HEAD_V: return hp->d_head_v;
    case HEADS: return hp->n_head;
    case EXPERTS: return hp->n_expert;
    case FF_EXP: return hp->n_ff_exp;
    case FF_SHEXP: return hp->n_ff_shexp;
    case NONE: break;
    }
    return 1;
}

static bool has_place(const struct model *m, int l, enum when when) {
    const struct arch *arch = m->arch;
    bool mla = arch->attn == ATTN_MLA, moe = l >= m->hp.n_dense;
    switch (when) {
    case ALWAYS: break;
    case PRE_NORM: return !arch->branch_norms_only;
    case POST_NORM: return arch->post_norm;
    case QK_NORM: return arch->qk_norm;
    case GQA: return !mla;
    case MLA: return mla;
    case MLA_Q_ONE_STEP: return mla && m->hp.q_lora_rank == 0;
    case MLA_Q_TWO_STEPS: return mla && m->hp.q_lora_rank > 0;
    case DENSE: return !moe;
    case DENSE_GATE: return !moe && arch->act != ACT_RELU2;
    case MOE: return moe;
    case SHARED: return moe && m->hp.n_ff_shexp > 0;
    case SHARED_GATE: return moe && m->hp.n_ff_shexp > 0 && arch->shared_gate;
    }
    return true;
}

/* The matrices of a stack follow each other: as a third dimension, or as more rows. */
static hl_status check_tensor(const struct gguf_tensor *t, const int n[3]) {
    bool is_flat = t->dims[2] == 1 && t->dims[1] == (int64_t)n[1] * n[2];
    bool fits =
        t->dims[0] == n[0] && t->dims[3] == 1 && ((t->dims[1] == n[1] && t->dims[2] == n[2]) || is_flat);
    CHECK(fits, HL_EFORMAT,
          "model: tensor '%s' has the shape %d x %d x %d x %d; the hyperparameters ask for %d x %d x %d",
          gguf_label(t->name).text, t->dims[0], t->dims[1], t->dims[2], t->dims[3], n[0], n[1], n[2]);
    CHECK(t->type->to_f32 != NULL, HL_EUNSUPPORTED, "model: tensor '%s' has type %s, which is not built in",
          gguf_label(t->name).text, t->type->name);
    CHECK(t->n_bytes < max_tensor, HL_EMEMORY,
          "model: tensor '%s' of %.1f GiB: the model needs more than 4 GiB of memory",
          gguf_label(t->name).text, (double)t->n_bytes / 1073741824.0);
    return HL_OK;
}

static double packed_size(const struct gguf_tensor *t, const struct model_part *part) {
    size_t one = part->is_transposed ? panel_matrix_bytes(transpose_panel(t->type), part->n_rows, t->dims[0])
                                     : panel_matrix_bytes(t->type->panel, t->dims[0], part->n_rows);
    return (double)part->n * (double)one;
}

/* Gives n more bytes of the file's packed weights away. */
static size_t take(struct model *m, double n) {
    const double align = 64;
    struct shard *shard = shard_now(m);
    size_t offset = (size_t)shard->n_bytes;
    shard->n_bytes += ceil(n / align) * align;
    m->packed_bytes += ceil(n / align) * align;
    return offset;
}

/* Gives a part of tensor i its place behind what is packed already. */
static hl_status add_part(struct model *m, int i, struct model_part part) {
    const struct gguf_tensor *t = gguf_tensor(shard_now(m)->gguf, i);
    struct model_binding *b = &shard_now(m)->bindings[i];
    part.offset = take(m, packed_size(t, &part));
    b->parts[b->n_parts++] = part;
    if ((double)t->n_bytes > m->staging_bytes) m->staging_bytes = (double)t->n_bytes;
    CHECK(m->packed_bytes + m->staging_bytes < max_total, HL_EMEMORY,
          "model: the model needs more than 4 GiB of memory");
    return HL_OK;
}

/* A run of the vector in tensor i, which is read as a whole when its first run is placed. */
static hl_status add_run(struct model *m, int i, void *field, int first, int n) {
    const struct gguf_tensor *t = gguf_tensor(shard_now(m)->gguf, i);
    struct model_binding *b = &shard_now(m)->bindings[i];
    size_t offset = b->n_parts > 0 ? b->parts[0].offset : take(m, t->dims[0] * (double)sizeof(float));
    b->is_vector = true;
    b->parts[b->n_parts++] =
        (struct model_part){.field = field, .row0 = first, .n_rows = n, .offset = offset};
    if ((double)t->n_bytes > m->staging_bytes) m->staging_bytes = (double)t->n_bytes;
    CHECK(m->packed_bytes + m->staging_bytes < max_total, HL_EMEMORY,
          "model: the model needs more than 4 GiB of memory");
    return HL_OK;
}

static bool all_headers(const struct model *m) { return m->n_shards == m->n_split; }

/* *i: the tensor's index in the file whose header came last; -1: it has a place already, may be missing, or
 * may come with another file. */
static hl_status find_here(const struct model *m, const char *name, enum need need, int *i) {
    int shard;
    *i = shards_find(m, name, &shard);
    CHECK(*i >= 0 || need == OPTIONAL || !all_headers(m), HL_EFORMAT, "model: tensor '%s' is missing", name);
    if (shard != m->n_shards - 1) *i = -1;
    return HL_OK;
}

/* base: the struct that slot->field is in. */
static hl_status bind_slot(struct model *m, const struct slot *slot, const char *name, void *base) {
    int i, n[3];
    void *field = (char *)base + slot->field;
    TRY(find_here(m, name, slot->need, &i));
    if (i < 0) return HL_OK;
    for (int k = 0; k < 3; k++) n[k] = length_of(m, slot->dims[k]);
    TRY(check_tensor(gguf_tensor(shard_now(m)->gguf, i), n));
    if (slot->dims[1] == NONE) return add_run(m, i, field, 0, n[0]);
    return add_part(
        m, i,
        (struct model_part){
            .field = field, .is_stack = slot->dims[2] != NONE, .n = n[2], .n_rows = n[1], .step = n[1]});
}

/* ---- layers */

struct layer_name {
    char text[64];
};

static struct layer_name name_in(int l, const char *name) {
    struct layer_name n;
    snprintf(n.text, sizeof n.text, "blk.%d.%s", l, name);
    return n;
}

static bool has(const struct model *m, const char *name) {
    int shard;
    return shards_find(m, name, &shard) >= 0;
}

static bool has_tensor(const struct model *m, int l, const char *name) {
    return has(m, name_in(l, name).text);
}

static hl_status bind_slots(struct model *m, int l, const struct slot *slots, int n) {
    for (int s = 0; s < n; s++)
        if (has_place(m, l, slots[s].when))
            TRY(bind_slot(m, &slots[s], name_in(l, slots[s].name).text, &m->layers[l]));
    return HL_OK;
}

/* One tensor holds the rows of all slots, one after the other; of stacks, matrix by matrix. */
static hl_status bind_fused(struct model *m, int l, const char *name, const struct slot *slots, int n_slots) {
    int i, n[3] = {length_of(m, slots[0].dims[0]), 0, length_of(m, slots[0].dims[2])};
    bool is_vector = slots[0].dims[1] == NONE;
    TRY(find_here(m, name_in(l, name).text, NEEDED, &i));
    if (i < 0) return HL_OK;
    for (int s = 0; s < n_slots; s++) n[1] += length_of(m, slots[s].dims[is_vector ? 0 : 1]);
    TRY(check_tensor(gguf_tensor(shard_now(m)->gguf, i), is_vector ? (int[3]){n[1], 1, 1} : n));
    for (int s = 0, row0 = 0; s < n_slots; s++) {
        int n_rows = length_of(m, slots[s].dims[is_vector ? 0 : 1]);
        void *field = (char *)&m->layers[l] + slots[s].field;
        struct model_part part = {field, slots[s].dims[2] != NONE, false, n[2], row0, n_rows, n[1], 0};
        TRY(is_vector ? add_run(m, i, field, row0, n_rows) : add_part(m, i, part));
        row0 += n_rows;
    }
    return HL_OK;
}

static hl_status bind_split(struct model *m, int l, const char *fused, const struct slot *slots,
                            int n_slots) {
    bool is_fused = has_place(m, l, slots[0].when) && has_tensor(m, l, fused);
    return is_fused ? bind_fused(m, l, fused, slots, n_slots) : bind_slots(m, l, slots, n_slots);
}

/* From the latent to keys and values: split and turned round for absorbing, or as the model was trained:
 * of each head d_nope rows of keys, then d_head_v rows of values. */
static hl_status bind_kv_b(struct model *m, int l) {
    const struct hparams *hp = &m->hp;
    struct layer *w = &m->layers[l];
    struct layer_name name = name_in(l, "attn_kv_b.weight");
    int i, step = hp->d_nope + hp->d_head_v;
    if (!has(m, name.text) || has_tensor(m, l, kv_b_slots[0].name))
        return bind_slots(m, l, kv_b_slots, COUNT(kv_b_slots));
    TRY(find_here(m, name.text, NEEDED, &i));
    if (i < 0) return HL_OK;
    TRY(check_tensor(gguf_tensor(shard_now(m)->gguf, i), (int[3]){hp->kv_lora_rank, hp->n_head * step, 1}));
    TRY(add_part(m, i, (struct model_part){&w->wk_b, true, true, hp->n_head, 0, hp->d_nope, step, 0}));
    return add_part(
        m, i, (struct model_part){&w->wv_b, true, false, hp->n_head, hp->d_nope, hp->d_head_v, step, 0});
}

static hl_status bind_layer(struct model *m, int l) {
    TRY(bind_slots(m, l, layer_slots, COUNT(layer_slots)));
    TRY(bind_split(m, l, "attn_qkv.weight", qkv_slots, COUNT(qkv_slots)));
    TRY(bind_split(m, l, "attn_qkv.bias", qkv_bias_slots, COUNT(qkv_bias_slots)));
    TRY(bind_split(m, l, "ffn_gate_up_exps.weight", up_exps_slots, COUNT(up_exps_slots)));
    if (m->arch->fused_up) TRY(bind_fused(m, l, "ffn_up.weight", up_slots, COUNT(up_slots)));
    else TRY(bind_slots(m, l, up_slots, COUNT(up_slots)));
    return m->arch->attn == ATTN_MLA ? bind_kv_b(m, l) : HL_OK;
}

/* Rows of the embedding and the list of tokens must agree. */
static hl_status read_n_vocab(struct model *m) {
    int shard, i = shards_find(m, "token_embd.weight", &shard),
               tokens = gguf_find(m->gguf, "tokenizer.ggml.tokens", 21);
    CHECK(i >= 0 || !all_headers(m), HL_EFORMAT, "model: tensor 'token_embd.weight' is missing");
    int n_tokens = tokens >= 0 ? gguf_value(m->gguf, tokens).n : 0;
    m->hp.n_vocab = i >= 0 ? gguf_tensor(m->shards[shard].gguf, i)->dims[1] : n_tokens;
    CHECK(tokens < 0 || n_tokens == m->hp.n_vocab, HL_EFORMAT,
          "model: tensor 'token_embd.weight' has %d rows and the vocabulary %d tokens", m->hp.n_vocab,
          n_tokens);
    return HL_OK;
}

/* What can be said only of all tensors together. */
static hl_status check_rope(struct model *m) {
    bool has_short = has(m, "rope_factors_short.weight"), has_long = has(m, "rope_factors_long.weight");
    CHECK(has_short == has_long, HL_EFORMAT,
          "model: of 'rope_factors_short.weight' and 'rope_factors_long.weight' one is missing");
    return hparams_rope_scale(&m->hp, m->arch, m->gguf, has(m, "rope_freqs.weight"), has_long);
}

hl_status model_bind_tensors(struct model *m) {
    struct shard *shard = shard_now(m);
    size_t n_tensors = (size_t)gguf_n_tensors(shard->gguf);
    shard->bindings = mem_alloc(m->mem, MEM_SCRATCH, n_tensors * sizeof *shard->bindings);
    CHECK(shard->bindings != NULL, HL_EMEMORY, "model: no memory for a list of %zu tensors", n_tensors);
    TRY(read_n_vocab(m));
    for (int s = 0; s < COUNT(model_slots); s++) TRY(bind_slot(m, &model_slots[s], model_slots[s].name, m));
    for (int l = 0; l < m->hp.n_layer; l++) TRY(bind_layer(m, l));
    return all_headers(m) ? check_rope(m) : HL_OK;
}

static hl_status make_layers(struct model *m) {
    size_t n_layer = (size_t)m->hp.n_layer;
    int every = m->arch->no_rope_every;
    m->layers = mem_alloc(m->mem, MEM_SCRATCH, n_layer * sizeof *m->layers);
    CHECK(m->layers != NULL, HL_EMEMORY, "model: no memory for %zu layers", n_layer);
    TRY(hparams_windows(&m->hp, m->arch, m->gguf, m->layers));
    for (int l = 0; l < m->hp.n_layer; l++) m->layers[l].rope = every == 0 || l % every != every - 1;
    return HL_OK;
}

/* Files that hold something else than a whole model. */
static hl_status check_kind(const struct model *m) {
    struct str type, model = {"model", 5};
    CHECK(m->has_tensors, HL_EUNSUPPORTED,
          "model: the file has no tensors: with a vocabulary alone it can only tokenize");
    TRY(gguf_get_str(m->gguf, "general.type", model, &type));
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
    CHECK(m->arch != NULL, HL_EUNSUPPORTED, "model: architecture '%s' is not built in; there are: %s",
          gguf_label(name).text, names);
    return HL_OK;
}

hl_status model_bind(struct model *m) {
    TRY(check_kind(m));
    TRY(find_arch(m));
    TRY(hparams_read(&m->hp, m->arch, m->gguf));
    return make_layers(m);
}
