#include "kv/kv.h"

#include <assert.h>
#include <string.h>

struct kv_block {
    int refs; /* caches that hold it */
    unsigned char *rows;
};

struct kv_layer {
    struct kv_shape shape;
    size_t k_bytes, v_bytes;  /* of one row of one head */
    int first;                /* blocks before this one were given back */
    struct kv_block **blocks; /* [n_table]; NULL: not held */
};

struct kv {
    struct mem *mem;
    hl_kv_type type;
    int n_layer, n_ctx, n_table;
    int length;
    int n_blocks; /* blocks first .. n_blocks - 1 are held in every layer */
    struct kv_layer layers[];
};

static size_t row_bytes(const struct kv_layer *layer) {
    return (size_t)layer->shape.heads * (layer->k_bytes + layer->v_bytes);
}

static size_t block_bytes(const struct kv_layer *layer) { return row_bytes(layer) * KV_BLOCK; }

static size_t kv_bytes(int n_layer) { return sizeof(struct kv) + (size_t)n_layer * sizeof(struct kv_layer); }

static int blocks_of(int positions) { return (positions + KV_BLOCK - 1) / KV_BLOCK; }

static size_t layer_table_bytes(int n_table) { return (size_t)n_table * sizeof(struct kv_block *); }

size_t kv_table_bytes(int n_layer, int n_ctx) {
    return kv_bytes(n_layer) + (size_t)n_layer * layer_table_bytes(blocks_of(n_ctx));
}

/* ---- blocks */

static struct kv_block *block_new(struct mem *mem, const struct kv_layer *layer) {
    struct kv_block *b = mem_alloc(mem, MEM_SCRATCH, sizeof *b);
    if (!b) return NULL;
    b->refs = 1;
    b->rows = mem_alloc(mem, MEM_CACHE, block_bytes(layer));
    if (b->rows) return b;
    mem_free(mem, MEM_SCRATCH, b, sizeof *b);
    return NULL;
}

static void block_drop(struct kv *kv, struct kv_layer *layer, int i) {
    struct kv_block *b = layer->blocks[i];
    layer->blocks[i] = NULL;
    if (!b || --b->refs > 0) return;
    mem_free(kv->mem, MEM_CACHE, b->rows, block_bytes(layer));
    mem_free(kv->mem, MEM_SCRATCH, b, sizeof *b);
}

/* Drops the blocks of every layer from number n on. */
static void blocks_trim(struct kv *kv, int n) {
    for (int l = 0; l < kv->n_layer; l++) {
        struct kv_layer *layer = &kv->layers[l];
        for (int b = kv->n_table; layer->blocks && b-- > n;) block_drop(kv, layer, b);
        if (layer->first > n) layer->first = n;
    }
    if (kv->n_blocks > n) kv->n_blocks = n;
}

/* Drops a layer's blocks before number first. */
static void blocks_drop_before(struct kv *kv, struct kv_layer *layer, int first) {
    for (; layer->first < first; layer->first++) block_drop(kv, layer, layer->first);
}

/* Drops the blocks that a layer's window has left behind. */
static void blocks_release(struct kv *kv, struct kv_layer *layer) {
    int live = kv->length - layer->shape.window; /* the first row that is kept */
    if (layer->shape.window > 0) blocks_drop_before(kv, layer, live / KV_BLOCK);
}

/* ---- a cache */

static size_t packed_bytes(hl_kv_type type, int n, int plain) {
    size_t width = (size_t)(n - plain), rest = (size_t)plain;
    if (type == HL_KV_Q8_0) return width / KV_Q8_GROUP * KV_Q8_BYTES + 2 * rest;
    return (width + rest) * (type == HL_KV_F32 ? 4 : 2);
}

static hl_status layer_init(struct kv *kv, int l, const struct kv_shape *shape) {
    struct kv_layer *layer = &kv->layers[l];
    int width = shape->k_dim - shape->k_plain;
    CHECK(kv->type != HL_KV_Q8_0 || (width % KV_Q8_GROUP == 0 && shape->v_dim % KV_Q8_GROUP == 0),
          HL_EUNSUPPORTED, "cache: q8_0 keeps rows in groups of %d, layer %d has heads of %d and %d: use f16",
          KV_Q8_GROUP, l, width, shape->v_dim);
    layer->shape = *shape;
    layer->k_bytes = packed_bytes(kv->type, shape->k_dim, shape->k_plain);
    layer->v_bytes = packed_bytes(kv->type, shape->v_dim, 0);
    layer->blocks = mem_alloc(kv->mem, MEM_SCRATCH, layer_table_bytes(kv->n_table));
    CHECK(layer->blocks, HL_EMEMORY, "cache: no memory for a table of %d positions", kv->n_ctx);
    return HL_OK;
}

hl_status kv_new(struct kv **out, struct mem *mem, hl_kv_type type, int n_layer,
                 const struct kv_shape *shapes, int n_ctx) {
    struct kv *kv = mem_alloc(mem, MEM_SCRATCH, kv_bytes(n_layer));
    CHECK(kv, HL_EMEMORY, "cache: no memory for %d layers", n_layer);
    kv->mem = mem;
    kv->type = type;
    kv->n_layer = n_layer;
    kv->n_ctx = n_ctx;
    kv->n_table = blocks_of(n_ctx);
    for (int l = 0; l < n_layer; l++) {
        hl_status status = layer_init(kv, l, &shapes[l]);
        if (status == HL_OK) continue;
        kv_free(kv);
        return status;
    }
    *out = kv;
    return HL_OK;
}

void kv_free(struct kv *kv) {
    if (!kv) return;
    blocks_trim(kv, 0);
    for (int l = 0; l < kv->n_layer; l++)
        mem_free(kv->mem, MEM_SCRATCH, kv->layers[l].blocks, layer_table_bytes(kv->n_table));
    mem_free(kv->mem, MEM_SCRATCH, kv, kv_bytes(kv->n_layer));
}

hl_status kv_fork(struct kv **out, const struct kv *kv) {
    struct kv *fork = mem_alloc(kv->mem, MEM_SCRATCH, kv_bytes(kv->n_layer));
    CHECK(fork, HL_EMEMORY, "cache: no memory for a fork of %d layers", kv->n_layer);
    *fork = *kv;
    for (int l = 0; l < kv->n_layer; l++) {
        const struct kv_layer *from = &kv->layers[l];
        struct kv_layer *layer = &fork->layers[l];
        *layer = *from;
        layer->blocks = mem_alloc(kv->mem, MEM_SCRATCH, layer_table_bytes(kv->n_table));
        if (!layer->blocks) {
            kv_free(fork);
            return status_set(HL_EMEMORY, "cache: no memory for a fork of %d positions", kv->n_ctx);
        }
        for (int b = from->first; b < kv->n_blocks; b++) {
            layer->blocks[b] = from->blocks[b];
            layer->blocks[b]->refs++;
        }
    }
    *out = fork;
    return HL_OK;
}

int kv_length(const struct kv *kv) { return kv->length; }

int kv_capacity(const struct kv *kv) { return kv->n_ctx; }

hl_kv_type kv_type(const struct kv *kv) { return kv->type; }

/* ---- growing and shrinking */

static hl_status no_memory(const struct kv_layer *layer, int b) {
    return status_set(
        HL_EMEMORY,
        "cache: no memory for positions %d to %d (%zu bytes a layer): use a smaller context or cache type",
        b * KV_BLOCK, b * KV_BLOCK + KV_BLOCK - 1, block_bytes(layer));
}

/* A block that is going to be written must not be another cache's too. */
static hl_status block_own(struct kv *kv, struct kv_layer *layer, int b) {
    struct kv_block *shared = layer->blocks[b];
    if (shared->refs == 1) return HL_OK;
    struct kv_block *own = block_new(kv->mem, layer);
    if (!own) return no_memory(layer, b);
    memcpy(own->rows, shared->rows, block_bytes(layer));
    shared->refs--;
    layer->blocks[b] = own;
    return HL_OK;
}

static hl_status blocks_add(struct kv *kv, int wanted) {
    for (int b = kv->n_blocks; b < wanted; b++) {
        for (int l = 0; l < kv->n_layer; l++) {
            struct kv_layer *layer = &kv->layers[l];
            layer->blocks[b] = block_new(kv->mem, layer);
            if (!layer->blocks[b]) return no_memory(layer, b);
        }
    }
    return HL_OK;
}

hl_status kv_reserve(struct kv *kv, int n) {
    assert(n >= 0 && n <= kv->n_ctx - kv->length);
    int before = kv->n_blocks, wanted = blocks_of(kv->length + n);
    for (int b = kv->length / KV_BLOCK; b < before && b < wanted; b++)
        for (int l = 0; l < kv->n_layer; l++) TRY(block_own(kv, &kv->layers[l], b));
    hl_status status = blocks_add(kv, wanted);
    if (status != HL_OK) blocks_trim(kv, before);
    else if (wanted > before) kv->n_blocks = wanted;
    return status;
}

void kv_advance(struct kv *kv, int n) {
    assert(kv->length + n <= kv->n_blocks * KV_BLOCK);
    kv->length += n;
    for (int l = 0; l < kv->n_layer; l++) blocks_release(kv, &kv->layers[l]);
}

int kv_keeps(const struct kv *kv, int n) {
    for (int l = 0; l < kv->n_layer; l++) {
        int seen = n - kv->layers[l].shape.window + 1; /* by position n */
        if (kv->layers[l].first > 0 && seen < kv->layers[l].first * KV_BLOCK) return 0;
    }
    return n;
}

void kv_rewind(struct kv *kv, int n) {
    assert(n >= 0 && n <= kv->length && kv_keeps(kv, n) == n);
    kv->length = n;
    blocks_trim(kv, blocks_of(n));
}

/* ---- reading */

void *kv_keys(const struct kv *kv, int l, int h, int pos) {
    const struct kv_layer *layer = &kv->layers[l];
    size_t row = (size_t)h * KV_BLOCK + (size_t)(pos % KV_BLOCK);
    return layer->blocks[pos / KV_BLOCK]->rows + row * layer->k_bytes;
}

void *kv_values(const struct kv *kv, int l, int h, int pos) {
    const struct kv_layer *layer = &kv->layers[l];
    size_t keys = (size_t)layer->shape.heads * KV_BLOCK * layer->k_bytes;
    size_t row = (size_t)h * KV_BLOCK + (size_t)(pos % KV_BLOCK);
    return layer->blocks[pos / KV_BLOCK]->rows + keys + row * layer->v_bytes;
}

int kv_first_live(const struct kv *kv, int l) {
    int window = kv->layers[l].shape.window;
    return window > 0 && kv->length > window ? kv->length - window : 0;
}

static int max_int(int a, int b) { return a > b ? a : b; }

static int min_int(int a, int b) { return a < b ? a : b; }

static void layer_stats(const struct kv *kv, int l, struct hl_cache *out) {
    const struct kv_layer *layer = &kv->layers[l];
    for (int b = layer->first; b < kv->n_blocks; b++) {
        int live = min_int(kv->length, (b + 1) * KV_BLOCK) - max_int(kv_first_live(kv, l), b * KV_BLOCK);
        if (live > 0) out->used += (size_t)live * row_bytes(layer);
        out->reserved += block_bytes(layer);
        if (layer->blocks[b]->refs > 1) out->shared += block_bytes(layer);
        out->blocks++;
    }
}

void kv_stats(const struct kv *kv, int l, struct hl_cache *out) {
    memset(out, 0, sizeof *out);
    out->positions = kv->length;
    for (int i = l < 0 ? 0 : l; i < (l < 0 ? kv->n_layer : l + 1); i++) layer_stats(kv, i, out);
}

/* ---- saving */

size_t kv_save_bytes(const struct kv *kv) {
    size_t n = (size_t)kv->n_layer * sizeof(int32_t);
    for (int l = 0; l < kv->n_layer; l++)
        n += (size_t)(kv->length - kv->layers[l].first * KV_BLOCK) * row_bytes(&kv->layers[l]);
    return n;
}

/* Copies the rows of one head, of `bytes` each, between `file` and the blocks; returns what follows in
 * the file. */
static uint8_t *copy_rows(const struct kv *kv, int l, int h, void *(*place)(const struct kv *, int, int, int),
                          size_t bytes, uint8_t *file, bool to_file) {
    for (int pos = kv->layers[l].first * KV_BLOCK; pos < kv->length;) {
        int n = min_int(KV_BLOCK - pos % KV_BLOCK, kv->length - pos);
        void *rows = place(kv, l, h, pos);
        if (to_file) memcpy(file, rows, (size_t)n * bytes);
        else memcpy(rows, file, (size_t)n * bytes);
        file += (size_t)n * bytes;
        pos += n;
    }
    return file;
}

static void copy_all(const struct kv *kv, uint8_t *file, bool to_file) {
    for (int l = 0; l < kv->n_layer; l++) {
        const struct kv_layer *layer = &kv->layers[l];
        for (int h = 0; h < layer->shape.heads; h++) {
            file = copy_rows(kv, l, h, kv_keys, layer->k_bytes, file, to_file);
            file = copy_rows(kv, l, h, kv_values, layer->v_bytes, file, to_file);
        }
    }
}

void kv_save(const struct kv *kv, uint8_t *out) {
    for (int l = 0; l < kv->n_layer; l++) {
        int32_t first = kv->layers[l].first;
        memcpy(out + (size_t)l * sizeof first, &first, sizeof first);
    }
    copy_all(kv, out + (size_t)kv->n_layer * sizeof(int32_t), true);
}

/* Each layer gives back the blocks that it had not when it was saved, but none that the next position sees. */
static hl_status drop_unsaved(struct kv *kv, const uint8_t *bytes) {
    for (int l = 0; l < kv->n_layer; l++) {
        struct kv_layer *layer = &kv->layers[l];
        int32_t first;
        memcpy(&first, bytes + (size_t)l * sizeof first, sizeof first);
        int seen = kv->length - layer->shape.window + 1;
        CHECK(first == layer->first ||
                  (layer->shape.window > 0 && first > layer->first && first <= seen / KV_BLOCK),
              HL_EFORMAT, "cache: layer %d begins at block %d of %d positions", l, (int)first, kv->length);
        blocks_drop_before(kv, layer, first);
    }
    return HL_OK;
}

static hl_status fill(struct kv *kv, const uint8_t *bytes, size_t n) {
    size_t table = (size_t)kv->n_layer * sizeof(int32_t);
    CHECK(n >= table, HL_EFORMAT, "cache: %zu bytes are too few for %d layers", n, kv->n_layer);
    TRY(drop_unsaved(kv, bytes));
    CHECK(n == kv_save_bytes(kv), HL_EFORMAT, "cache: %zu bytes of rows, %d positions have %zu", n,
          kv->length, kv_save_bytes(kv));
    copy_all(kv, (uint8_t *)bytes + table, false);
    return HL_OK;
}

hl_status kv_restore(struct kv *kv, const uint8_t *bytes, size_t n, int length) {
    assert(kv->length == 0);
    TRY(kv_reserve(kv, length));
    kv_advance(kv, length);
    hl_status status = fill(kv, bytes, n);
    if (status != HL_OK) kv_rewind(kv, 0);
    return status;
}
