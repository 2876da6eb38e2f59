/* Private to model/: from keys and names of the file to the fields of struct model. */
#ifndef HL_MODEL_BIND_H
#define HL_MODEL_BIND_H

#include "model/model.h"

/* Rows of a tensor of the file (its third dimension counts on) that become a matrix or a stack of n:
 * matrix i are the rows row0 + i * step .. row0 + i * step + n_rows - 1. Or a run of n_rows numbers from
 * row0 on that become a vector. */
struct model_part {
    void *field; /* struct matrix *, struct stack *, or const float ** */
    bool is_stack;
    bool is_transposed; /* its rows become columns */
    int n, row0, n_rows, step;
    size_t offset; /* of the first packed matrix in struct shard.weights; a vector's of its first number */
};

/* Where a tensor of the file goes; no parts: nowhere, it is skipped. */
struct model_binding {
    struct model_part parts[3];
    int n_parts;
    bool is_vector;
};

/* Reads and checks the hyperparameters of m->arch, but for the scaling of the rotation. */
hl_status hparams_read(struct hparams *hp, const struct arch *arch, const struct gguf *g);

/* The scaling of the rotation, which depends on tensors: whether the model has rope_freqs.weight, and
 * rope_factors_long.weight. */
hl_status hparams_rope_scale(struct hparams *hp, const struct arch *arch, const struct gguf *g,
                             bool has_freqs, bool has_long);

/* Which of the layers [n_layer] have a window: sets layer.window. */
hl_status hparams_windows(const struct hparams *hp, const struct arch *arch, const struct gguf *g,
                          struct layer *layers);

/* The frequencies m->rope_freq, once all vectors are there. HL_EMEMORY. */
hl_status rope_init(struct model *m);
void rope_free(struct model *m);

/* Finds the architecture and the hyperparameters in the first header; nothing is allocated for weights
 * yet. */
hl_status model_bind(struct model *m);

/* Finds the place of every tensor in the header that came last. Those that are missing are an error when no
 * further part is to come. */
hl_status model_bind_tensors(struct model *m);

/* The header that came last belongs to the next part of the model: its number, and no tensor twice. The first
 * header says how many parts there are. */
hl_status shards_check(struct model *m);

/* A place for the next file; HL_EMEMORY. */
hl_status shards_add(struct model *m, const struct gguf_sink *sink);
void shards_free(struct model *m);

/* The tensor of this name in the files so far: *shard is its file, the result its index there; -1: absent. */
int shards_find(const struct model *m, const char *name, int *shard);

static inline struct shard *shard_now(const struct model *m) { return &m->shards[m->n_shards - 1]; }

#endif
