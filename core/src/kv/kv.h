/* The KV cache: rows of keys and values in blocks of positions. No arithmetic happens here.
 *
 * A block holds the rows of KV_BLOCK positions of one layer: keys [heads][KV_BLOCK] rows, then values
 * [heads][KV_BLOCK] rows, in the cache's type. So a reader of one head gets contiguous rows. Caches that were
 * forked share blocks until one of them writes.
 *
 * A row of n numbers is n f32, n f16, or n / 32 blocks of {f16 scale, i8 [32]} (q8_0); the last k_plain
 * numbers of a key row stay f16 in a q8_0 cache (MLA: the rotated part). */
#ifndef HL_KV_KV_H
#define HL_KV_KV_H

#include "base/mem.h"
#include "base/status.h"

enum { KV_BLOCK = 64, KV_Q8_GROUP = 32, KV_Q8_BYTES = 34 };

/* What one layer keeps of a position. */
struct kv_shape {
    int heads, k_dim, v_dim;
    int k_plain;
    /* positions that the layer looks back on, the newest included; 0: all. Blocks behind it are given
     * back. */
    int window;
};

struct kv;

/* An empty cache of n_layer layers of shapes [n_layer] (copied) for at most n_ctx positions.
 * HL_EMEMORY; HL_EUNSUPPORTED: rows that cannot be kept in this type. */
hl_status kv_new(struct kv **out, struct mem *mem, hl_kv_type type, int n_layer,
                 const struct kv_shape *shapes, int n_ctx);
void kv_free(struct kv *kv);

/* Another cache with the same positions; blocks are shared. HL_EMEMORY. */
hl_status kv_fork(struct kv **out, const struct kv *kv);
/* What a cache of so many layers and positions takes beside its blocks, in bytes. */
size_t kv_table_bytes(int n_layer, int n_ctx);

int kv_length(const struct kv *kv);
int kv_capacity(const struct kv *kv);
hl_kv_type kv_type(const struct kv *kv);

/* Takes the blocks for n more positions (length + n <= n_ctx), as this cache's own. HL_EMEMORY: nothing has
 * changed. */
hl_status kv_reserve(struct kv *kv, int n);
/* The n positions behind length, reserved and written, become part of the cache. Layers with a window give
 * blocks back. */
void kv_advance(struct kv *kv, int n);

/* The largest length <= n that the cache can be rewound to: n, or 0 when a window has given back what
 * position n would see. */
int kv_keeps(const struct kv *kv, int n);
/* Forgets positions from n on (kv_keeps(kv, n) == n) and gives blocks back that no position is left in,
 * reserved ones too. */
void kv_rewind(struct kv *kv, int n);

/* First of the contiguous rows of layer l, head h from position pos (reserved) to the end of its block. */
void *kv_keys(const struct kv *kv, int l, int h, int pos);
void *kv_values(const struct kv *kv, int l, int h, int pos);

/* As hl_session_cache; l = -1 for all layers. */
void kv_stats(const struct kv *kv, int l, struct hl_cache *out);

/* The first position whose rows layer l has to keep at the present length: 0, or where its window starts. */
int kv_first_live(const struct kv *kv, int l);

/* For each layer the number of its first block, then all rows that are held: layer by layer, head by head, keys
 * before values, in order of position. */
size_t kv_save_bytes(const struct kv *kv);
void kv_save(const struct kv *kv, uint8_t *out);
/* Fills an empty cache with `length` positions from kv_save's bytes. HL_EFORMAT when n does not fit them,
 * HL_EMEMORY; the cache is then empty. */
hl_status kv_restore(struct kv *kv, const uint8_t *bytes, size_t n, int length);

#endif
