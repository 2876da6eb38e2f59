#include "kv/kv.h"

#include <assert.h>
#include <string.h>

struct kv_layer {
    struct kv_shape shape;
    size_t row_bytes;       /* of one position */
    unsigned char **blocks; /* [n_ctx / KV_BLOCK rounded up], NULL: not taken */
};

struct kv {
    struct mem *mem;
    hl_kv_type type;
    size_t value_bytes; /* of one number */
    int n_layer, n_ctx, n_table;
    int length;
    int n_blocks; /* taken in every layer */
    struct kv_layer layers[];
};

static size_t block_bytes(const struct kv_layer *layer) {
    return layer->row_bytes * KV_BLOCK;
}

static size_t kv_bytes(int n_layer) {
    return sizeof(struct kv) + (size_t)n_layer * sizeof(struct kv_layer);
}

hl_status kv_new(struct kv **out, struct mem *mem, hl_kv_type type, int n_layer, const struct kv_shape *shapes, int n_ctx) {
    struct kv *kv = mem_alloc(mem, MEM_SCRATCH, kv_bytes(n_layer));
    CHECK(kv, HL_EMEMORY, "cache: no memory for %d layers", n_layer);
    kv->mem = mem;
    kv->type = type;
    kv->value_bytes = type == HL_KV_F32 ? 4 : 2;
    kv->n_layer = n_layer;
    kv->n_ctx = n_ctx;
    kv->n_table = (n_ctx + KV_BLOCK - 1) / KV_BLOCK;
    for (int l = 0; l < n_layer; l++) {
        struct kv_layer *layer = &kv->layers[l];
        layer->shape = shapes[l];
        layer->row_bytes = (size_t)shapes[l].heads * (size_t)(shapes[l].k_dim + shapes[l].v_dim) * kv->value_bytes;
        layer->blocks = mem_alloc(mem, MEM_SCRATCH, (size_t)kv->n_table * sizeof *layer->blocks);
        if (!layer->blocks) {
            kv_free(kv);
            return status_set(HL_EMEMORY, "cache: no memory for a table of %d positions", n_ctx);
        }
    }
    *out = kv;
    return HL_OK;
}

/* Gives back the blocks of every layer from number n on. */
static void blocks_trim(struct kv *kv, int n) {
    for (int l = 0; l < kv->n_layer; l++) {
        struct kv_layer *layer = &kv->layers[l];
        for (int b = n; layer->blocks && b < kv->n_table && layer->blocks[b]; b++) {
            mem_free(kv->mem, MEM_CACHE, layer->blocks[b], block_bytes(layer));
            layer->blocks[b] = NULL;
        }
    }
    if (kv->n_blocks > n) kv->n_blocks = n;
}

void kv_free(struct kv *kv) {
    if (!kv) return;
    blocks_trim(kv, 0);
    for (int l = 0; l < kv->n_layer; l++)
        mem_free(kv->mem, MEM_SCRATCH, kv->layers[l].blocks, (size_t)kv->n_table * sizeof *kv->layers[l].blocks);
    mem_free(kv->mem, MEM_SCRATCH, kv, kv_bytes(kv->n_layer));
}

int kv_length(const struct kv *kv) {
    return kv->length;
}

int kv_capacity(const struct kv *kv) {
    return kv->n_ctx;
}

hl_kv_type kv_type(const struct kv *kv) {
    return kv->type;
}

hl_status kv_reserve(struct kv *kv, int n) {
    assert(n >= 0 && n <= kv->n_ctx - kv->length);
    int before = kv->n_blocks;
    int wanted = (kv->length + n + KV_BLOCK - 1) / KV_BLOCK;
    for (int b = before; b < wanted; b++) {
        for (int l = 0; l < kv->n_layer; l++) {
            struct kv_layer *layer = &kv->layers[l];
            layer->blocks[b] = mem_alloc(kv->mem, MEM_CACHE, block_bytes(layer));
            if (layer->blocks[b]) continue;
            blocks_trim(kv, before);
            return status_set(HL_EMEMORY,
                              "cache: no memory for positions %d to %d (%zu bytes a layer): use a smaller context or cache type",
                              b * KV_BLOCK, b * KV_BLOCK + KV_BLOCK - 1, block_bytes(layer));
        }
    }
    if (wanted > before) kv->n_blocks = wanted;
    return HL_OK;
}

void kv_advance(struct kv *kv, int n) {
    assert(kv->length + n <= kv->n_blocks * KV_BLOCK);
    kv->length += n;
}

void kv_rewind(struct kv *kv, int n) {
    assert(n >= 0 && n <= kv->length);
    kv->length = n;
    blocks_trim(kv, (n + KV_BLOCK - 1) / KV_BLOCK);
}

void *kv_keys(const struct kv *kv, int l, int h, int pos) {
    const struct kv_layer *layer = &kv->layers[l];
    size_t row = (size_t)h * KV_BLOCK + (size_t)(pos % KV_BLOCK);
    return layer->blocks[pos / KV_BLOCK] + row * (size_t)layer->shape.k_dim * kv->value_bytes;
}

void *kv_values(const struct kv *kv, int l, int h, int pos) {
    const struct kv_layer *layer = &kv->layers[l];
    size_t keys = (size_t)layer->shape.heads * KV_BLOCK * (size_t)layer->shape.k_dim;
    size_t row = (size_t)h * KV_BLOCK + (size_t)(pos % KV_BLOCK);
    return layer->blocks[pos / KV_BLOCK] + (keys + row * (size_t)layer->shape.v_dim) * kv->value_bytes;
}

static void layer_stats(const struct kv *kv, const struct kv_layer *layer, struct hl_cache *out) {
    for (int b = 0; b < kv->n_table && layer->blocks[b]; b++) {
        int live = kv->length - b * KV_BLOCK;
        if (live > KV_BLOCK) live = KV_BLOCK;
        if (live > 0) out->used += (size_t)live * layer->row_bytes;
        out->reserved += block_bytes(layer);
        out->blocks++;
    }
}

void kv_stats(const struct kv *kv, int l, struct hl_cache *out) {
    memset(out, 0, sizeof *out);
    out->positions = kv->length;
    int from = l < 0 ? 0 : l, to = l < 0 ? kv->n_layer : l + 1;
    for (int i = from; i < to; i++) layer_stats(kv, &kv->layers[i], out);
}
