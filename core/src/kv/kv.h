/* The KV cache: rows of keys and values in blocks of positions. No arithmetic happens here.
 *
 * A block holds the rows of KV_BLOCK positions of one layer: keys [heads][KV_BLOCK][k_dim], then values
 * [heads][KV_BLOCK][v_dim], in the cache's type. So a reader of one head gets contiguous rows. */
#ifndef HL_KV_KV_H
#define HL_KV_KV_H

#include "base/mem.h"
#include "base/status.h"

enum { KV_BLOCK = 64 };

/* What one layer keeps of a position. */
struct kv_shape {
    int heads, k_dim, v_dim;
};

struct kv;

/* An empty cache of n_layer layers of shapes [n_layer] (copied) for at most n_ctx positions. HL_EMEMORY. */
hl_status kv_new(struct kv **out, struct mem *mem, hl_kv_type type, int n_layer, const struct kv_shape *shapes, int n_ctx);
void kv_free(struct kv *kv);

int kv_length(const struct kv *kv);
int kv_capacity(const struct kv *kv);
hl_kv_type kv_type(const struct kv *kv);

/* Takes the blocks for n more positions (length + n <= n_ctx). HL_EMEMORY: nothing has changed. */
hl_status kv_reserve(struct kv *kv, int n);
/* The n positions behind length, reserved and written, become part of the cache. */
void kv_advance(struct kv *kv, int n);
/* Forgets positions from n on and gives blocks back that no position is left in, reserved ones too. */
void kv_rewind(struct kv *kv, int n);

/* First of the contiguous rows of layer l, head h from position pos (reserved) to the end of its block. */
void *kv_keys(const struct kv *kv, int l, int h, int pos);
void *kv_values(const struct kv *kv, int l, int h, int pos);

/* As hl_session_cache; l = -1 for all layers. */
void kv_stats(const struct kv *kv, int l, struct hl_cache *out);

#endif
