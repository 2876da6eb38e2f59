/* Private to model/: from keys and names of the file to the fields of struct model. */
#ifndef HL_MODEL_BIND_H
#define HL_MODEL_BIND_H

#include "model/model.h"

/* Where a tensor of the file goes; field NULL: nowhere, it is skipped. */
struct model_binding {
    void *field;      /* struct matrix *, or const float ** of a vector */
    bool is_vector;
    size_t offset;    /* of the packed weights in struct model.weights */
    size_t n_bytes;   /* of them */
};

/* Reads and checks the hyperparameters of m->arch. */
hl_status hparams_read(struct hparams *hp, const struct arch *arch, const struct gguf *g);

/* The frequencies m->rope_freq, once all vectors are there. HL_EMEMORY. */
hl_status rope_init(struct model *m);
void rope_free(struct model *m);

/* Finds the architecture, the hyperparameters and every tensor's place; nothing is allocated for weights yet. */
hl_status model_bind(struct model *m);

#endif
