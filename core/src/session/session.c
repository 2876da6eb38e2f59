#include "session/session.h"

#include <string.h>

#include "session/state.h"

static size_t logits_bytes(const struct model *m) { return (size_t)m->hp.n_vocab * sizeof(float); }

static size_t tokens_bytes(const struct kv *kv) { return (size_t)kv_capacity(kv) * sizeof(int32_t); }

/* What a session takes beside the blocks of its cache; the table of its taps is a few KB more. */
static size_t session_bytes(const struct model *m, int n_ctx) {
    return sizeof(struct session) + logits_bytes(m) + (size_t)n_ctx * sizeof(int32_t) +
           kv_table_bytes(m->hp.n_layer, n_ctx);
}

/* Which of its parts found no room says little: the caller is told of all of them. */
static hl_status say_bytes(hl_status status, const char *what, const struct model *m, int n_ctx) {
    CHECK(status != HL_EMEMORY, HL_EMEMORY,
          "session: no memory for %s: %zu bytes for the tables of %d positions and %d logits, beside the "
          "cache: "
          "dispose of sessions that are not needed, or take a smaller context",
          what, session_bytes(m, n_ctx), n_ctx, m->hp.n_vocab);
    return status;
}

hl_status session_kv_new(const struct session *s, struct kv **out, int n_ctx, hl_kv_type type) {
    const struct model *m = s->m;
    size_t bytes = (size_t)m->hp.n_layer * sizeof(struct kv_shape);
    struct kv_shape *shapes = mem_alloc(m->mem, MEM_SCRATCH, bytes);
    CHECK(shapes, HL_EMEMORY, "session: no memory for %d layers", m->hp.n_layer);
    decoder_kv_shapes(m, shapes);
    hl_status status = kv_new(out, m->mem, type, m->hp.n_layer, shapes, n_ctx);
    mem_free(m->mem, MEM_SCRATCH, shapes, bytes);
    return status;
}

/* A session around a cache, which becomes its own (and is freed on failure). */
static hl_status session_around(struct session **out, const struct model *m, struct decoder *d,
                                struct kv *kv) {
    struct session *s = mem_alloc(m->mem, MEM_SCRATCH, sizeof *s);
    if (!s) {
        kv_free(kv);
        return HL_EMEMORY;
    }
    *s = (struct session){.m = m, .decoder = d, .kv = kv};
    s->logits = mem_alloc(m->mem, MEM_SCRATCH, logits_bytes(m));
    s->tokens = mem_alloc(m->mem, MEM_SCRATCH, tokens_bytes(kv));
    hl_status status = s->logits && s->tokens ? taps_init(&s->taps, m->mem, m->hp.n_layer) : HL_EMEMORY;
    if (status != HL_OK) session_free(s);
    else *out = s;
    return status;
}

static hl_status session_make(struct session **out, const struct model *m, struct decoder *d, int n_ctx,
                              hl_kv_type type) {
    struct kv *kv = NULL;
    TRY(session_kv_new(&(struct session){.m = m}, &kv, n_ctx, type));
    return session_around(out, m, d, kv);
}

hl_status session_new(struct session **out, const struct model *m, struct decoder *d, int n_ctx,
                      hl_kv_type type) {
    CHECK(n_ctx >= 1 && n_ctx <= 1 << 24, HL_EARGUMENT, "session: a context of %d positions: give 1 to %d",
          n_ctx, 1 << 24);
    CHECK(type >= HL_KV_F32 && type <= HL_KV_Q8_0, HL_EARGUMENT, "session: there is no cache type %d",
          (int)type);
    TRY(decoder_reserve(d, n_ctx));
    return say_bytes(session_make(out, m, d, n_ctx, type), "a context", m, n_ctx);
}

static hl_status fork_make(struct session **out, const struct session *s) {
    struct kv *kv = NULL;
    TRY(kv_fork(&kv, s->kv));
    return session_around(out, s->m, s->decoder, kv);
}

hl_status session_fork(struct session **out, const struct session *s) {
    TRY(say_bytes(fork_make(out, s), "a fork", s->m, kv_capacity(s->kv)));
    memcpy((*out)->tokens, s->tokens, tokens_bytes(s->kv));
    memcpy((*out)->logits, s->logits, logits_bytes(s->m));
    (*out)->has_logits = s->has_logits;
    (*out)->mla = s->mla;
    return HL_OK;
}

void session_free(struct session *s) {
    if (!s) return;
    struct mem *mem = s->m->mem;
    taps_free(&s->taps);
    mem_free(mem, MEM_SCRATCH, s->logits, logits_bytes(s->m));
    mem_free(mem, MEM_SCRATCH, s->tokens, tokens_bytes(s->kv));
    kv_free(s->kv);
    mem_free(mem, MEM_SCRATCH, s, sizeof *s);
}

static hl_status feed_chunk(struct session *s, const int32_t *tokens, int n, bool last) {
    TRY(kv_reserve(s->kv, n));
    TRY(decoder_prepare_taps(s->decoder, &s->taps, n, kv_length(s->kv) + n));
    decoder_set_mla(s->decoder, s->mla);
    TRY(decoder_forward(s->decoder, s->kv, &s->taps, tokens, n, last ? s->logits : NULL));
    memcpy(s->tokens + kv_length(s->kv), tokens, (size_t)n * sizeof *tokens);
    kv_advance(s->kv, n);
    return HL_OK;
}

/* A fork keeps what was there before: a failure in the middle leaves the session as it was, also where
 * windows have given blocks back. */
static hl_status feed_chunks(struct session *s, const int32_t *tokens, int n) {
    struct kv *before = NULL;
    if (n > HL_CHUNK) TRY(kv_fork(&before, s->kv));
    for (int done = 0; done < n; done += HL_CHUNK) {
        int count = n - done < HL_CHUNK ? n - done : HL_CHUNK;
        hl_status status = feed_chunk(s, tokens + done, count, done + count == n);
        if (status == HL_OK) continue;
        if (before) {
            kv_free(s->kv);
            s->kv = before;
        } else {
            kv_rewind(s->kv, kv_length(s->kv));
        }
        return status;
    }
    kv_free(before);
    return HL_OK;
}

hl_status session_feed(struct session *s, const int32_t *tokens, int n) {
    int start = kv_length(s->kv), room = kv_capacity(s->kv) - start;
    CHECK(n >= 1, HL_EARGUMENT, "feed: %d tokens: give one at least", n);
    CHECK(n <= room, HL_EFULL, "feed: %d tokens do not fit: %d of %d positions are used", n, start,
          kv_capacity(s->kv));
    for (int i = 0; i < n; i++)
        CHECK(tokens[i] >= 0 && tokens[i] < s->m->hp.n_vocab, HL_EARGUMENT,
              "feed: token %d is %d, the vocabulary has 0 to %d", i, (int)tokens[i], s->m->hp.n_vocab - 1);
    TRY(feed_chunks(s, tokens, n));
    s->has_logits = true;
    return HL_OK;
}

const float *session_logits(const struct session *s) { return s->has_logits ? s->logits : NULL; }

const int32_t *session_tokens(const struct session *s) { return s->tokens; }

int session_length(const struct session *s) { return kv_length(s->kv); }

int session_keeps(const struct session *s, int n) {
    int length = kv_length(s->kv);
    return kv_keeps(s->kv, n < 0 ? 0 : n > length ? length : n);
}

hl_status session_rewind(struct session *s, int n) {
    int length = kv_length(s->kv);
    CHECK(n >= 0 && n <= length, HL_EARGUMENT, "rewind: to %d, the context has %d positions", n, length);
    if (n == length) return HL_OK;
    CHECK(kv_keeps(s->kv, n) == n, HL_ESTATE,
          "rewind: to %d, sliding windows have given back what it sees: rewind to 0 and feed again", n);
    kv_rewind(s->kv, n);
    s->has_logits = false;
    return HL_OK;
}

hl_status session_set_mla(struct session *s, hl_mla mode) {
    CHECK(mode >= HL_MLA_AUTO && mode <= HL_MLA_EXPANDED, HL_EARGUMENT,
          "session: there is no way %d to evaluate MLA", (int)mode);
    s->mla = mode;
    return HL_OK;
}

hl_status session_cache(const struct session *s, int layer, struct hl_cache *out) {
    CHECK(layer >= -1 && layer < s->m->hp.n_layer, HL_EARGUMENT, "cache: layer %d, the model has 0 to %d",
          layer, s->m->hp.n_layer - 1);
    kv_stats(s->kv, layer, out);
    return HL_OK;
}

struct taps *session_taps(struct session *s) { return &s->taps; }
