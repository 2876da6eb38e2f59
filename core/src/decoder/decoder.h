/* The transformer: tokens and cached rows in, logits out. */
#ifndef HL_DECODER_DECODER_H
#define HL_DECODER_DECODER_H

#include "kv/kv.h"
#include "model/model.h"
#include "tap/tap.h"

struct decoder;

/* Scratch for one chunk of HL_CHUNK positions of model m (which outlives it). All sessions of a model
 * share it. HL_EMEMORY. */
hl_status decoder_new(struct decoder **out, const struct model *m, hl_precision precision);
hl_precision decoder_precision(const struct decoder *d);
void decoder_free(struct decoder *d);

/* Bytes that decoder_new will take for m, so that the plan of a load can include them. */
size_t decoder_scratch_bytes(const struct model *m);

/* Shapes of the rows that each layer caches: shapes [n_layer]. */
void decoder_kv_shapes(const struct model *m, struct kv_shape *shapes);

/* Makes room for contexts of n_ctx positions. HL_EMEMORY. */
hl_status decoder_reserve(struct decoder *d, int n_ctx);

/* Makes room in the taps that are on for n rows that end at position length. HL_EMEMORY. */
hl_status decoder_prepare_taps(const struct decoder *d, struct taps *taps, int n, int length);

/* How the next forwards evaluate MLA. */
void decoder_set_mla(struct decoder *d, hl_mla mode);

/* Evaluates n <= HL_CHUNK tokens at positions kv_length .. kv_length + n - 1 (reserved), writes their rows
 * into the cache, fills the taps that are on (prepared), and computes the logits after the last token into
 * logits [n_vocab] unless logits is NULL. HL_EUNSUPPORTED: a key or value is too large for the
 * cache's type, or NaN. */
hl_status decoder_forward(struct decoder *d, struct kv *kv, const struct taps *taps, const int32_t *tokens,
                          int n, float *logits);

#endif
