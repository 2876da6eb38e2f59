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
    MAX_LATENT = 4096,
    MAX_EXPERTS = 1024,
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

static hl_status need_int(const struct gguf *g, const struct arch *arch, const char *name, int lo, int hi,
                          int *out) {
    struct key k = key_of(arch, name);
    TRY(need(g, k.text));
    return gguf_get_int(g, k.text, lo, hi, 0, out);
}

static hl_status get_int(const struct gguf *g, const struct arch *arch, const char *name, int lo, int hi,
                         int missing, int *out) {
    return gguf_get_int(g, key_of(arch, name).text, lo, hi, missing, out);
}

/* A number that files give once or for each layer; layers that differ are not built in. */
static hl_status get_per_layer(const struct gguf *g, const struct arch *arch, const char *name, int hi,
                               int n_layer, int missing, int *out) {
    struct key k = key_of(arch, name);
    int32_t values[MAX_LAYERS];
    bool found;
    TRY(gguf_get_ints(g, k.text, 1, hi, n_layer, values, &found));
    CHECK(found || missing > 0, HL_EFORMAT, "model: metadata '%s' is missing", k.text);
    *out = found ? values[0] : missing;
    for (int l = 1; found && l < n_layer; l++) {
        CHECK(values[l] == *out, HL_EUNSUPPORTED,
              "model: '%s' is %d in layer 0 and %d in layer %d: layers that differ are "
              "not built in",
              k.text, *out, values[l], l);
    }
    return HL_OK;
}

static hl_status get_float(const struct gguf *g, const struct arch *arch, const char *name, double lo,
                           double hi, float missing, float *out) {
    return gguf_get_float(g, key_of(arch, name).text, lo, hi, missing, out);
}

static bool has_key(const struct gguf *g, const struct arch *arch, const char *name) {
    struct key k = key_of(arch, name);
    return gguf_find(g, k.text, strlen(k.text)) >= 0;
}

/* ---- widths and heads */

static hl_status read_counts(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    TRY(need_int(g, arch, "block_count", 1, MAX_LAYERS, &hp->n_layer));
    TRY(need_int(g, arch, "context_length", 1, MAX_CONTEXT, &hp->n_ctx_train));
    return need_int(g, arch, "embedding_length", 1, MAX_EMBD, &hp->n_embd);
}

/* Widths of heads from the keys key_length and value_length with this ending; what is missing is shared
 * out evenly. */
static hl_status read_widths(struct hparams *hp, const struct arch *arch, const struct gguf *g,
                             const char *key, const char *value) {
    TRY(get_int(g, arch, key, 1, MAX_HEAD_WIDTH, 0, &hp->d_head_k));
    TRY(get_int(g, arch, value, 1, MAX_HEAD_WIDTH, 0, &hp->d_head_v));
    int width = hp->n_embd / hp->n_head;
    bool even = hp->n_embd % hp->n_head == 0 && width <= MAX_HEAD_WIDTH;
    CHECK((hp->d_head_k > 0 && hp->d_head_v > 0) || even, HL_EFORMAT,
          "model: %d columns cannot be split into %d heads", hp->n_embd, hp->n_head);
    if (hp->d_head_k == 0) hp->d_head_k = width;
    if (hp->d_head_v == 0) hp->d_head_v = width;
    return HL_OK;
}

/* Files say key_length and value_length of whole heads, or (since llama.cpp absorbs too) of the latent
 * row, and of whole heads in keys of their own. */
static hl_status read_mla(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    bool absorbed = has_key(g, arch, "attention.key_length_mla");
    TRY(need_int(g, arch, "attention.kv_lora_rank", 1, MAX_LATENT, &hp->kv_lora_rank));
    TRY(get_int(g, arch, "attention.q_lora_rank", 0, MAX_EMBD, 0, &hp->q_lora_rank));
    if (absorbed) TRY(read_widths(hp, arch, g, "attention.key_length_mla", "attention.value_length_mla"));
    else TRY(read_widths(hp, arch, g, "attention.key_length", "attention.value_length"));
    TRY(need_int(g, arch, "rope.dimension_count", 2, hp->d_head_k - 1, &hp->n_rot));
    hp->d_nope = hp->d_head_k - hp->n_rot;
    hp->n_head_kv = 1;
    return HL_OK;
}

static hl_status read_heads(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    TRY(get_per_layer(g, arch, "attention.head_count", MAX_HEADS, hp->n_layer, 0, &hp->n_head));
    if (arch->attn == ATTN_MLA) return read_mla(hp, arch, g);
    TRY(get_per_layer(g, arch, "attention.head_count_kv", MAX_HEADS, hp->n_layer, hp->n_head,
                      &hp->n_head_kv));
    CHECK(hp->n_head % hp->n_head_kv == 0, HL_EFORMAT,
          "model: %d query heads cannot share %d key heads evenly", hp->n_head, hp->n_head_kv);
    TRY(read_widths(hp, arch, g, "attention.key_length", "attention.value_length"));
    return get_int(g, arch, "rope.dimension_count", 2, hp->d_head_k, hp->d_head_k, &hp->n_rot);
}

/* ---- feed-forward and experts */

/* A choice is possible whatever the router says: the groups that are kept hold enough experts. */
static hl_status read_groups(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    int groups;
    TRY(get_int(g, arch, "expert_group_count", 0, hp->n_expert, 1, &groups));
    hp->n_expert_groups = groups > 0 ? groups : 1;
    TRY(get_int(g, arch, "expert_group_used_count", 0, hp->n_expert_groups, hp->n_expert_groups,
                &hp->n_groups_used));
    if (hp->n_groups_used == 0) hp->n_groups_used = hp->n_expert_groups;
    CHECK(hp->n_expert % hp->n_expert_groups == 0, HL_EFORMAT,
          "model: %d experts cannot be split into %d groups", hp->n_expert, hp->n_expert_groups);
    int open = hp->n_expert / hp->n_expert_groups * hp->n_groups_used;
    CHECK(open >= hp->n_expert_used, HL_EFORMAT,
          "model: %d experts are to be chosen from %d groups that hold %d", hp->n_expert_used,
          hp->n_groups_used, open);
    return HL_OK;
}

static hl_status read_gate(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    int gate;
    TRY(get_int(g, arch, "expert_gating_func", 0, INT32_MAX, GATE_SOFTMAX, &gate));
    if (gate == 0) gate = GATE_SOFTMAX;
    CHECK(gate == GATE_SOFTMAX || gate == GATE_SIGMOID, HL_EUNSUPPORTED,
          "model: gating function %d of the experts is not built in; there are 1 (softmax) and 2 (sigmoid)",
          gate);
    hp->expert_gate = (enum gate_kind)gate;
    TRY(gguf_get_bool(g, key_of(arch, "expert_weights_norm").text, arch->expert_norm, &hp->expert_norm));
    TRY(get_float(g, arch, "expert_weights_scale", 0, 1e6, 1, &hp->expert_scale));
    if (hp->expert_scale == 0) hp->expert_scale = 1;
    return HL_OK;
}

static hl_status read_experts(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    int n_shared;
    TRY(get_int(g, arch, "leading_dense_block_count", 0, MAX_LAYERS, 0, &hp->n_dense));
    TRY(get_int(g, arch, "expert_count", 0, INT32_MAX, 0, &hp->n_expert));
    if (hp->n_dense >= hp->n_layer) hp->n_expert = 0;
    if (hp->n_expert == 0) {
        hp->n_dense = hp->n_layer;
        return HL_OK;
    }
    CHECK(arch->experts, HL_EUNSUPPORTED, "model: a mixture of %d experts is not built in for %s",
          hp->n_expert, arch->name);
    CHECK(hp->n_expert <= MAX_EXPERTS, HL_EFORMAT, "model: %d experts; at most %d are built in", hp->n_expert,
          MAX_EXPERTS);
    TRY(need_int(g, arch, "expert_used_count", 1, hp->n_expert, &hp->n_expert_used));
    TRY(get_int(g, arch, "expert_feed_forward_length", 1, MAX_FF, hp->n_ff, &hp->n_ff_exp));
    CHECK(hp->n_ff_exp > 0, HL_EFORMAT, "model: the width of an expert is missing");
    TRY(get_int(g, arch, "expert_shared_count", 0, MAX_FF / hp->n_ff_exp, 0, &n_shared));
    hp->n_ff_shexp = arch->shared_gate ? hp->n_ff : n_shared * hp->n_ff_exp;
    TRY(get_int(g, arch, "expert_shared_feed_forward_length", 0, MAX_FF, hp->n_ff_shexp, &hp->n_ff_shexp));
    TRY(read_groups(hp, arch, g));
    return read_gate(hp, arch, g);
}

static hl_status read_ff(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    struct key k = key_of(arch, "feed_forward_length");
    if (has_key(g, arch, "feed_forward_length"))
        TRY(get_per_layer(g, arch, "feed_forward_length", MAX_FF, hp->n_layer, 0, &hp->n_ff));
    TRY(read_experts(hp, arch, g));
    CHECK(hp->n_ff > 0 || hp->n_dense == 0, HL_EFORMAT, "model: metadata '%s' is missing", k.text);
    return HL_OK;
}

/* ---- rotation */

static bool str_is(struct str s, const char *text) {
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* Source: Peng et al. 2023, arXiv 2309.00071; DeepSeek scales the scores instead of cosines and sines, and
 * files hold its factor: a tenth of mscale_all_dim. */
static hl_status read_yarn(struct hparams *hp, const struct arch *arch, const struct gguf *g, float factor) {
    float log_multiplier, attn_factor;
    TRY(get_float(g, arch, "rope.scaling.yarn_beta_fast", 0, 1e6, 32, &hp->yarn_beta_fast));
    TRY(get_float(g, arch, "rope.scaling.yarn_beta_slow", 0, 1e6, 1, &hp->yarn_beta_slow));
    TRY(get_float(g, arch, "rope.scaling.yarn_log_multiplier", 0, 100, 0, &log_multiplier));
    TRY(get_float(g, arch, "rope.scaling.attn_factor", 0, 1e6, 1, &attn_factor));
    if (factor <= 1) return HL_OK;
    hp->yarn_factor = factor;
    if (arch->yarn_in_scores) {
        float mscale = 1 + log_multiplier * logf(factor);
        hp->attn_scale *= mscale * mscale;
    } else {
        hp->rope_mscale = attn_factor * (1 + 0.1f * logf(factor));
    }
    return HL_OK;
}

/* The factors in rope_freqs.weight already hold Llama 3's scaling: scaling keys beside them are not
 * applied again. */
hl_status hparams_rope_scale(struct hparams *hp, const struct arch *arch, const struct gguf *g,
                             bool has_freqs, bool has_long) {
    struct str type;
    float factor;
    hp->rope_scale = hp->rope_mscale = 1;
    if (has_freqs) return HL_OK;
    TRY(get_float(g, arch, "rope.scale_linear", 0, 1e6, 0, &factor)); /* the key's old name */
    TRY(get_float(g, arch, "rope.scaling.factor", 0, 1e6, factor, &factor));
    const char *missing = has_long ? "longrope" : "linear";
    TRY(gguf_get_str(g, key_of(arch, "rope.scaling.type").text, (struct str){missing, strlen(missing)},
                     &type));
    if (str_is(type, "yarn")) return read_yarn(hp, arch, g, factor);
    if (str_is(type, "longrope") && has_long)
        return get_float(g, arch, "rope.scaling.attn_factor", 0, 1e6, 1, &hp->rope_mscale);
    CHECK(str_is(type, "none") || str_is(type, "linear"), HL_EUNSUPPORTED,
          "model: rope scaling '%s' is not built in for %s", gguf_label(type).text, arch->name);
    if (str_is(type, "linear") && factor > 0) hp->rope_scale = 1 / factor;
    return HL_OK;
}

static hl_status read_rope(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    CHECK(hp->n_rot % 2 == 0, HL_EFORMAT, "model: %d columns of a head are to be rotated in pairs",
          hp->n_rot);
    TRY(get_float(g, arch, "rope.freq_base", 1, 1e30, 10000, &hp->rope_base));
    TRY(get_int(g, arch, "rope.scaling.original_context_length", 1, MAX_CONTEXT, hp->n_ctx_train,
                &hp->n_ctx_orig));
    if (arch->local_rope) {
        float base = arch->rope_base_local > 0 ? arch->rope_base_local : hp->rope_base;
        TRY(get_float(g, arch, "rope.freq_base_swa", 1, 1e30, base, &hp->rope_base_local));
    }
    return HL_OK;
}

/* ---- scales and windows */

static hl_status read_scales(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    float logit_scale, attn_scale;
    TRY(get_float(g, arch, "embedding_scale", 0, 1e6, arch->scale_embed ? sqrtf((float)hp->n_embd) : 1,
                  &hp->embed_scale));
    TRY(get_float(g, arch, "residual_scale", 0, 1e6, 1, &hp->residual_scale));
    TRY(get_float(g, arch, "logit_scale", 0, 1e6, 1, &logit_scale));
    TRY(get_float(g, arch, "attention.scale", 0, 1e6, 0, &attn_scale));
    TRY(get_float(g, arch, "attn_logit_softcapping", 0, 1e6, arch->attn_softcap, &hp->attn_softcap));
    TRY(get_float(g, arch, "final_logit_softcapping", 0, 1e6, arch->final_softcap, &hp->final_softcap));
    int width = arch->n_layer_wide == hp->n_layer ? hp->n_embd / hp->n_head : hp->d_head_k;
    hp->attn_scale = attn_scale > 0 ? attn_scale : 1 / sqrtf((float)width);
    hp->logit_scale = logit_scale > 0 ? 1 / logit_scale : 1;
    if (arch->minicpm_scales) {
        hp->embed_scale = 12;
        hp->residual_scale = 1.4f / sqrtf((float)hp->n_layer);
        hp->logit_scale = 256.0f / (float)hp->n_embd;
    }
    return HL_OK;
}

hl_status hparams_read(struct hparams *hp, const struct arch *arch, const struct gguf *g) {
    struct key eps = key_of(arch, "attention.layer_norm_rms_epsilon");
    TRY(read_counts(hp, arch, g));
    TRY(read_heads(hp, arch, g));
    TRY(read_ff(hp, arch, g));
    TRY(read_scales(hp, arch, g));
    TRY(read_rope(hp, arch, g));
    TRY(get_int(g, arch, "attention.sliding_window", 0, MAX_CONTEXT, arch->window, &hp->window));
    if (arch->global_every == 0 && !has_key(g, arch, "attention.sliding_window_pattern")) hp->window = 0;
    TRY(need(g, eps.text));
    return gguf_get_float(g, eps.text, 0, 1, 0, &hp->norm_eps);
}

/* Every n-th layer sees everything; n = 0: none does. */
static bool is_global(int l, int n) { return n > 0 && l % n == n - 1; }

/* The pattern is a number, every how many layers one sees everything, or says of each layer whether it has
 * the window. */
hl_status hparams_windows(const struct hparams *hp, const struct arch *arch, const struct gguf *g,
                          struct layer *layers) {
    struct key k = key_of(arch, "attention.sliding_window_pattern");
    int i = gguf_find(g, k.text, strlen(k.text)), every = arch->global_every;
    bool by_layer = i >= 0 && gguf_value(g, i).is_array;
    if (by_layer) {
        struct gguf_value v = gguf_value(g, i);
        CHECK(v.n == hp->n_layer && gguf_string(g, i, 0).p == NULL, HL_EFORMAT,
              "model: metadata '%s' has %d elements; a bool for each of %d layers is expected", k.text, v.n,
              hp->n_layer);
    } else {
        TRY(gguf_get_int(g, k.text, 0, MAX_LAYERS, every, &every));
    }
    for (int l = 0; l < hp->n_layer; l++) {
        bool has_window = by_layer ? gguf_number(g, i, l) != 0 : !is_global(l, every);
        layers[l].window = has_window ? hp->window : 0;
    }
    return HL_OK;
}
