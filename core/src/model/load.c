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

static hl_status bind(struct model *m) {
    if (m->n_shards == 1) TRY(model_bind(m));
    return model_bind_tensors(m);
}

static hl_status on_header(void *ctx, const struct gguf *g) {
    struct model *m = ctx;
    uint64_t hash = gguf_header_hash(g);
    TRY(shards_check(m));
    m->identity = m->n_shards == 1 ? hash : hash_bytes(m->identity, &hash, sizeof hash);
    m->has_tensors = gguf_n_tensors(g) > 0 || m->n_split > 1;
    if (m->bind_status != HL_OK) return HL_OK;
    m->bind_status = bind(m);
    if (m->bind_status != HL_OK) snprintf(m->bind_message, sizeof m->bind_message, "%s", status_message());
    return HL_OK;
}

static void free_staging(struct model *m) {
    mem_free(m->mem, MEM_SCRATCH, m->staging, m->staging_room);
    m->staging = NULL;
    m->staging_room = 0;
}

/* For the file's packed weights, and for its largest tensor as it arrives. */
static hl_status take_memory(struct model *m, struct shard *shard) {
    double megabytes = (shard->n_bytes + m->staging_bytes) / 1e6;
    bool has_room = m->staging != NULL && (double)m->staging_room >= m->staging_bytes;
    if (!has_room) free_staging(m);
    shard->weights = mem_alloc(m->mem, MEM_WEIGHTS, (size_t)shard->n_bytes);
    if (!has_room) {
        m->staging = mem_alloc(m->mem, MEM_SCRATCH, (size_t)m->staging_bytes);
        m->staging_room = m->staging != NULL ? (size_t)m->staging_bytes : 0;
    }
    CHECK(shard->weights != NULL && m->staging != NULL, HL_EMEMORY,
          "model: no memory: loading needs %.1f MB beside what is in use", megabytes);
    return HL_OK;
}

static hl_status check_bound(const struct model *m) {
    CHECK(m->bind_status == HL_OK, m->bind_status, "%s", m->bind_message);
    return HL_OK;
}

static hl_status on_begin(void *ctx, const struct gguf *g, int i, uint8_t **dst) {
    (void)g;
    struct model *m = ctx;
    struct shard *shard = shard_now(m);
    TRY(check_bound(m));
    if (shard->weights == NULL) TRY(take_memory(m, shard));
    *dst = shard->bindings[i].n_parts > 0 ? m->staging : NULL;
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
    unsigned char *dst = shard_now(m)->weights + part->offset;
    struct matrix w = packed_matrix(t, part, dst);
    size_t n_rows = (size_t)t->dims[1] * (size_t)t->dims[2];
    struct pack_job job = {dst, m->staging, t, part, (size_t)(t->n_bytes / n_rows), 0, 1, false};
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
    float *dst = (float *)(void *)(shard_now(m)->weights + b->parts[0].offset);
    t->type->to_f32(dst, m->staging, (size_t)t->dims[0]);
    for (int p = 0; p < b->n_parts; p++) *(const float **)b->parts[p].field = dst + b->parts[p].row0;
}

static hl_status on_done(void *ctx, const struct gguf *g, int i) {
    struct model *m = ctx;
    const struct gguf_tensor *t = gguf_tensor(g, i);
    const struct model_binding *b = &shard_now(m)->bindings[i];
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

static const struct gguf_sink sink = {NULL, on_header, on_begin, on_done};

static hl_status add_shard(struct model *m) {
    struct gguf_sink own = sink;
    own.ctx = m;
    return shards_add(m, &own);
}

struct model *model_new(struct mem *mem, struct pool *pool) {
    struct model *m = mem_alloc(mem, MEM_SCRATCH, sizeof *m);
    if (m == NULL) return NULL;
    m->mem = mem;
    m->pool = pool;
    if (add_shard(m) == HL_OK) return m;
    model_free(m);
    return NULL;
}

void model_free(struct model *m) {
    if (m == NULL) return;
    struct mem *mem = m->mem;
    free_staging(m);
    shards_free(m);
    rope_free(m);
    mem_free(mem, MEM_SCRATCH, m->layers, (size_t)m->hp.n_layer * sizeof *m->layers);
    mem_free(mem, MEM_SCRATCH, m, sizeof *m);
}

/* Of a set, errors say in which file they are. */
static hl_status in_part(const struct model *m, hl_status status) {
    char message[512];
    if (status == HL_OK || m->n_split < 2) return status;
    snprintf(message, sizeof message, "%s", status_message());
    return status_set(status, "part %d of %d: %s", m->n_shards, m->n_split, message);
}

uint8_t *model_window(struct model *m, size_t *size) {
    uint8_t *window = gguf_window(shard_now(m)->gguf, size);
    if (window == NULL) in_part(m, hl_error_code());
    return window;
}

hl_status model_commit(struct model *m, size_t n) { return in_part(m, gguf_commit(shard_now(m)->gguf, n)); }

hl_status model_next_part(struct model *m, bool headers_only) {
    const struct gguf *g = shard_now(m)->gguf;
    bool passed_over = headers_only && gguf_has_header(g);
    if (!passed_over) TRY(in_part(m, gguf_finish(shard_now(m)->gguf)));
    if (!headers_only) TRY(check_bound(m));
    CHECK(m->n_split > 1, HL_EFORMAT, "model: the first of the files is a whole model: give it alone");
    CHECK(m->n_shards < m->n_split, HL_EFORMAT, "model: it has %d parts, and more files are given",
          m->n_split);
    m->headers_only = m->headers_only || !gguf_complete(g);
    return add_shard(m);
}

hl_status model_finish(struct model *m) {
    TRY(in_part(m, gguf_finish(shard_now(m)->gguf)));
    CHECK(m->n_shards == m->n_split, HL_ETRUNCATED,
          "model: %d of the %d parts of this split model were given; part %d is missing: give all, in order",
          m->n_shards, m->n_split, m->n_shards + 1);
    CHECK(!m->headers_only, HL_ETRUNCATED, "model: only headers of its parts were given");
    if (m->n_split > 1) TRY(check_bound(m));
    free_staging(m);
    if (m->output.data == NULL) m->output = m->token_embd;
    return m->has_tensors && m->bind_status == HL_OK ? rope_init(m) : HL_OK;
}

bool model_ready(const struct model *m) {
    return m->has_tensors && m->bind_status == HL_OK && m->n_shards == m->n_split && !m->headers_only &&
           gguf_complete(shard_now(m)->gguf) && m->staging == NULL;
}
