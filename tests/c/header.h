/* Headers built in memory and what model/ reads from them. */
#ifndef HL_TEST_HEADER_H
#define HL_TEST_HEADER_H

#include "gguf_builder.h"
#include "model/bind.h"

struct header {
    const char *arch;
    struct builder b;
    struct mem mem;
    struct gguf *g;
    struct hparams hp;
    struct layer layers[64];
};

static inline hl_status header_seen(void *ctx, const struct gguf *g) {
    (void)ctx;
    (void)g;
    return HL_OK;
}

static inline const char *header_key(const struct header *h, const char *name) {
    static char key[96];
    snprintf(key, sizeof key, "%s.%s", h->arch, name);
    return key;
}

static inline void set_int(struct header *h, const char *name, uint32_t v) {
    add_u32(&h->b, header_key(h, name), v);
}

static inline void set_float(struct header *h, const char *name, float v) {
    add_f32(&h->b, header_key(h, name), v);
}

static inline void set_text(struct header *h, const char *name, const char *v) {
    add_str(&h->b, header_key(h, name), v);
}

static inline void set_bool(struct header *h, const char *name, bool v) {
    uint8_t byte = v;
    add_value(&h->b, header_key(h, name), HL_META_BOOL, &byte, 1);
}

/* The keys that every architecture needs. */
static inline struct header header_of(const char *arch, uint32_t n_layer, uint32_t n_embd, uint32_t n_head) {
    struct header h = {.arch = arch};
    set_int(&h, "block_count", n_layer);
    set_int(&h, "context_length", 4096);
    set_int(&h, "embedding_length", n_embd);
    set_int(&h, "feed_forward_length", 256);
    set_int(&h, "attention.head_count", n_head);
    set_float(&h, "attention.layer_norm_rms_epsilon", 1e-6f);
    return h;
}

/* Reads h->hp and the windows of h->layers. */
static inline hl_status header_read(struct header *h) {
    static const struct gguf_sink sink = {NULL, header_seen, NULL, NULL};
    const struct arch *arch = arch_find((struct str){h->arch, strlen(h->arch)});
    size_t n;
    uint64_t one = 4;
    if (h->b.n_tensors == 0) add_info(&h->b, "x", TYPE_F32, 1, &one, 0);
    uint8_t *bytes = gguf_built(&h->b, &n);
    h->g = gguf_new(&h->mem, &sink);
    for (size_t at = 0; at < n && !gguf_has_header(h->g);) {
        size_t room;
        uint8_t *window = gguf_window(h->g, &room);
        size_t piece = window && room < n - at ? room : n - at;
        if (!window || room == 0) break;
        memcpy(window, bytes + at, piece);
        hl_status status = gguf_commit(h->g, piece);
        if (status != HL_OK) test_fail(__FILE__, __LINE__, "the header does not parse: %s", status_message());
        at += piece;
    }
    free(bytes);
    if (!arch || !gguf_has_header(h->g)) return HL_ESTATE;
    hl_status status = hparams_read(&h->hp, arch, h->g);
    bool has_freqs = gguf_find_tensor(h->g, "rope_freqs.weight") >= 0,
         has_long = gguf_find_tensor(h->g, "rope_factors_long.weight") >= 0;
    if (status == HL_OK) status = hparams_rope_scale(&h->hp, arch, h->g, has_freqs, has_long);
    if (status != HL_OK || h->hp.n_layer > 64) return status;
    return hparams_windows(&h->hp, arch, h->g, h->layers);
}

static inline void header_free(struct header *h) {
    gguf_free(h->g);
    h->g = NULL;
}

#endif
