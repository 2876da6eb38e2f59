/* A saved context: header, token ids [length], live cache rows, and a checksum over all of it. Little-endian,
 * as memory is. */
#include <string.h>

#include "base/hash.h"
#include "session/state.h"

struct saved_header {
    char magic[8];
    uint32_t version, type;
    uint64_t model; /* identity of the file that the weights came from */
    uint32_t build, length;
    uint64_t rows; /* bytes of cache rows */
};

static const char magic[8] = "HLCTX\r\n";
enum { VERSION = 1 };

static struct saved_header header_of(const struct session *s, const char *build_id) {
    struct saved_header h = {.version = VERSION, .type = (uint32_t)kv_type(s->kv), .model = s->m->identity};
    memcpy(h.magic, magic, sizeof magic);
    h.build = (uint32_t)hash_bytes(HASH_START, build_id, strlen(build_id));
    h.length = (uint32_t)kv_length(s->kv);
    h.rows = kv_save_bytes(s->kv);
    return h;
}

static size_t saved_bytes(const struct saved_header *h) {
    return sizeof *h + (size_t)h->length * sizeof(int32_t) + (size_t)h->rows + sizeof(uint64_t);
}

size_t session_save_bytes(const struct session *s, const char *build_id) {
    struct saved_header h = header_of(s, build_id);
    return saved_bytes(&h);
}

void session_save(const struct session *s, const char *build_id, uint8_t *out) {
    struct saved_header h = header_of(s, build_id);
    size_t tokens = (size_t)h.length * sizeof(int32_t), n = saved_bytes(&h) - sizeof(uint64_t);
    memcpy(out, &h, sizeof h);
    memcpy(out + sizeof h, s->tokens, tokens);
    kv_save(s->kv, out + sizeof h + tokens);
    uint64_t sum = hash_bytes(HASH_START, out, n);
    memcpy(out + n, &sum, sizeof sum);
}

/* Everything that can be known before memory is taken. */
static hl_status check(const struct session *s, const char *build_id, const struct saved_header *h,
                       const uint8_t *bytes, size_t n) {
    struct saved_header own = header_of(s, build_id);
    uint64_t sum;
    CHECK(memcmp(h->magic, magic, sizeof magic) == 0, HL_EFORMAT,
          "restore: these bytes are not a saved context");
    CHECK(h->version == VERSION, HL_EUNSUPPORTED,
          "restore: saved by version %u of the format, this build reads %d", h->version, VERSION);
    CHECK(h->build == own.build, HL_EUNSUPPORTED, "restore: saved by another build: feed the tokens again");
    CHECK(h->model == own.model, HL_EUNSUPPORTED, "restore: saved with another model");
    CHECK(h->type == own.type, HL_EUNSUPPORTED, "restore: saved with cache type %u, this session has %u",
          h->type, own.type);
    CHECK(h->length < n && h->rows < n && saved_bytes(h) == n, HL_EFORMAT,
          "restore: %zu bytes, the header speaks of another number: "
          "the file is damaged",
          n);
    memcpy(&sum, bytes + n - sizeof sum, sizeof sum);
    CHECK(sum == hash_bytes(HASH_START, bytes, n - sizeof sum), HL_EFORMAT,
          "restore: the checksum differs: the file is damaged");
    CHECK((int)h->length <= kv_capacity(s->kv), HL_EFULL, "restore: %u positions do not fit a context of %d",
          h->length, kv_capacity(s->kv));
    for (uint32_t i = 0; i < h->length; i++) {
        int32_t id;
        memcpy(&id, bytes + sizeof *h + i * sizeof id, sizeof id);
        CHECK(id >= 0 && id < s->m->hp.n_vocab, HL_EFORMAT,
              "restore: token %u is %d, the vocabulary has 0 to %d", i, (int)id, s->m->hp.n_vocab - 1);
    }
    return HL_OK;
}

hl_status session_restore(struct session *s, const char *build_id, const uint8_t *bytes, size_t n) {
    struct saved_header h;
    struct kv *kv = NULL;
    CHECK(n >= sizeof h + sizeof(uint64_t), HL_EFORMAT, "restore: %zu bytes are too few for a saved context",
          n);
    memcpy(&h, bytes, sizeof h);
    TRY(check(s, build_id, &h, bytes, n));
    TRY(session_kv_new(s, &kv, kv_capacity(s->kv), kv_type(s->kv)));
    size_t tokens = (size_t)h.length * sizeof(int32_t);
    hl_status status = kv_restore(kv, bytes + sizeof h + tokens, (size_t)h.rows, (int)h.length);
    if (status != HL_OK) {
        kv_free(kv);
        return status;
    }
    memcpy(s->tokens, bytes + sizeof h, tokens);
    kv_free(s->kv);
    s->kv = kv;
    s->has_logits = false;
    return HL_OK;
}
