#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "model/bind.h"

/* Rows that one unit of the pool packs. */
enum { PACK_ROWS = 64 };

/* Bytes of each tensor that tell this model from others of the same shape. */
enum { IDENTITY_BYTES = 256 };

static hl_status on_header(void *ctx, const struct gguf *g) {
    struct model *m = ctx;
    m->has_tensors = gguf_n_tensors(g) > 0;
    m->identity = gguf_header_hash(g);
    m->bind_status = model_bind(m);
    if (m->bind_status != HL_OK) snprintf(m->bind_message, sizeof m->bind_message, "%s", status_message());
    return HL_OK;
}

static hl_status take_memory(struct model *m) {
    double megabytes = (m->packed_bytes + m->staging_bytes) / 1e6;
    m->weights = mem_alloc(m->mem, MEM_WEIGHTS, (size_t)m->packed_bytes);
    m->staging = mem_alloc(m->mem, MEM_SCRATCH, (size_t)m->staging_bytes);
    CHECK(m->weights != NULL && m->staging != NULL, HL_EMEMORY, "model: no memory: loading needs %.1f MB beside what is in use",
          megabytes);
    return HL_OK;
}

static void free_staging(struct model *m) {
    mem_free(m->mem, MEM_SCRATCH, m->staging, (size_t)m->staging_bytes);
    m->staging = NULL;
}

static hl_status on_begin(void *ctx, const struct gguf *g, int i, uint8_t **dst) {
    (void)g;
    struct model *m = ctx;
    CHECK(m->bind_status == HL_OK, m->bind_status, "%s", m->bind_message);
    if (m->weights == NULL) TRY(take_memory(m));
    *dst = m->bindings[i].field != NULL ? m->staging : NULL;
    return HL_OK;
}

struct pack_job {
    unsigned char *dst;
    const uint8_t *src;
    const struct gguf_tensor *tensor;
    size_t row_bytes;
    atomic_bool failed;
};

static void pack_rows(void *arg, int unit, int thread) {
    (void)thread;
    struct pack_job *job = arg;
    const struct gguf_tensor *t = job->tensor;
    int row0 = unit * PACK_ROWS, n = t->dims[1] - row0 < PACK_ROWS ? t->dims[1] - row0 : PACK_ROWS;
    const uint8_t *src = job->src + (size_t)row0 * job->row_bytes;
    if (!panel_pack(job->dst, t->type->panel, src, job->row_bytes, t->dims[0], row0, n)) job->failed = true;
}

static hl_status pack_matrix(struct model *m, const struct gguf_tensor *t, unsigned char *dst) {
    struct pack_job job = {dst, m->staging, t, (size_t)(t->n_bytes / (uint64_t)t->dims[1]), false};
    pool_run(m->pool, pack_rows, &job, (t->dims[1] - 1) / PACK_ROWS + 1);
    CHECK(!job.failed, HL_EFORMAT, "model: tensor '%s' has a scale that is infinite or not a number", gguf_label(t->name).text);
    return HL_OK;
}

static hl_status on_done(void *ctx, const struct gguf *g, int i) {
    struct model *m = ctx;
    const struct gguf_tensor *t = gguf_tensor(g, i);
    const struct model_binding *b = &m->bindings[i];
    if (b->field == NULL) return HL_OK;
    m->identity = hash_bytes(m->identity, m->staging, t->n_bytes < IDENTITY_BYTES ? (size_t)t->n_bytes : IDENTITY_BYTES);
    unsigned char *dst = m->weights + b->offset;
    if (b->is_vector) {
        t->type->to_f32((float *)(void *)dst, m->staging, (size_t)t->dims[0]);
        *(const float **)b->field = (const float *)(void *)dst;
    } else {
        TRY(pack_matrix(m, t, dst));
        *(struct matrix *)b->field = (struct matrix){t->type->panel, t->dims[0], t->dims[1], dst};
    }
    return HL_OK;
}

struct model *model_new(struct mem *mem, struct pool *pool) {
    struct model *m = mem_alloc(mem, MEM_SCRATCH, sizeof *m);
    if (m == NULL) return NULL;
    struct gguf_sink sink = {m, on_header, on_begin, on_done};
    m->mem = mem;
    m->pool = pool;
    m->gguf = gguf_new(mem, &sink);
    if (m->gguf != NULL) return m;
    model_free(m);
    return NULL;
}

void model_free(struct model *m) {
    if (m == NULL) return;
    struct mem *mem = m->mem;
    size_t n_tensors = m->bindings != NULL ? (size_t)gguf_n_tensors(m->gguf) : 0;
    free_staging(m);
    mem_free(mem, MEM_WEIGHTS, m->weights, (size_t)m->packed_bytes);
    mem_free(mem, MEM_SCRATCH, m->bindings, n_tensors * sizeof *m->bindings);
    rope_free(m);
    mem_free(mem, MEM_SCRATCH, m->layers, (size_t)m->hp.n_layer * sizeof *m->layers);
    gguf_free(m->gguf);
    mem_free(mem, MEM_SCRATCH, m, sizeof *m);
}

uint8_t *model_window(struct model *m, size_t *size) {
    return gguf_window(m->gguf, size);
}

hl_status model_commit(struct model *m, size_t n) {
    return gguf_commit(m->gguf, n);
}

hl_status model_finish(struct model *m) {
    TRY(gguf_finish(m->gguf));
    free_staging(m);
    if (m->output.data == NULL) m->output = m->token_embd;
    return m->has_tensors && m->bind_status == HL_OK ? rope_init(m) : HL_OK;
}

bool model_ready(const struct model *m) {
    return m->has_tensors && m->bind_status == HL_OK && gguf_complete(m->gguf) && m->staging == NULL;
}
