#include "sampler/history.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 1 << 24 }; /* no vocabulary comes near */

void history_free(struct history *h) {
    free(h->tokens);
    free(h->counts);
}

/* Room for n elements of 4 bytes, the new ones zeroed; false when there is no memory. */
static bool grow(int32_t **items, int *room, int n) {
    if (n <= *room) return true;
    int more = n < 256 ? 256 : n + n / 2;
    int32_t *grown = realloc(*items, (size_t)more * sizeof *grown);
    if (!grown) return false;
    memset(grown + *room, 0, (size_t)(more - *room) * sizeof *grown);
    *items = grown;
    *room = more;
    return true;
}

hl_status history_add(struct history *h, int32_t id) {
    CHECK(id >= 0 && id < MAX_ID, HL_EARGUMENT, "sampler: %d is no token id", (int)id);
    if (h->window == 0) return HL_OK;
    bool room =
        grow(&h->counts, &h->n_counts, id + 1) && (h->window < 0 || grow(&h->tokens, &h->room, h->n + 1));
    CHECK(room, HL_EMEMORY, "sampler: no memory for the token history");
    h->counts[id]++;
    if (h->window < 0) return HL_OK;
    h->tokens[h->n++] = id;
    if (h->n <= h->window) return HL_OK;
    h->counts[h->tokens[h->n - 1 - h->window]]--;
    if (h->n >= 2 * (int64_t)h->window && h->n >= 256) {
        memmove(h->tokens, h->tokens + h->n - h->window, (size_t)h->window * sizeof *h->tokens);
        h->n = h->window;
    }
    return HL_OK;
}
