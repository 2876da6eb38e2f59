/* GGUF push parser: bytes come in pieces of any size; the only code that walks untrusted bytes. */
#ifndef HL_GGUF_GGUF_H
#define HL_GGUF_GGUF_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/status.h"
#include "quant/types.h"

struct str {
    const char *p; /* not terminated, may hold any byte */
    size_t n;
};

struct gguf_value {
    struct str key;
    hl_meta_type type; /* of the value, or of the elements of an array */
    bool is_array;
    int n; /* elements; 1 for a single value */
};

struct gguf_tensor {
    struct str name;
    const struct type_info *type;
    int n_dims;
    int32_t dims[4];  /* each 1 or more, unused ones 1; dims[0] is a whole number of blocks */
    uint64_t n_bytes; /* at most 2^52; who wants them in memory checks that they fit */
    uint64_t offset;  /* from the start of the data */
};

struct gguf;

/* What happens to tensors. A hook that fails ends the parsing with its status. */
struct gguf_sink {
    void *ctx;
    /* The header is complete; called once before any tensor. */
    hl_status (*header)(void *ctx, const struct gguf *g);
    /* Tensor i starts: *dst gets room for its n_bytes, or NULL to skip them. Called by gguf_window or
     * gguf_finish, never by the commit that completes the header: who only wants the header stops there. */
    hl_status (*begin)(void *ctx, const struct gguf *g, int i, uint8_t **dst);
    /* Tensor i is complete (also called for a skipped one). */
    hl_status (*done)(void *ctx, const struct gguf *g, int i);
};

struct gguf *gguf_new(struct mem *mem, const struct gguf_sink *sink);
void gguf_free(struct gguf *g);

/* As hl_model_window, hl_model_commit and hl_model_finish. */
uint8_t *gguf_window(struct gguf *g, size_t *size);
hl_status gguf_commit(struct gguf *g, size_t n);
hl_status gguf_finish(struct gguf *g);
bool gguf_has_header(const struct gguf *g);
bool gguf_complete(const struct gguf *g);

int gguf_n_values(const struct gguf *g);
struct gguf_value gguf_value(const struct gguf *g, int i);
int gguf_find(const struct gguf *g, const char *key, size_t n); /* -1: absent */
double gguf_number(const struct gguf *g, int i, int j);         /* NaN for text and nested arrays */
struct str gguf_string(const struct gguf *g, int i, int j);     /* {NULL, 0} for numbers */

int gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, int i);
uint64_t gguf_tensor_start(const struct gguf *g, int i);      /* from the start of the file */
int gguf_find_tensor(const struct gguf *g, const char *name); /* -1: absent */
int gguf_find_tensor_str(const struct gguf *g, struct str name);
uint64_t gguf_header_hash(const struct gguf *g); /* of all metadata and tensor descriptions */
uint64_t gguf_file_bytes(const struct gguf *g);  /* where the last tensor ends */

/* s in a message: unprintable bytes as '?', cut when long. */
struct gguf_label {
    char text[72];
};
struct gguf_label gguf_label(struct str s);

/* Typed look-ups by key, absent ones give the default. HL_EFORMAT (naming key, type and value) when the value
 * has another kind or lies out of [lo, hi]. Integers of any width are taken; a float is not taken for one. */
hl_status gguf_get_int(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int32_t missing,
                       int32_t *out);
hl_status gguf_get_float(const struct gguf *g, const char *key, double lo, double hi, float missing,
                         float *out);
hl_status gguf_get_bool(const struct gguf *g, const char *key, bool missing, bool *out);
hl_status gguf_get_str(const struct gguf *g, const char *key, struct str missing, struct str *out);
/* An array of n integers, or one integer that stands for all n. */
hl_status gguf_get_ints(const struct gguf *g, const char *key, int32_t lo, int32_t hi, int n, int32_t *out,
                        bool *found);

#endif
