/* A saved context: header, token ids [length], cache rows, and a checksum over all of it. Little-endian, as
 * memory is. */
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "session/state.h"

struct saved_header {
    char magic[8];
    uint32_t version;
    uint16_t type, precision;
    uint64_t model; /* identity of the file that the weights came from */
    uint32_t build, length;
    uint64_t rows; /* bytes of cache rows */
    uint32_t note, zero;
};
static_assert(sizeof(struct saved_header) == HL_SAVED_HEAD, "what hl_session_can_restore reads");

static const char magic[8] = "HLCTX\r\n";
enum { VERSION = 2 };

static const char *const type_names[] = {"f32", "f16", "q8_0"}, *const precision_names[] = {"fast", "high"};

static struct saved_header header_of(const struct session *s, const char *build_id) {
    struct saved_header h = {.version = VERSION,
                             .type = (uint16_t)kv_type(s->kv),
                             .precision = (uint16_t)decoder_precision(s->decoder),
                             .model = s->m->identity};
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

void session_save(const struct session *s, const char *build_id, uint32_t note, uint8_t *out) {
    struct saved_header h = header_of(s, build_id);
    h.note = note;
    size_t tokens = (size_t)h.length * sizeof(int32_t), n = saved_bytes(&h) - sizeof(uint64_t);
    memcpy(out, &h, sizeof h);
    memcpy(out + sizeof h, s->tokens, tokens);
    kv_save(s->kv, out + sizeof h + tokens);
    uint64_t sum = hash_bytes(HASH_START, out, n);
    memcpy(out + n, &sum, sizeof sum);
}

/* What the header alone tells of n bytes. */
static hl_status check_header(const struct session *s, const char *build_id, const struct saved_header *h,
                              size_t n) {
    struct saved_header own = header_of(s, build_id);
    CHECK(memcmp(h->magic, magic, sizeof magic) == 0, HL_EFORMAT,
          "restore: these bytes are not a saved context");
    CHECK(h->version == VERSION, HL_EUNSUPPORTED,
          "restore: saved by version %u of the format, this build reads %d", h->version, VERSION);
    CHECK(h->build == own.build, HL_EUNSUPPORTED, "restore: saved by another build: feed the tokens again");
    CHECK(h->model == own.model, HL_EUNSUPPORTED, "restore: saved with another model");
    CHECK(h->type < 3 && h->precision < 2 && h->zero == 0, HL_EFORMAT,
          "restore: no such cache type or precision: the file is damaged");
    CHECK(h->type == own.type, HL_EUNSUPPORTED, "restore: saved with a cache in %s, this session has %s",
          type_names[h->type], type_names[own.type]);
    CHECK(h->precision == own.precision, HL_EUNSUPPORTED,
          "restore: saved at precision %s, this model is loaded with %s", precision_names[h->precision],
          precision_names[own.precision]);
    CHECK(h->length < n && h->rows < n && saved_bytes(h) == n, HL_EFORMAT,
          "restore: %zu bytes, the header speaks of another number: "
          "the file is damaged",
          n);
    CHECK((int)h->length <= kv_capacity(s->kv), HL_EFULL, "restore: %u positions do not fit a context of %d",
          h->length, kv_capacity(s->kv));
    return HL_OK;
}

static hl_status check_body(const struct session *s, const struct saved_header *h, const uint8_t *bytes,
                            size_t n) {
    uint64_t sum;
    memcpy(&sum, bytes + n - sizeof sum, sizeof sum);
    CHECK(sum == hash_bytes(HASH_START, bytes, n - sizeof sum), HL_EFORMAT,
          "restore: the checksum differs: the file is damaged");
    for (uint32_t i = 0; i < h->length; i++) {
        int32_t id;
        memcpy(&id, bytes + sizeof *h + i * sizeof id, sizeof id);
        CHECK(id >= 0 && id < s->m->hp.n_vocab, HL_EFORMAT,
              "restore: token %u is %d, the vocabulary has 0 to %d", i, (int)id, s->m->hp.n_vocab - 1);
    }
    return HL_OK;
}

hl_status session_can_restore(const struct session *s, const char *build_id, const uint8_t *head, size_t n) {
    struct saved_header h;
    CHECK(n >= sizeof h + sizeof(uint64_t), HL_EFORMAT, "restore: %zu bytes are too few for a saved context",
          n);
    memcpy(&h, head, sizeof h);
    return check_header(s, build_id, &h, n);
}

hl_status session_restore(struct session *s, const char *build_id, const uint8_t *bytes, size_t n,
                          uint32_t *note) {
    struct saved_header h;
    struct kv *kv = NULL;
    TRY(session_can_restore(s, build_id, bytes, n));
    memcpy(&h, bytes, sizeof h);
    TRY(check_body(s, &h, bytes, n));
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
    *note = h.note;
    return HL_OK;
}
