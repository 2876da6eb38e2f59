/* A session's fields, for the files of session/ alone. */
#ifndef HL_SESSION_STATE_H
#define HL_SESSION_STATE_H

#include "session/session.h"

struct session {
    const struct model *m;
    struct decoder *decoder;
    struct kv *kv;
    struct taps taps;
    int32_t *tokens; /* [n_ctx], those of the cached positions are set */
    float *logits;   /* [n_vocab] after the last position */
    bool has_logits;
    hl_mla mla;
};

/* An empty cache of the session's model. */
hl_status session_kv_new(const struct session *s, struct kv **out, int n_ctx, hl_kv_type type);

#endif
