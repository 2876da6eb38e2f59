#include "model/model.h"

#include "gguf_builder.h"
#include "test.h"

/* A tiny llama in a builder; what a test wants otherwise is set before tiny_add. */
struct tiny {
    struct builder b;
    uint64_t seed;
    uint32_t type; /* of matrices */
    uint32_t n_layer, n_vocab, n_embd, n_ff, n_head, n_head_kv, d_head;
    const char *without;    /* this tensor is left out */
    const char *wrong;      /* this one has a column block too many */
    const char *other_type; /* this one is of type IQ2_XXS */
    bool tied, biases, rope_freqs, no_key_length, no_tokens;
};

static struct tiny tiny_of(uint32_t type) {
    return (struct tiny){
        .type = type,
        .n_layer = 2,
        .n_vocab = 70,
        .n_embd = 64,
        .n_ff = 96,
        .n_head = 4,
        .n_head_kv = 2,
        .d_head = 16,
    };
}

/* Random bytes whose scales are finite. */
static uint8_t *random_tensor(struct tiny *t, uint32_t type, size_t n_weights) {
    const struct type_info *info = type_info(type);
    size_t n_blocks = n_weights / (size_t)info->n_weights, n = n_blocks * (size_t)info->n_bytes;
    uint8_t *bytes = malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)test_random(&t->seed);
    for (size_t i = 0; i < n_blocks; i++) {
        uint8_t *block = bytes + i * (size_t)info->n_bytes;
        if (type == TYPE_F32) ((float *)(void *)bytes)[i] = test_random_float(&t->seed);
        else block[1] &= 0xbb;
        if (type == TYPE_Q4_1 || type == TYPE_Q5_1) block[3] &= 0xbb;
    }
    return bytes;
}

static void add_weights(struct tiny *t, const char *name, uint32_t type, uint64_t n0, uint64_t n1) {
    if (t->without && strcmp(t->without, name) == 0) return;
    if (t->wrong && strcmp(t->wrong, name) == 0) n0 += 32;
    if (t->other_type && strcmp(t->other_type, name) == 0) {
        add_tensor(&t->b, name, 16, 256, 1, NULL);
        return;
    }
    uint8_t *bytes = random_tensor(t, type, (size_t)(n0 * (n1 ? n1 : 1)));
    add_tensor(&t->b, name, type, n0, n1, bytes);
    free(bytes);
}

static void add_layer(struct tiny *t, unsigned l) {
    uint64_t embd = t->n_embd, q = (uint64_t)t->n_head * t->d_head, kv = (uint64_t)t->n_head_kv * t->d_head,
             ff = t->n_ff;
    const struct {
        const char *name;
        uint64_t n0, n1;
    } all[] = {
        {"ffn_down.weight", ff, embd}, {"attn_norm.weight", embd, 0}, {"attn_q.weight", embd, q},
        {"attn_k.weight", embd, kv},   {"attn_v.weight", embd, kv},   {"attn_output.weight", q, embd},
        {"ffn_norm.weight", embd, 0},  {"ffn_gate.weight", embd, ff}, {"ffn_up.weight", embd, ff},
        {"attn_q.bias", q, 0},         {"attn_k.bias", kv, 0},        {"attn_v.bias", kv, 0},
        {"attn_output.bias", embd, 0}, {"ffn_gate.bias", ff, 0},      {"ffn_up.bias", ff, 0},
        {"ffn_down.bias", embd, 0},
    };
    for (size_t i = 0; i < (t->biases ? 16u : 9u); i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", l, all[i].name);
        add_weights(t, name, all[i].n1 ? t->type : TYPE_F32, all[i].n0, all[i].n1);
    }
}

static void add_hparams(struct tiny *t) {
    struct builder *b = &t->b;
    add_str(b, "general.architecture", "llama");
    add_u32(b, "llama.block_count", t->n_layer);
    add_u32(b, "llama.context_length", 128);
    add_u32(b, "llama.embedding_length", t->n_embd);
    add_u32(b, "llama.feed_forward_length", t->n_ff);
    add_u32(b, "llama.attention.head_count", t->n_head);
    if (t->n_head_kv) add_u32(b, "llama.attention.head_count_kv", t->n_head_kv);
    add_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (!t->no_key_length) {
        add_u32(b, "llama.attention.key_length", t->d_head);
        add_u32(b, "llama.attention.value_length", t->d_head);
    }
    if (t->no_tokens) return;
    add_array(b, "tokenizer.ggml.tokens", HL_META_STRING, t->n_vocab);
    for (uint32_t i = 0; i < t->n_vocab; i++) put_str(&b->values, "x");
}

/* Adds keys and tensors to t->b, the layers first. */
static void tiny_add(struct tiny *t) {
    add_hparams(t);
    for (unsigned l = 0; l < t->n_layer; l++) add_layer(t, l);
    add_weights(t, "token_embd.weight", t->type, t->n_embd, t->n_vocab);
    add_weights(t, "output_norm.weight", TYPE_F32, t->n_embd, 0);
    if (!t->tied) add_weights(t, "output.weight", t->type, t->n_embd, t->n_vocab);
    if (t->biases) add_weights(t, "output.bias", TYPE_F32, t->n_vocab, 0);
    if (t->rope_freqs) add_weights(t, "rope_freqs.weight", TYPE_F32, t->d_head / 2, 0);
    add_weights(t, "unused.weight", TYPE_F32, 100, 5);
}

/* A model that has taken all of a file. */
struct loaded {
    struct mem mem;
    struct pool *pool;
    struct model *m;
    uint8_t *bytes;
    size_t n;
    hl_status status; /* of the first call that failed, or of the last */
};

static hl_status push(struct model *m, const uint8_t *bytes, size_t n, size_t piece) {
    while (n > 0) {
        size_t room;
        uint8_t *window = model_window(m, &room);
        if (!window) return hl_error_code();
        if (room == 0) break;
        size_t k = room < n ? room : n;
        if (k > piece) k = piece;
        memcpy(window, bytes, k);
        TRY(model_commit(m, k));
        bytes += k;
        n -= k;
    }
    return model_finish(m);
}

static void load_bytes(struct loaded *l, uint8_t *bytes, size_t n, int n_threads, size_t piece) {
    *l = (struct loaded){.bytes = bytes, .n = n};
    l->pool = pool_new(n_threads);
    l->m = model_new(&l->mem, l->pool);
    l->status = push(l->m, bytes, n, piece);
}

static void load_tiny(struct loaded *l, struct tiny *t, int n_threads, size_t piece) {
    size_t n;
    uint8_t *bytes = gguf_built(&t->b, &n);
    load_bytes(l, bytes, n, n_threads, piece);
}

static void unload(struct loaded *l) {
    model_free(l->m);
    pool_free(l->pool);
    free(l->bytes);
    for (int i = 0; i < MEM_KINDS; i++) EXPECT_EQ(l->mem.used[i], 0);
}

/* The tiny model does not bind: loading ends with this status and these words, before any weight is kept. */
static void expect_unbound(struct tiny *t, hl_status status, const char *words) {
    struct loaded l;
    load_tiny(&l, t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, status);
    EXPECT_EQ(l.m->bind_status, status);
    EXPECT_CONTAINS(l.m->bind_message, words);
    EXPECT_CONTAINS(hl_error(), words);
    EXPECT(!model_ready(l.m));
    EXPECT_EQ(l.mem.used[MEM_WEIGHTS], 0);
    unload(&l);
}

/* Where tensor `name` is in the file: the last tensor ends with it. */
static const uint8_t *file_tensor(const struct loaded *l, const char *name, const struct gguf_tensor **t) {
    const struct gguf *g = l->m->gguf;
    uint64_t end = 0;
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        uint64_t e = gguf_tensor(g, i)->offset + gguf_tensor(g, i)->n_bytes;
        if (e > end) end = e;
    }
    *t = gguf_tensor(g, gguf_find_tensor(g, name));
    return l->bytes + (l->n - (size_t)end + (size_t)(*t)->offset);
}

/* The matrix holds the bits that the type's reader makes of the file's rows. */
static void expect_rows(const struct loaded *l, const char *name, const struct matrix *w) {
    const struct gguf_tensor *t;
    const uint8_t *src = file_tensor(l, name, &t);
    size_t n = (size_t)t->dims[0], row_bytes = (size_t)t->n_bytes / (size_t)t->dims[1];
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    EXPECT(w->data && w->n_in == t->dims[0] && w->n_out == t->dims[1] && w->type == t->type->panel);
    for (int row = 0; row < w->n_out; row++) {
        t->type->to_f32(want, src + (size_t)row * row_bytes, n);
        panel_row(got, w, row);
        EXPECT_MEM(got, want, n * sizeof *got);
    }
    free(want);
    free(got);
}

static void expect_vector(const struct loaded *l, const char *name, const float *v) {
    const struct gguf_tensor *t;
    const uint8_t *src = file_tensor(l, name, &t);
    REQUIRE(v);
    EXPECT_MEM(v, src, t->n_bytes);
}

TEST(every_field_holds_the_tensor_of_its_name) {
    static const uint32_t types[] = {TYPE_F32,  TYPE_F16,  TYPE_BF16, TYPE_Q4_0,
                                     TYPE_Q4_1, TYPE_Q5_0, TYPE_Q5_1, TYPE_Q8_0};
    for (int i = 0; i < 8; i++) {
        struct tiny t = tiny_of(types[i]);
        struct loaded l;
        tiny_add(&t);
        load_tiny(&l, &t, 1, 1000);
        EXPECT_EQ(l.status, HL_OK);
        EXPECT(model_ready(l.m));
        const struct layer *layer = &l.m->layers[1];
        expect_rows(&l, "blk.1.attn_q.weight", &layer->wq);
        expect_rows(&l, "blk.1.attn_k.weight", &layer->wk);
        expect_rows(&l, "blk.1.attn_v.weight", &layer->wv);
        expect_rows(&l, "blk.1.attn_output.weight", &layer->wo);
        expect_rows(&l, "blk.1.ffn_gate.weight", &layer->w_gate);
        expect_rows(&l, "blk.1.ffn_up.weight", &layer->w_up);
        expect_rows(&l, "blk.1.ffn_down.weight", &layer->w_down);
        expect_rows(&l, "blk.0.attn_q.weight", &l.m->layers[0].wq);
        expect_rows(&l, "token_embd.weight", &l.m->token_embd);
        expect_rows(&l, "output.weight", &l.m->output);
        EXPECT(!layer->bq && !layer->bo && !layer->b_gate && !l.m->rope_factors && !l.m->output_bias);
        unload(&l);
    }
}

TEST(vectors_and_biases_are_f32_in_their_fields) {
    struct tiny t = tiny_of(TYPE_Q8_0);
    struct loaded l;
    t.biases = t.rope_freqs = true;
    tiny_add(&t);
    load_tiny(&l, &t, 1, 333);
    EXPECT_EQ(l.status, HL_OK);
    const struct layer *layer = &l.m->layers[1];
    expect_vector(&l, "blk.1.attn_norm.weight", layer->attn_norm);
    expect_vector(&l, "blk.1.ffn_norm.weight", layer->ffn_norm);
    expect_vector(&l, "blk.1.attn_q.bias", layer->bq);
    expect_vector(&l, "blk.1.attn_k.bias", layer->bk);
    expect_vector(&l, "blk.1.attn_v.bias", layer->bv);
    expect_vector(&l, "blk.1.attn_output.bias", layer->bo);
    expect_vector(&l, "blk.1.ffn_gate.bias", layer->b_gate);
    expect_vector(&l, "blk.1.ffn_up.bias", layer->b_up);
    expect_vector(&l, "blk.1.ffn_down.bias", layer->b_down);
    expect_vector(&l, "output_norm.weight", l.m->output_norm);
    expect_vector(&l, "output.bias", l.m->output_bias);
    expect_vector(&l, "rope_freqs.weight", l.m->rope_factors);
    unload(&l);
}

TEST(without_an_output_matrix_the_embedding_is_used) {
    struct tiny t = tiny_of(TYPE_Q4_1);
    struct loaded l;
    t.tied = true;
    tiny_add(&t);
    load_tiny(&l, &t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_OK);
    EXPECT(l.m->output.data && l.m->output.data == l.m->token_embd.data);
    unload(&l);
}

TEST(packed_bits_do_not_depend_on_threads_or_on_how_the_file_is_cut) {
    struct tiny t = tiny_of(TYPE_Q5_1);
    struct loaded a, b;
    t.n_vocab = 333;
    tiny_add(&t);
    load_tiny(&a, &t, 1, SIZE_MAX);
    uint8_t *copy = malloc(a.n);
    memcpy(copy, a.bytes, a.n);
    load_bytes(&b, copy, a.n, 3, 1);
    EXPECT(a.status == HL_OK && b.status == HL_OK);
    EXPECT(a.m->packed_bytes == b.m->packed_bytes);
    EXPECT_MEM(a.m->shards[0].weights, b.m->shards[0].weights, a.m->packed_bytes);
    unload(&a);
    unload(&b);
}

TEST(loading_takes_the_packed_weights_and_one_tensor) {
    struct tiny t = tiny_of(TYPE_Q8_0);
    struct loaded l;
    t.n_vocab = 5000;
    tiny_add(&t);
    load_tiny(&l, &t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_OK);
    EXPECT_EQ(l.mem.used[MEM_WEIGHTS], l.m->packed_bytes);
    EXPECT_EQ(l.m->staging_bytes, 5000 * 64 / 32 * 34);
    EXPECT(l.mem.used[MEM_SCRATCH] < 100000);
    double beside = (double)l.mem.peak - l.m->packed_bytes - l.m->staging_bytes;
    EXPECT(beside < 8 * 65536);
    unload(&l);
}

TEST(hyperparameters_have_the_file_s_values_or_their_defaults) {
    struct tiny t = tiny_of(TYPE_F16);
    struct loaded l;
    add_u32(&t.b, "llama.rope.dimension_count", 8);
    add_f32(&t.b, "llama.rope.freq_base", 500000);
    add_str(&t.b, "llama.rope.scaling.type", "linear");
    add_f32(&t.b, "llama.rope.scaling.factor", 4);
    tiny_add(&t);
    load_tiny(&l, &t, 1, SIZE_MAX);
    const struct hparams *hp = &l.m->hp;
    EXPECT_EQ(l.status, HL_OK);
    EXPECT(hp->n_layer == 2 && hp->n_embd == 64 && hp->n_vocab == 70 && hp->n_ctx_train == 128 &&
           hp->n_ff == 96);
    EXPECT(hp->n_head == 4 && hp->n_head_kv == 2 && hp->d_head_k == 16 && hp->d_head_v == 16 &&
           hp->n_rot == 8);
    EXPECT(hp->norm_eps == 1e-5f && hp->rope_base == 500000 && hp->rope_scale == 0.25f &&
           hp->attn_scale == 0.25f);
    unload(&l);
    t = tiny_of(TYPE_F16);
    t.n_head_kv = 0;
    t.no_key_length = true;
    t.no_tokens = true;
    add_hparams(&t);
    t.n_head_kv = 4;
    for (unsigned i = 0; i < 2; i++) add_layer(&t, i);
    add_weights(&t, "token_embd.weight", TYPE_F16, 64, 70);
    add_weights(&t, "output_norm.weight", TYPE_F32, 64, 0);
    load_tiny(&l, &t, 1, SIZE_MAX);
    hp = &l.m->hp;
    EXPECT_EQ(l.status, HL_OK);
    EXPECT(hp->n_head_kv == 4 && hp->d_head_k == 16 && hp->d_head_v == 16 && hp->n_rot == 16 &&
           hp->n_vocab == 70);
    EXPECT(hp->rope_base == 10000 && hp->rope_scale == 1);
    unload(&l);
}

TEST(rope_scaling_keys_beside_rope_freqs_are_not_applied_again) {
    struct tiny t = tiny_of(TYPE_F16);
    struct loaded l;
    t.rope_freqs = true;
    add_str(&t.b, "llama.rope.scaling.type", "llama3");
    add_f32(&t.b, "llama.rope.scaling.factor", 32);
    tiny_add(&t);
    load_tiny(&l, &t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_OK);
    EXPECT(l.m->hp.rope_scale == 1 && l.m->rope_factors);
    unload(&l);
}

TEST(rope_scaling_that_is_not_built_in_is_refused_by_name) {
    struct tiny t = tiny_of(TYPE_F16);
    add_str(&t.b, "llama.rope.scaling.type", "ntk");
    tiny_add(&t);
    expect_unbound(&t, HL_EUNSUPPORTED, "'ntk'");
}

TEST(hyperparameters_that_contradict_themselves_are_refused) {
    static const uint32_t differ[] = {2, 4};
    struct tiny t = tiny_of(TYPE_F16);
    t.n_head_kv = 3;
    tiny_add(&t);
    expect_unbound(&t, HL_EFORMAT, "4 query heads cannot share 3");
    t = tiny_of(TYPE_F16);
    add_u32(&t.b, "llama.rope.dimension_count", 7);
    tiny_add(&t);
    expect_unbound(&t, HL_EFORMAT, "7 columns");
    t = tiny_of(TYPE_F16);
    add_u32(&t.b, "llama.rope.dimension_count", 18);
    tiny_add(&t);
    expect_unbound(&t, HL_EFORMAT, "'llama.rope.dimension_count' is 18; 2 to 16");
    t = tiny_of(TYPE_F16);
    t.n_head = 6;
    t.no_key_length = true;
    tiny_add(&t);
    expect_unbound(&t, HL_EFORMAT, "64 columns cannot be split into 6 heads");
    t = tiny_of(TYPE_F16);
    t.n_head_kv = 0;
    add_u32s(&t.b, "llama.attention.head_count_kv", differ, 2);
    tiny_add(&t);
    expect_unbound(&t, HL_EUNSUPPORTED, "2 in layer 0 and 4 in layer 1");
}

TEST(a_number_given_for_each_layer_is_taken_when_all_are_equal) {
    static const uint32_t same[] = {2, 2};
    struct tiny t = tiny_of(TYPE_F16);
    struct loaded l;
    t.n_head_kv = 0;
    add_u32s(&t.b, "llama.attention.head_count_kv", same, 2);
    add_hparams(&t);
    t.n_head_kv = 2;
    for (unsigned i = 0; i < 2; i++) add_layer(&t, i);
    add_weights(&t, "token_embd.weight", TYPE_F16, 64, 70);
    add_weights(&t, "output_norm.weight", TYPE_F32, 64, 0);
    load_tiny(&l, &t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_OK);
    EXPECT_EQ(l.m->hp.n_head_kv, 2);
    unload(&l);
}

TEST(every_required_tensor_is_missed_by_its_name) {
    static const char *const needed[] = {
        "token_embd.weight",     "output_norm.weight",  "blk.1.attn_norm.weight",   "blk.1.attn_q.weight",
        "blk.1.attn_k.weight",   "blk.1.attn_v.weight", "blk.1.attn_output.weight", "blk.1.ffn_norm.weight",
        "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight",
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char words[80];
        struct tiny t = tiny_of(TYPE_F16);
        t.without = needed[i];
        tiny_add(&t);
        snprintf(words, sizeof words, "'%s' is missing", needed[i]);
        expect_unbound(&t, HL_EFORMAT, words);
    }
}

TEST(tensors_of_a_wrong_shape_are_refused_by_name) {
    static const char *const names[] = {
        "token_embd.weight",   "output_norm.weight",       "output.weight",         "output.bias",
        "rope_freqs.weight",   "blk.0.attn_norm.weight",   "blk.0.attn_q.weight",   "blk.0.attn_k.weight",
        "blk.0.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight",
        "blk.0.ffn_up.weight", "blk.0.ffn_down.weight",    "blk.0.attn_q.bias",     "blk.0.attn_k.bias",
        "blk.0.attn_v.bias",   "blk.0.attn_output.bias",   "blk.0.ffn_gate.bias",   "blk.0.ffn_up.bias",
        "blk.0.ffn_down.bias",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char words[80];
        struct tiny t = tiny_of(TYPE_Q4_0);
        t.biases = t.rope_freqs = true;
        t.wrong = names[i];
        tiny_add(&t);
        snprintf(words, sizeof words, "'%s' has the shape", names[i]);
        expect_unbound(&t, HL_EFORMAT, words);
    }
}

TEST(a_type_that_is_not_built_in_is_refused_by_name_and_the_header_stays_readable) {
    struct tiny t = tiny_of(TYPE_F16);
    t.n_embd = 256;
    t.other_type = "output_norm.weight";
    tiny_add(&t);
    size_t n;
    uint8_t *bytes = gguf_built(&t.b, &n);
    struct loaded l;
    load_bytes(&l, bytes, n, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_EUNSUPPORTED);
    EXPECT_CONTAINS(l.m->bind_message, "'output_norm.weight' has type IQ2_XXS, which is not built in");
    EXPECT(gguf_has_header(l.m->gguf) && gguf_n_tensors(l.m->gguf) > 10);
    EXPECT_STR(gguf_tensor(l.m->gguf, gguf_find_tensor(l.m->gguf, "output_norm.weight"))->type->name,
               "IQ2_XXS");
    unload(&l);
}

TEST(a_header_that_does_not_bind_fails_only_when_weights_arrive) {
    struct tiny t = tiny_of(TYPE_F16);
    struct loaded l = {0};
    size_t n, room;
    t.without = "output_norm.weight";
    tiny_add(&t);
    l.bytes = gguf_built(&t.b, &n);
    l.m = model_new(&l.mem, NULL);
    uint8_t *window = model_window(l.m, &room);
    memcpy(window, l.bytes, n < room ? n : room);
    EXPECT_EQ(model_commit(l.m, n < room ? n : room), HL_OK);
    EXPECT(gguf_has_header(l.m->gguf));
    EXPECT_EQ(l.m->bind_status, HL_EFORMAT);
    EXPECT(model_window(l.m, &room) == NULL);
    EXPECT_EQ(hl_error_code(), HL_EFORMAT);
    unload(&l);
}

TEST(other_kinds_of_gguf_files_are_refused_by_their_kind) {
    struct tiny t = tiny_of(TYPE_F16);
    add_str(&t.b, "general.type", "adapter");
    tiny_add(&t);
    expect_unbound(&t, HL_EUNSUPPORTED, "'adapter'");
    t = tiny_of(TYPE_F16);
    add_str(&t.b, "general.architecture", "mamba");
    add_tensor(&t.b, "x", TYPE_F32, 4, 0, NULL);
    expect_unbound(&t, HL_EUNSUPPORTED, "architecture 'mamba' is not built in; there are: llama");
}

TEST(a_vocabulary_without_tensors_loads_but_is_not_ready) {
    struct tiny t = tiny_of(TYPE_F16);
    struct loaded l;
    add_hparams(&t);
    load_tiny(&l, &t, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_OK);
    EXPECT(!model_ready(l.m) && !l.m->has_tensors);
    EXPECT_EQ(l.m->bind_status, HL_EUNSUPPORTED);
    EXPECT_CONTAINS(l.m->bind_message, "no tensors");
    unload(&l);
}

TEST(the_embedding_and_the_vocabulary_must_agree) {
    struct tiny t = tiny_of(TYPE_F16);
    add_array(&t.b, "tokenizer.ggml.tokens", HL_META_STRING, 0);
    t.no_tokens = true;
    tiny_add(&t);
    expect_unbound(&t, HL_EFORMAT, "has 70 rows and the vocabulary 0 tokens");
}

TEST(a_scale_that_is_no_number_is_refused_with_its_tensor) {
    struct tiny t = tiny_of(TYPE_Q8_0);
    struct loaded l;
    size_t n;
    tiny_add(&t);
    uint8_t *bytes = gguf_built(&t.b, &n);
    load_bytes(&l, bytes, n, 1, SIZE_MAX);
    const struct gguf_tensor *tensor;
    size_t at = (size_t)(file_tensor(&l, "blk.1.ffn_up.weight", &tensor) - bytes);
    uint8_t *copy = malloc(n);
    memcpy(copy, bytes, n);
    unload(&l);
    copy[at + 34 * 100 + 1] = 0x7f;
    load_bytes(&l, copy, n, 1, SIZE_MAX);
    EXPECT_EQ(l.status, HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), "'blk.1.ffn_up.weight' has a scale");
    EXPECT(!model_ready(l.m));
    unload(&l);
}

/* Only the list of tensors is there: the sizes are refused before any weight. */
static void expect_too_large(uint64_t n_vocab, uint64_t n_layer) {
    struct tiny t = tiny_of(TYPE_F32);
    t.no_tokens = true;
    t.n_embd = 4096;
    t.n_ff = 16384;
    t.n_head = t.n_head_kv = 32;
    t.d_head = 128;
    t.n_layer = (uint32_t)n_layer;
    add_hparams(&t);
    uint64_t at = 0, embd[] = {4096, n_vocab}, square[] = {4096, 4096}, up[] = {4096, 16384},
             down[] = {16384, 4096};
#define INFO(NAME, N_DIMS, DIMS)                                                                             \
    do {                                                                                                     \
        add_info(&t.b, NAME, TYPE_F32, N_DIMS, DIMS, at);                                                    \
        at += DIMS[0] * (N_DIMS == 2 ? DIMS[1] : 1) * 4;                                                     \
    } while (0)
    INFO("token_embd.weight", 2, embd);
    INFO("output_norm.weight", 1, square);
    for (unsigned l = 0; l < n_layer; l++) {
        static const char *const names[] = {"attn_norm",   "ffn_norm", "attn_q", "attn_k",  "attn_v",
                                            "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
        for (int i = 0; i < 9; i++) {
            char name[64];
            const uint64_t *dims = i < 6 ? square : i < 8 ? up : down;
            snprintf(name, sizeof name, "blk.%u.%s.weight", l, names[i]);
            if (i < 2) INFO(name, 1, dims);
            else INFO(name, 2, dims);
        }
    }
    put(&t.b.data, NULL, 64);
    expect_unbound(&t, HL_EMEMORY, "needs more than 4 GiB of memory");
}

TEST(models_beyond_what_wasm32_can_address_are_refused_everywhere) {
    expect_too_large(200000, 1); /* a tensor of 3.3 GB */
    expect_too_large(1000, 5);   /* 5 x 1.07 GB of layers */
}

/* Values as transformers' config.json of SmolLM2-135M-Instruct has them. */
TEST(SmolLM2_binds_with_the_hyperparameters_of_its_config) {
    FILE *f = fopen("models/cache/SmolLM2-135M-Instruct.Q4_1.gguf", "rb");
    if (!f) {
        test_skip("models/cache/SmolLM2-135M-Instruct.Q4_1.gguf is not there: make setup");
        return;
    }
    struct mem mem = {0};
    struct model *m = model_new(&mem, NULL);
    while (!gguf_has_header(m->gguf)) {
        size_t room;
        uint8_t *window = model_window(m, &room);
        REQUIRE(window && room > 0);
        REQUIRE(model_commit(m, fread(window, 1, room, f)) == HL_OK);
    }
    fclose(f);
    EXPECT_EQ(m->bind_status, HL_OK);
    EXPECT_STR(m->arch->name, "llama");
    const struct hparams *hp = &m->hp;
    EXPECT(hp->n_layer == 30 && hp->n_embd == 576 && hp->n_vocab == 49152 && hp->n_ctx_train == 8192 &&
           hp->n_ff == 1536);
    EXPECT(hp->n_head == 9 && hp->n_head_kv == 3 && hp->d_head_k == 64 && hp->d_head_v == 64 &&
           hp->n_rot == 64);
    EXPECT(hp->norm_eps == 1e-5f && hp->rope_base == 100000 && hp->rope_scale == 1 &&
           hp->attn_scale == 0.125f);
    EXPECT_EQ(gguf_file_bytes(m->gguf), 98362432);
    EXPECT(m->packed_bytes <= 98362432);
    model_free(m);
    for (int i = 0; i < MEM_KINDS; i++) EXPECT_EQ(mem.used[i], 0);
}
