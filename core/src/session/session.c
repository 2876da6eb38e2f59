#include "session/session.h"

struct session {
    const struct model *m;
    struct decoder *decoder;
    struct kv *kv;
    struct taps taps;
    float *logits; /* [n_vocab] after the last position */
    bool has_logits;
};

static size_t logits_bytes(const struct model *m) {
    return (size_t)m->hp.n_vocab * sizeof(float);
}

static hl_status session_init(struct session *s, int n_ctx, hl_kv_type type) {
    const struct model *m = s->m;
    size_t shapes_bytes = (size_t)m->hp.n_layer * sizeof(struct kv_shape);
    s->logits = mem_alloc(m->mem, MEM_SCRATCH, logits_bytes(m));
    CHECK(s->logits, HL_EMEMORY, "session: no memory for the logits of %d tokens", m->hp.n_vocab);
    TRY(taps_init(&s->taps, m->mem, m->hp.n_layer));
    TRY(decoder_reserve(s->decoder, n_ctx));
    struct kv_shape *shapes = mem_alloc(m->mem, MEM_SCRATCH, shapes_bytes);
    CHECK(shapes, HL_EMEMORY, "session: no memory for %d layers", m->hp.n_layer);
    decoder_kv_shapes(m, shapes);
    hl_status status = kv_new(&s->kv, m->mem, type, m->hp.n_layer, shapes, n_ctx);
    mem_free(m->mem, MEM_SCRATCH, shapes, shapes_bytes);
    return status;
}

hl_status session_new(struct session **out, const struct model *m, struct decoder *d, int n_ctx, hl_kv_type type) {
    CHECK(n_ctx >= 1 && n_ctx <= 1 << 24, HL_EARGUMENT, "session: a context of %d positions: give 1 to %d", n_ctx, 1 << 24);
    CHECK(type == HL_KV_F32 || type == HL_KV_F16, HL_EUNSUPPORTED, "session: cache type %d: only f32 and f16 are built in", (int)type);
    struct session *s = mem_alloc(m->mem, MEM_SCRATCH, sizeof *s);
    CHECK(s, HL_EMEMORY, "session: no memory");
    s->m = m;
    s->decoder = d;
    hl_status status = session_init(s, n_ctx, type);
    if (status != HL_OK) session_free(s);
    else *out = s;
    return status;
}

void session_free(struct session *s) {
    if (!s) return;
    kv_free(s->kv);
    taps_free(&s->taps);
    if (s->logits) mem_free(s->m->mem, MEM_SCRATCH, s->logits, logits_bytes(s->m));
    mem_free(s->m->mem, MEM_SCRATCH, s, sizeof *s);
}

static hl_status feed_chunk(struct session *s, const int32_t *tokens, int n, bool last) {
    TRY(kv_reserve(s->kv, n));
    TRY(decoder_prepare_taps(s->decoder, &s->taps, n, kv_length(s->kv) + n));
    decoder_forward(s->decoder, s->kv, &s->taps, tokens, n, last ? s->logits : NULL);
    kv_advance(s->kv, n);
    return HL_OK;
}

hl_status session_feed(struct session *s, const int32_t *tokens, int n) {
    int start = kv_length(s->kv), room = kv_capacity(s->kv) - start;
    CHECK(n >= 1, HL_EARGUMENT, "feed: %d tokens: give one at least", n);
    CHECK(n <= room, HL_EFULL, "feed: %d tokens do not fit: %d of %d positions are used", n, start, kv_capacity(s->kv));
    for (int i = 0; i < n; i++)
        CHECK(tokens[i] >= 0 && tokens[i] < s->m->hp.n_vocab, HL_EARGUMENT, "feed: token %d is %d, the vocabulary has 0 to %d", i,
              (int)tokens[i], s->m->hp.n_vocab - 1);
    for (int done = 0; done < n; done += HL_CHUNK) {
        int count = n - done < HL_CHUNK ? n - done : HL_CHUNK;
        hl_status status = feed_chunk(s, tokens + done, count, done + count == n);
        if (status != HL_OK) {
            kv_rewind(s->kv, start);
            return status;
        }
    }
    s->has_logits = true;
    return HL_OK;
}

const float *session_logits(const struct session *s) {
    return s->has_logits ? s->logits : NULL;
}

int session_length(const struct session *s) {
    return kv_length(s->kv);
}

hl_status session_rewind(struct session *s, int n) {
    int length = kv_length(s->kv);
    CHECK(n >= 0 && n <= length, HL_EARGUMENT, "rewind: to %d, the context has %d positions", n, length);
    if (n == length) return HL_OK;
    kv_rewind(s->kv, n);
    s->has_logits = false;
    return HL_OK;
}

hl_status session_cache(const struct session *s, int layer, struct hl_cache *out) {
    CHECK(layer >= -1 && layer < s->m->hp.n_layer, HL_EARGUMENT, "cache: layer %d, the model has 0 to %d", layer, s->m->hp.n_layer - 1);
    kv_stats(s->kv, layer, out);
    return HL_OK;
}

struct taps *session_taps(struct session *s) {
    return &s->taps;
}
