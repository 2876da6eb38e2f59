/* Private to sampler/: how often tokens were seen in the window that penalties look back on. */
#ifndef HL_SAMPLER_HISTORY_H
#define HL_SAMPLER_HISTORY_H

#include "base/status.h"

struct history {
    int32_t window;  /* tokens; -1: all */
    int32_t *tokens; /* [room] the last n; unused where all count */
    int n, room;
    int32_t *counts; /* [n_counts] by token id */
    int n_counts;
};

void history_free(struct history *h);

/* HL_EARGUMENT (no token id), HL_EMEMORY. */
hl_status history_add(struct history *h, int32_t id);

#endif
