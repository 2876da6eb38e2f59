/* The C ABI: argument checks, and who owns what. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder/decoder.h"
#include "model/model.h"
#include "sampler/sampler.h"
#include "session/session.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

#ifndef HL_BUILD_ID
#define HL_BUILD_ID "unnamed"
#endif

enum { MAX_THREADS = 64 };

struct hl_model {
    struct mem mem;
    struct pool *pool;
    struct model *model;
    const struct pretokenizer *pretokenizer; /* instead of the file's; NULL: the file's */
    struct tokenizer *tokenizer;             /* once the header is there */
    struct decoder *decoder;                 /* once the weights are there */
    hl_precision precision;
    hl_status failed; /* loading has ended with this */
};

const char *hl_error(void) { return status_message(); }

const char *hl_build_id(void) { return HL_BUILD_ID; }

/* ---- loading */

static hl_model *model_refused(hl_model *m, hl_status code, const char *what) {
    hl_model_free(m);
    status_set(code, "model: %s", what);
    return NULL;
}

hl_model *hl_model_new(int n_threads, hl_precision precision) {
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return model_refused(NULL, HL_EARGUMENT, "threads must be 1 to 64");
    if (precision != HL_FAST && precision != HL_HIGH)
        return model_refused(NULL, HL_EARGUMENT, "there is no such precision");
    hl_model *m = calloc(1, sizeof *m);
    if (!m) return model_refused(m, HL_EMEMORY, "no memory");
    m->precision = precision;
    m->pool = pool_new(n_threads);
    if (!m->pool) return model_refused(m, HL_EARGUMENT, "the threads cannot be had: ask for fewer");
    m->model = model_new(&m->mem, m->pool);
    if (!m->model) return model_refused(m, HL_EMEMORY, "no memory");
    return m;
}

void hl_model_free(hl_model *m) {
    if (!m) return;
    decoder_free(m->decoder);
    tokenizer_free(m->tokenizer);
    model_free(m->model);
    pool_free(m->pool);
    free(m);
}

hl_status hl_model_set_pretokenizer(hl_model *m, const char *name) {
    char names[256];
    struct str s = {name, strlen(name)};
    CHECK(!hl_model_has_header(m), HL_ESTATE, "tokenizer: the header has arrived already");
    pretokenizer_names(names, sizeof names);
    const struct pretokenizer *pre = pretokenizer_find(s);
    CHECK(pre, HL_EARGUMENT, "tokenizer: there is no pre-tokenizer \"%s\"; there are %s", gguf_label(s).text,
          names);
    m->pretokenizer = pre;
    return HL_OK;
}

static hl_status fail(hl_model *m, hl_status status) {
    m->failed = status;
    return status;
}

uint8_t *hl_model_window(hl_model *m, size_t *size) {
    *size = 0;
    if (m->failed) {
        status_set(HL_ESTATE, "model: loading has failed before: load it anew");
        return NULL;
    }
    return model_window(m->model, size);
}

hl_status hl_model_commit(hl_model *m, size_t n) {
    CHECK(!m->failed, HL_ESTATE, "model: loading has failed before: load it anew");
    hl_status status = model_commit(m->model, n);
    if (status != HL_OK) return fail(m, status);
    if (!m->tokenizer && hl_model_has_header(m)) {
        status = tokenizer_new(&m->tokenizer, &m->mem, m->model->gguf, m->pretokenizer);
        if (status != HL_OK) return fail(m, status);
    }
    return HL_OK;
}

hl_status hl_model_next_part(hl_model *m, bool headers_only) {
    CHECK(!m->failed, HL_ESTATE, "model: loading has failed before: load it anew");
    hl_status status = model_next_part(m->model, headers_only);
    return status == HL_OK ? HL_OK : fail(m, status);
}

hl_status hl_model_finish(hl_model *m) {
    CHECK(!m->failed, HL_ESTATE, "model: loading has failed before: load it anew");
    hl_status status = model_finish(m->model);
    if (status == HL_OK && !m->decoder && model_ready(m->model))
        status = decoder_new(&m->decoder, m->model, m->precision);
    return status == HL_OK ? HL_OK : fail(m, status);
}

bool hl_model_has_header(const hl_model *m) { return gguf_has_header(m->model->gguf); }

int hl_model_parts(const hl_model *m) { return model_n_headers(m->model); }

static hl_status need_header(const hl_model *m) {
    CHECK(hl_model_has_header(m), HL_ESTATE, "model: the header has not arrived yet");
    return HL_OK;
}

hl_status hl_model_check(const hl_model *m) {
    TRY(need_header(m));
    CHECK(m->model->bind_status == HL_OK, m->model->bind_status, "%s", m->model->bind_message);
    return HL_OK;
}

/* ---- facts */

static hl_attention_kind attention_kind(const struct hparams *hp) {
    if (hp->kv_lora_rank > 0) return HL_MLA;
    if (hp->n_head_kv == hp->n_head) return HL_MHA;
    return hp->n_head_kv == 1 ? HL_MQA : HL_GQA;
}

static void info_tokens(const struct tokenizer *t, struct hl_info *out) {
    struct token_ids ids = tokenizer_ids(t);
    out->bos = ids.bos;
    out->eos = ids.eos;
    out->eot = ids.eot;
    out->unk = ids.unk;
    out->pad = ids.pad;
    out->add_bos = tokenizer_adds_bos(t);
    out->add_eos = tokenizer_adds_eos(t);
}

static double n_params(const struct model *m) {
    double n = 0;
    for (int i = 0; i < model_n_tensors(m); i++) {
        const int32_t *dims = model_tensor(m, i)->dims;
        n += (double)dims[0] * dims[1] * dims[2] * dims[3];
    }
    return n;
}

hl_status hl_model_info(const hl_model *m, struct hl_info *out) {
    TRY(need_header(m));
    const struct hparams *hp = &m->model->hp;
    *out = (struct hl_info){
        .n_layer = hp->n_layer,
        .n_head = hp->n_head,
        .n_head_kv = hp->n_head_kv,
        .n_embd = hp->n_embd,
        .n_ff = hp->n_ff > 0 ? hp->n_ff : hp->n_ff_exp,
        .n_vocab = m->tokenizer ? tokenizer_n_vocab(m->tokenizer) : hp->n_vocab,
        .n_ctx_train = hp->n_ctx_train,
        .d_head_k = hp->d_head_k,
        .d_head_v = hp->d_head_v,
        .kv_lora_rank = hp->kv_lora_rank,
        .d_rope = hp->kv_lora_rank > 0 ? hp->n_rot : 0,
        .n_expert = hp->n_expert,
        .n_expert_used = hp->n_expert_used,
        .sliding_window = hp->window,
        .attention = attention_kind(hp),
        .n_parts = m->model->n_split,
        .n_params = n_params(m->model),
        .file_bytes = model_file_bytes(m->model),
        .packed_bytes = m->model->packed_bytes,
        .staging_bytes = m->model->staging_bytes,
    };
    if (m->model->bind_status == HL_OK && m->model->has_tensors)
        out->scratch_bytes = (double)decoder_scratch_bytes(m->model);
    if (m->tokenizer) info_tokens(m->tokenizer, out);
    return HL_OK;
}

int hl_model_window_of(const hl_model *m, int layer) {
    TRY(need_header(m));
    const struct model *model = m->model;
    CHECK(model->bind_status == HL_OK && model->layers, HL_ESTATE, "model: the header does not bind");
    CHECK(layer >= 0 && layer < model->hp.n_layer, HL_EARGUMENT, "model: layer %d, the model has 0 to %d",
          layer, model->hp.n_layer - 1);
    return model->layers[layer].window;
}

const char *hl_model_arch(const hl_model *m) { return m->model->arch ? m->model->arch->name : ""; }

void hl_model_memory(const hl_model *m, struct hl_memory *out) {
    const size_t *used = m->mem.used;
    *out = (struct hl_memory){used[MEM_WEIGHTS], used[MEM_CACHE], used[MEM_SCRATCH], used[MEM_TOKENIZER],
                              m->mem.peak};
}

int hl_meta_count(const hl_model *m) { return hl_model_has_header(m) ? gguf_n_values(m->model->gguf) : 0; }

static bool meta_in_range(const hl_model *m, int i) { return i >= 0 && i < hl_meta_count(m); }

static bool element_in_range(const hl_model *m, int i, int j) {
    return meta_in_range(m, i) && j >= 0 && j < gguf_value(m->model->gguf, i).n;
}

static const char *text(struct str s, size_t *n) {
    *n = s.n;
    return s.p;
}

const char *hl_meta_key(const hl_model *m, int i, size_t *n) {
    return text(meta_in_range(m, i) ? gguf_value(m->model->gguf, i).key : (struct str){NULL, 0}, n);
}

int hl_meta_find(const hl_model *m, const char *key, size_t n) {
    return hl_model_has_header(m) ? gguf_find(m->model->gguf, key, n) : -1;
}

hl_meta_type hl_meta_value_type(const hl_model *m, int i) {
    return meta_in_range(m, i) ? gguf_value(m->model->gguf, i).type : HL_META_U8;
}

int hl_meta_length(const hl_model *m, int i) {
    if (!meta_in_range(m, i)) return -1;
    struct gguf_value v = gguf_value(m->model->gguf, i);
    return v.is_array ? v.n : -1;
}

double hl_meta_number(const hl_model *m, int i, int j) {
    return element_in_range(m, i, j) ? gguf_number(m->model->gguf, i, j) : NAN;
}

const char *hl_meta_string(const hl_model *m, int i, int j, size_t *n) {
    return text(element_in_range(m, i, j) ? gguf_string(m->model->gguf, i, j) : (struct str){NULL, 0}, n);
}

int hl_tensor_count(const hl_model *m) { return model_n_tensors(m->model); }

static const struct gguf_tensor *tensor_at(const hl_model *m, int i) {
    return i >= 0 && i < hl_tensor_count(m) ? model_tensor(m->model, i) : NULL;
}

const char *hl_tensor_name(const hl_model *m, int i, size_t *n) {
    const struct gguf_tensor *t = tensor_at(m, i);
    return text(t ? t->name : (struct str){NULL, 0}, n);
}

const char *hl_tensor_type(const hl_model *m, int i) {
    const struct gguf_tensor *t = tensor_at(m, i);
    return t ? t->type->name : "";
}

int hl_tensor_dims(const hl_model *m, int i, int32_t dims[4]) {
    const struct gguf_tensor *t = tensor_at(m, i);
    for (int k = 0; k < 4; k++) dims[k] = t ? t->dims[k] : 1;
    return t ? t->n_dims : 0;
}

double hl_tensor_bytes(const hl_model *m, int i) {
    const struct gguf_tensor *t = tensor_at(m, i);
    return t ? (double)t->n_bytes : 0;
}

double hl_tensor_start(const hl_model *m, int i, int32_t *part) {
    int j = 0;
    *part = 0;
    if (!tensor_at(m, i)) return 0;
    *part = model_tensor_part(m->model, i, &j);
    return (double)gguf_tensor_start(m->model->shards[*part].gguf, j);
}

/* ---- tokenizer */

static hl_status need_tokenizer(const hl_model *m) {
    CHECK(m->tokenizer, HL_ESTATE, "tokenizer: the header has not arrived yet");
    return HL_OK;
}

int hl_tokenize(hl_model *m, const char *txt, size_t n, int flags, int32_t *ids, int capacity) {
    TRY(need_tokenizer(m));
    return tokenizer_encode(m->tokenizer, txt, n, flags, ids, capacity);
}

const char *hl_token_text(hl_model *m, int32_t id, size_t *n) {
    *n = 0;
    return need_tokenizer(m) == HL_OK ? tokenizer_text(m->tokenizer, id, n) : NULL;
}

bool hl_token_is_end(const hl_model *m, int32_t id) {
    return m->tokenizer && id >= 0 && id < tokenizer_n_vocab(m->tokenizer) &&
           tokenizer_is_end(m->tokenizer, id);
}

bool hl_token_is_control(const hl_model *m, int32_t id) {
    return m->tokenizer && id >= 0 && id < tokenizer_n_vocab(m->tokenizer) &&
           tokenizer_type(m->tokenizer, id) == TOKEN_CONTROL;
}

hl_detokenizer *hl_detokenizer_new(hl_model *m, int flags) {
    return need_tokenizer(m) == HL_OK ? (hl_detokenizer *)detokenizer_new(m->tokenizer, flags) : NULL;
}

void hl_detokenizer_free(hl_detokenizer *d) { detokenizer_free((struct detokenizer *)d); }

const char *hl_detokenizer_push(hl_detokenizer *d, int32_t id, size_t *n) {
    return detokenizer_push((struct detokenizer *)d, id, n);
}

const char *hl_detokenizer_flush(hl_detokenizer *d, size_t *n) {
    return detokenizer_flush((struct detokenizer *)d, n);
}

/* ---- session */

static struct session *session_of(const hl_session *s) { return (struct session *)s; }

hl_session *hl_session_new(hl_model *m, int n_ctx, hl_kv_type type) {
    struct session *s = NULL;
    if (!m->decoder) {
        status_set(HL_ESTATE, "session: the model's weights are not loaded");
        return NULL;
    }
    return session_new(&s, m->model, m->decoder, n_ctx, type) == HL_OK ? (hl_session *)s : NULL;
}

void hl_session_free(hl_session *s) { session_free(session_of(s)); }

hl_status hl_feed(hl_session *s, const int32_t *tokens, int n) {
    return session_feed(session_of(s), tokens, n);
}

const float *hl_logits(const hl_session *s) { return session_logits(session_of(s)); }

int hl_session_length(const hl_session *s) { return session_length(session_of(s)); }

const int32_t *hl_session_tokens(const hl_session *s) { return session_tokens(session_of(s)); }

int hl_session_keeps(const hl_session *s, int n) { return session_keeps(session_of(s), n); }

hl_session *hl_session_fork(const hl_session *s) {
    struct session *fork = NULL;
    return session_fork(&fork, session_of(s)) == HL_OK ? (hl_session *)fork : NULL;
}

size_t hl_session_save_bytes(const hl_session *s) { return session_save_bytes(session_of(s), HL_BUILD_ID); }

void hl_session_save(const hl_session *s, uint32_t note, uint8_t *out) {
    session_save(session_of(s), HL_BUILD_ID, note, out);
}

hl_status hl_session_can_restore(const hl_session *s, const uint8_t *head, size_t n) {
    return session_can_restore(session_of(s), HL_BUILD_ID, head, n);
}

hl_status hl_session_restore(hl_session *s, const uint8_t *bytes, size_t n, uint32_t *note) {
    return session_restore(session_of(s), HL_BUILD_ID, bytes, n, note);
}

hl_status hl_session_rewind(hl_session *s, int n) { return session_rewind(session_of(s), n); }

hl_status hl_session_set_mla(hl_session *s, hl_mla mode) { return session_set_mla(session_of(s), mode); }

hl_status hl_session_cache(const hl_session *s, int layer, struct hl_cache *out) {
    return session_cache(session_of(s), layer, out);
}

hl_status hl_tap_set(hl_session *s, hl_tap tap, int layer, bool on) {
    return taps_set(session_taps(session_of(s)), tap, layer, on);
}

const float *hl_tap_read(const hl_session *s, hl_tap tap, int layer, int32_t shape[3]) {
    return taps_read(session_taps(session_of(s)), tap, layer, shape);
}

/* ---- sampler */

static struct sampler *sampler_of(hl_sampler *s) { return (struct sampler *)s; }

hl_sampler *hl_sampler_new(const struct hl_sampler_params *p) {
    struct sampler *s = NULL;
    return sampler_new(&s, p) == HL_OK ? (hl_sampler *)s : NULL;
}

void hl_sampler_free(hl_sampler *s) { sampler_free(sampler_of(s)); }

hl_status hl_sampler_accept(hl_sampler *s, int32_t id) { return sampler_accept(sampler_of(s), id); }

int32_t hl_sampler_sample(hl_sampler *s, const float *logits, int n_vocab) {
    return sampler_sample(sampler_of(s), logits, n_vocab);
}

hl_status hl_sampler_probs(hl_sampler *s, const float *logits, int n_vocab, float *probs) {
    return sampler_probs(sampler_of(s), logits, n_vocab, probs);
}

float hl_top_logprobs(const float *logits, int n_vocab, int32_t id, int k, int32_t *ids, float *logprobs) {
    return top_logprobs(logits, n_vocab, id, k, ids, logprobs);
}
