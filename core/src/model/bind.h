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
    size_t offset; /* of the first packed matrix in struct model.weights; a vector's of its first number */
};

/* Where a tensor of the file goes; no parts: nowhere, it is skipped. */
struct model_binding {
    struct model_part parts[3];
    int n_parts;
    bool is_vector;
};

/* Reads and checks the hyperparameters of m->arch. */
hl_status hparams_read(struct hparams *hp, const struct arch *arch, const struct gguf *g);

/* Which of the layers [n_layer] have a window: sets layer.window. */
hl_status hparams_windows(const struct hparams *hp, const struct arch *arch, const struct gguf *g,
                          struct layer *layers);

/* The frequencies m->rope_freq, once all vectors are there. HL_EMEMORY. */
hl_status rope_init(struct model *m);
void rope_free(struct model *m);

/* Finds the architecture, the hyperparameters and every tensor's place; nothing is allocated for weights
 * yet. */
hl_status model_bind(struct model *m);

#endif
