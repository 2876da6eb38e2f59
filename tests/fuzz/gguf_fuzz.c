/* The GGUF parser and what binds a model to it, on any bytes: nothing outside the buffers is touched, nothing
 * leaks, and a file that is cut in pieces of any size is the same as the file in one piece. Each "GGUF" in the
 * bytes may also begin the next part of a split model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Headers may claim more than a fuzzer's memory. */
static const double max_model = 32e6;

struct outcome {
    hl_status status, bind_status;
    bool has_header, ready;
    double numbers; /* a sum over all that can be read */
};

#define ALWAYS(COND)                                                                                         \
    do {                                                                                                     \
        if (!(COND)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #COND, status_message());  \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static double sum_str(struct str s) {
    double sum = (double)s.n;
    for (size_t i = 0; i < s.n; i++) sum += s.p[i];
    return sum;
}

static double sum_header(const struct gguf *g) {
    double sum = (double)gguf_file_bytes(g);
    for (int i = 0; i < gguf_n_values(g); i++) {
        struct gguf_value v = gguf_value(g, i);
        ALWAYS(gguf_find(g, v.key.p, v.key.n) == i);
        sum += sum_str(v.key) + (double)v.type + v.n;
        for (int j = 0; j < v.n; j++) {
            double x = gguf_number(g, i, j);
            sum += sum_str(gguf_string(g, i, j)) + (x == x && x < 1e300 && x > -1e300 ? x : 0);
        }
    }
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        sum += sum_str(t->name) + t->dims[0] + t->dims[1] + t->dims[2] + t->dims[3] + (double)t->offset +
               (double)t->n_bytes;
    }
    return sum;
}

static double sum_matrix(const struct matrix *w) {
    static float row[1 << 16];
    double sum = 0;
    ALWAYS(w->data != NULL && w->n_in <= 1 << 16);
    for (int i = 0; i < w->n_out; i++) {
        panel_row(row, w, i);
        for (int j = 0; j < w->n_in; j++) sum += row[j] > -1e30f && row[j] < 1e30f ? (double)row[j] : 0;
    }
    return sum;
}

static bool is_too_large(const struct model *m) {
    return m->bind_status == HL_OK && m->packed_bytes + m->staging_bytes > max_model;
}

/* Pushes a file in pieces of at most `piece` bytes, or of random sizes when it is 0. */
static hl_status push_file(struct model *m, const uint8_t *data, size_t n, size_t piece) {
    struct rng rng;
    rng_seed(&rng, n);
    while (n > 0) {
        size_t room;
        if (is_too_large(m)) return HL_EMEMORY;
        uint8_t *window = model_window(m, &room);
        if (window == NULL) return hl_error_code();
        if (room == 0) break;
        size_t k = piece > 0 ? piece : 1 + (size_t)(rng_uniform(&rng) * rng_uniform(&rng) * 400);
        if (k > room) k = room;
        if (k > n) k = n;
        memcpy(window, data, k);
        TRY(model_commit(m, k));
        data += k;
        n -= k;
    }
    return is_too_large(m) ? HL_EMEMORY : HL_OK;
}

/* Where the next file of a set begins: at the next "GGUF" behind the first byte, or at the end. */
static size_t file_end(const uint8_t *data, size_t n) {
    for (size_t i = 1; i + 4 <= n; i++) {
        if (memcmp(data + i, "GGUF", 4) == 0) return i;
    }
    return n;
}

static hl_status push(struct model *m, const uint8_t *data, size_t n, size_t piece, bool is_set) {
    for (;;) {
        size_t k = is_set ? file_end(data, n) : n;
        TRY(push_file(m, data, k, piece));
        data += k;
        n -= k;
        if (n == 0) return model_finish(m);
        TRY(model_next_part(m, false));
    }
}

static struct outcome load(struct pool *pool, const uint8_t *data, size_t n, size_t piece, bool is_set) {
    struct mem mem = {0};
    struct outcome o = {0};
    struct model *m = model_new(&mem, pool);
    ALWAYS(m != NULL);
    o.status = push(m, data, n, piece, is_set);
    ALWAYS(o.status == HL_OK || status_message()[0] != 0 || o.status == HL_EMEMORY);
    o.has_header = gguf_has_header(m->gguf);
    o.bind_status = m->bind_status;
    o.ready = model_ready(m) && o.status == HL_OK;
    if (o.has_header) o.numbers = sum_header(m->gguf) + model_file_bytes(m);
    if (o.ready) o.numbers += sum_matrix(&m->token_embd) + sum_matrix(&m->output);
    model_free(m);
    for (int i = 0; i < MEM_KINDS; i++) ALWAYS(mem.used[i] == 0);
    return o;
}

static void expect_same(struct outcome a, struct outcome b) {
    ALWAYS(a.status == b.status);
    ALWAYS(a.has_header == b.has_header);
    ALWAYS(a.bind_status == b.bind_status);
    ALWAYS(a.ready == b.ready);
    ALWAYS(a.numbers == b.numbers);
}

static void check(struct pool *pool, const uint8_t *data, size_t n, bool is_set) {
    struct outcome whole = load(pool, data, n, SIZE_MAX, is_set);
    expect_same(whole, load(pool, data, n, 0, is_set));
    if (n < 4096) expect_same(whole, load(pool, data, n, 1, is_set));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static struct pool *pool;
    if (pool == NULL) pool = pool_new(1);
    check(pool, data, n, false);
    if (file_end(data, n) < n) check(pool, data, n, true);
    return 0;
}
