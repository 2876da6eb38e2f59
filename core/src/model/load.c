#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "model/bind.h"
#include "quant/transpose.h"

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
    CHECK(m->weights != NULL && m->staging != NULL, HL_EMEMORY,
          "model: no memory: loading needs %.1f MB beside what is in use", megabytes);
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
    *dst = m->bindings[i].n_parts > 0 ? m->staging : NULL;
    return HL_OK;
}

/* One part of a tensor on its way into panels. */
struct pack_job {
    unsigned char *dst; /* of the part's first matrix */
    const uint8_t *src;
    const struct gguf_tensor *tensor;
    const struct model_part *part;
    size_t row_bytes, matrix_bytes;
    int pieces; /* units of one matrix */
    atomic_bool failed;
};

/* Columns, rows and type of each packed matrix of a part. */
static struct matrix packed_matrix(const struct gguf_tensor *t, const struct model_part *part,
                                   const unsigned char *dst) {
    if (part->is_transposed) return (struct matrix){transpose_panel(t->type), part->n_rows, t->dims[0], dst};
    return (struct matrix){t->type->panel, t->dims[0], part->n_rows, dst};
}

static bool pack_rows(const struct pack_job *job, unsigned char *dst, const uint8_t *src, int row0, int n) {
    const struct type_info *t = job->tensor->type;
    int n_in = job->tensor->dims[0];
    if (t->decode == NULL) return panel_pack(dst, t->panel, src, job->row_bytes, n_in, row0, n);
    return panel_pack_parts(dst, t->panel, t->decode, t->n_weights, t->n_bytes, src, job->row_bytes, n_in,
                            row0, n);
}

static void pack_piece(void *arg, int unit, int thread) {
    (void)thread;
    struct pack_job *job = arg;
    const struct gguf_tensor *t = job->tensor;
    const struct model_part *part = job->part;
    int i = unit / job->pieces, row0 = unit % job->pieces * PACK_ROWS;
    int n = part->n_rows - row0 < PACK_ROWS ? part->n_rows - row0 : PACK_ROWS;
    unsigned char *dst = job->dst + (size_t)i * job->matrix_bytes;
    const uint8_t *src =
        job->src + ((size_t)part->row0 + (size_t)i * (size_t)part->step + (size_t)row0) * job->row_bytes;
    bool finite = part->is_transposed
                      ? transpose_pack(dst, t->type, src, job->row_bytes, part->n_rows, t->dims[0])
                      : pack_rows(job, dst, src, row0, n);
    if (!finite) job->failed = true;
}

static hl_status pack_part(struct model *m, const struct gguf_tensor *t, const struct model_part *part) {
    struct matrix w = packed_matrix(t, part, m->weights + part->offset);
    size_t n_rows = (size_t)t->dims[1] * (size_t)t->dims[2];
    struct pack_job job = {m->weights + part->offset,     m->staging, t, part,
                           (size_t)(t->n_bytes / n_rows), 0,          1, false};
    job.matrix_bytes = panel_matrix_bytes(w.type, w.n_in, w.n_out);
    if (!part->is_transposed) job.pieces = (part->n_rows - 1) / PACK_ROWS + 1;
    pool_run(m->pool, pack_piece, &job, part->n * job.pieces);
    CHECK(!job.failed, HL_EFORMAT, "model: tensor '%s' has a scale that is infinite or not a number",
          gguf_label(t->name).text);
    if (part->is_stack) *(struct stack *)part->field = (struct stack){w, part->n};
    else *(struct matrix *)part->field = w;
    return HL_OK;
}

/* The vector is read as a whole; its parts are runs of it. */
static void read_vector(struct model *m, const struct gguf_tensor *t, const struct model_binding *b) {
    float *dst = (float *)(void *)(m->weights + b->parts[0].offset);
    t->type->to_f32(dst, m->staging, (size_t)t->dims[0]);
    for (int p = 0; p < b->n_parts; p++) *(const float **)b->parts[p].field = dst + b->parts[p].row0;
}

static hl_status on_done(void *ctx, const struct gguf *g, int i) {
    struct model *m = ctx;
    const struct gguf_tensor *t = gguf_tensor(g, i);
    const struct model_binding *b = &m->bindings[i];
    if (b->n_parts == 0) return HL_OK;
    m->identity = hash_bytes(m->identity, m->staging,
                             t->n_bytes < IDENTITY_BYTES ? (size_t)t->n_bytes : IDENTITY_BYTES);
    if (b->is_vector) {
        read_vector(m, t, b);
        return HL_OK;
    }
    for (int p = 0; p < b->n_parts; p++) TRY(pack_part(m, t, &b->parts[p]));
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

uint8_t *model_window(struct model *m, size_t *size) { return gguf_window(m->gguf, size); }

hl_status model_commit(struct model *m, size_t n) { return gguf_commit(m->gguf, n); }

hl_status model_finish(struct model *m) {
    TRY(gguf_finish(m->gguf));
    free_staging(m);
    if (m->output.data == NULL) m->output = m->token_embd;
    return m->has_tensors && m->bind_status == HL_OK ? rope_init(m) : HL_OK;
}

bool model_ready(const struct model *m) {
    return m->has_tensors && m->bind_status == HL_OK && gguf_complete(m->gguf) && m->staging == NULL;
}
