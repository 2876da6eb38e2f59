/* Named copies of what passes through the decoder. */
#ifndef HL_TAP_TAP_H
#define HL_TAP_TAP_H

#include "base/mem.h"
#include "base/status.h"

/* One name in one layer. */
struct tap {
    bool on;
    int shape[3];    /* heads or 1, rows, columns of what is held */
    size_t capacity; /* floats */
    float *data;
};

/* All taps of a session. */
struct taps {
    struct mem *mem;
    int n_layer;
    int n_on;
    struct tap *all; /* [HL_TAPS][n_layer] */
};

hl_status taps_init(struct taps *t, struct mem *mem, int n_layer);
void taps_free(struct taps *t);

/* As hl_tap_set and hl_tap_read; the arguments are checked here. */
hl_status taps_set(struct taps *t, hl_tap name, int layer, bool on);
const float *taps_read(const struct taps *t, hl_tap name, int layer, int32_t shape[3]);

static inline struct tap *tap_at(const struct taps *t, hl_tap name, int layer) {
    return &t->all[(int)name * t->n_layer + layer];
}

static inline bool tap_on(const struct taps *t, hl_tap name, int layer) {
    return t->n_on > 0 && tap_at(t, name, layer)->on;
}

/* Makes room for [heads][rows][columns] in every layer where the tap is on and forgets what it held.
 * HL_EMEMORY. */
hl_status taps_prepare(struct taps *t, hl_tap name, int heads, int rows, int columns);

/* Copies rows of `columns` floats, `stride` floats apart, into a tap prepared for them; does nothing when it
 * is off. */
void tap_rows(const struct taps *t, hl_tap name, int layer, const float *src, size_t stride);

#endif
