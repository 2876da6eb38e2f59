/* One context over time: its tokens, its cache, its taps, its logits. */
#ifndef HL_SESSION_SESSION_H
#define HL_SESSION_SESSION_H

#include "decoder/decoder.h"

struct session;

/* As hl_session_*, hl_feed, hl_logits, hl_tap_*. */
hl_status session_new(struct session **out, const struct model *m, struct decoder *d, int n_ctx,
                      hl_kv_type type);
hl_status session_fork(struct session **out, const struct session *s);
void session_free(struct session *s);
hl_status session_feed(struct session *s, const int32_t *tokens, int n);
const float *session_logits(const struct session *s);
const int32_t *session_tokens(const struct session *s);
int session_length(const struct session *s);
int session_keeps(const struct session *s, int n);
hl_status session_rewind(struct session *s, int n);
hl_status session_set_mla(struct session *s, hl_mla mode);
hl_status session_cache(const struct session *s, int layer, struct hl_cache *out);
struct taps *session_taps(struct session *s);

/* build_id goes into what is saved. */
size_t session_save_bytes(const struct session *s, const char *build_id);
void session_save(const struct session *s, const char *build_id, uint32_t note, uint8_t *out);
hl_status session_can_restore(const struct session *s, const char *build_id, const uint8_t *head, size_t n);
hl_status session_restore(struct session *s, const char *build_id, const uint8_t *bytes, size_t n,
                          uint32_t *note);

#endif
