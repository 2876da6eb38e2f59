#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/bind.h"

/* Far above any model of today; they keep every product of two of them within int32. */
enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 1024,
    MAX_HEAD_WIDTH = 4096,
    MAX_EMBD = 1 << 16,
    MAX_FF = 1 << 20,
    MAX_CONTEXT = 1 << 30,
};

/* "llama" and "block_count" make the key "llama.block_count". */
struct key {
    char text[96];
};

static struct key key_of(const struct arch *arch, const char *name) {
    struct key k;
    snprintf(k.text, sizeof k.text, "%s.%s", arch->name, name);
    return k;
}

static hl_status need(const struct gguf *g, const char *key) {
    CHECK(gguf_find(g, key, strlen(key)) >= 0, HL_EFORMAT, "model: metadata '%s' is missing", key);
    return HL_OK;
}

static hl_status need_int(const struct gguf *g, const struct arch *arch, const char *name, int lo, int hi, int *out) {
    struct key k = key_of(arch, name);
    TRY(need(g, k.text));
    return gguf_get_int(g, k.text, lo, hi, 0, out);
}

static hl_status get_int(const struct gguf *g, const struct arch *arch, const char *name, int lo, int hi, int missing, int *out) {
    return gguf_get_int(g, key_of(arch, name).text, lo, hi, missing, out);
}

/* A number that files give once or for each layer; layers that differ are not built in. */
static hl_status get_per_layer(const struct gguf *g, const struct arch *arch, const char *name, int hi, int n_layer, int missing,
                               int *out) {
    struct key k = key_of(arch, name);
    int32_t values[MAX_LAYERS];
    bool found;
    TRY(gguf_get_ints(g, k.text, 1, hi, n_layer, values, &found));
    CHECK(found || missing > 0, HL_EFORMAT, "model: metadata '%s' is missing", k.text);
    *out = found ? values[0] : missing;
    for (int l = 1; found && l < n_layer; l++) {
        CHECK(values[l] == *out, HL_EUNSUPPORTED, "model: '%s' is %d in layer 0 and %d in layer %d: layers that differ are "
              "not built in", k.text, *out, values[l], l);
    }
    return HL_OK;
}

static hl_status read_counts(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    int n_expert;
    TRY(need_int(g, arch, "block_count", 1, MAX_LAYERS, &hp->n_layer));
    TRY(need_int(g, arch, "context_length", 1, MAX_CONTEXT, &hp->n_ctx_train));
    TRY(need_int(g, arch, "embedding_length", 1, MAX_EMBD, &hp->n_embd));
    TRY(get_per_layer(g, arch, "feed_forward_length", MAX_FF, hp->n_layer, 0, &hp->n_ff));
    TRY(get_int(g, arch, "expert_count", 0, INT32_MAX, 0, &n_expert));
    CHECK(n_expert == 0, HL_EUNSUPPORTED, "model: a mixture of %d experts is not built in", n_expert);
    return HL_OK;
}

static hl_status read_heads(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    TRY(get_per_layer(g, arch, "attention.head_count", MAX_HEADS, hp->n_layer, 0, &hp->n_head));
    TRY(get_per_layer(g, arch, "attention.head_count_kv", MAX_HEADS, hp->n_layer, hp->n_head, &hp->n_head_kv));
    CHECK(hp->n_head % hp->n_head_kv == 0, HL_EFORMAT, "model: %d query heads cannot share %d key heads evenly", hp->n_head,
          hp->n_head_kv);
    TRY(get_int(g, arch, "attention.key_length", 1, MAX_HEAD_WIDTH, 0, &hp->d_head_k));
    TRY(get_int(g, arch, "attention.value_length", 1, MAX_HEAD_WIDTH, 0, &hp->d_head_v));
    int width = hp->n_embd / hp->n_head;
    bool even = hp->n_embd % hp->n_head == 0 && width <= MAX_HEAD_WIDTH;
    CHECK((hp->d_head_k > 0 && hp->d_head_v > 0) || even, HL_EFORMAT, "model: %d columns cannot be split into %d heads",
          hp->n_embd, hp->n_head);
    if (hp->d_head_k == 0) hp->d_head_k = width;
    if (hp->d_head_v == 0) hp->d_head_v = width;
    hp->attn_scale = 1.0f / sqrtf((float)hp->d_head_k);
    hp->embed_scale = hp->residual_scale = hp->logit_scale = hp->rope_mscale = 1;
    return HL_OK;
}

static bool str_is(struct str s, const char *text) {
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* The factors in rope_freqs.weight already hold Llama 3's scaling: scaling keys beside them are not applied again. */
static hl_status read_rope_scale(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    struct str type;
    float factor;
    hp->rope_scale = 1;
    if (gguf_find_tensor(g, "rope_freqs.weight") >= 0) return HL_OK;
    TRY(gguf_get_float(g, key_of(arch, "rope.scale_linear").text, 0, 1e6, 0, &factor)); /* the key's old name */
    TRY(gguf_get_float(g, key_of(arch, "rope.scaling.factor").text, 0, 1e6, factor, &factor));
    TRY(gguf_get_str(g, key_of(arch, "rope.scaling.type").text, (struct str){"linear", 6}, &type));
    CHECK(str_is(type, "none") || str_is(type, "linear"), HL_EUNSUPPORTED, "model: rope scaling '%s' is not built in for %s",
          gguf_label(type).text, arch->name);
    if (str_is(type, "linear") && factor > 0) hp->rope_scale = 1 / factor;
    return HL_OK;
}

static hl_status read_rope(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    TRY(get_int(g, arch, "rope.dimension_count", 2, hp->d_head_k, hp->d_head_k, &hp->n_rot));
    CHECK(hp->n_rot % 2 == 0, HL_EFORMAT, "model: %d columns of a head are to be rotated in pairs", hp->n_rot);
    TRY(gguf_get_float(g, key_of(arch, "rope.freq_base").text, 1, 1e30, 10000, &hp->rope_base));
    return read_rope_scale(hp, arch, g);
}

hl_status hparams_read(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    struct key eps = key_of(arch, "attention.layer_norm_rms_epsilon");
    TRY(read_counts(hp, arch, g));
    TRY(read_heads(hp, arch, g));
    TRY(read_rope(hp, arch, g));
    TRY(need(g, eps.text));
    return gguf_get_float(g, eps.text, 0, 1, 0, &hp->norm_eps);
}
