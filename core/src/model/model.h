/* Weights and hyperparameters of one model: what the decoder needs to know. */
#ifndef HL_MODEL_MODEL_H
#define HL_MODEL_MODEL_H

#include "base/mem.h"
#include "base/pool.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "quant/panel.h"

enum rope_kind { ROPE_INTERLEAVED, ROPE_NEOX }; /* pairs (2i, 2i + 1), or (i, i + n_rot / 2) */
enum act_kind { ACT_SILU, ACT_GELU };
enum attn_kind { ATTN_GQA, ATTN_MLA };

/* A row of the table of architectures: what the file does not say. */
struct arch {
    const char *name; /* general.architecture */
    enum rope_kind rope;
    enum act_kind act;
    enum attn_kind attn;
};

/* NULL when the name is not in the table. */
const struct arch *arch_find(struct str name);
/* Names of all architectures, separated by ", ", into out [size], terminated. */
void arch_names(char *out, size_t size);

struct hparams {
    int n_layer, n_embd, n_vocab, n_ctx_train, n_ff;
    int n_head, n_head_kv, d_head_k, d_head_v, n_rot;
    float norm_eps, rope_base;
    float rope_scale;  /* positions are multiplied by this: 1 / factor of linear scaling, else 1 */
    float attn_scale;  /* of the scores: 1 / sqrt(d_head_k) */
};

/* One layer's weights. NULL data: the model has no such step. Vectors are f32. */
struct layer {
    const float *attn_norm;                    /* [n_embd] */
    struct matrix wq, wk, wv;                  /* [n_head * d_head_k][n_embd], [n_head_kv * d_head_k][n_embd], [n_head_kv * d_head_v][n_embd] */
    const float *bq, *bk, *bv;                 /* biases of the same lengths */
    struct matrix wo;                          /* [n_embd][n_head * d_head_v] */
    const float *bo;                           /* [n_embd] */
    const float *ffn_norm;                     /* [n_embd] */
    struct matrix w_gate, w_up, w_down;        /* [n_ff][n_embd] twice, [n_embd][n_ff] */
    const float *b_gate, *b_up, *b_down;
};

struct model {
    const struct arch *arch;
    struct hparams hp;
    struct gguf *gguf;
    struct mem *mem;
    struct pool *pool;
    struct matrix token_embd;      /* [n_vocab][n_embd] */
    struct matrix output;          /* the same as token_embd when tied */
    const float *output_norm;      /* [n_embd] */
    const float *output_bias;      /* [n_vocab] or NULL */
    const float *rope_factors;     /* [n_rot / 2] or NULL: angles are divided by them */
    struct layer *layers;          /* [n_layer] */
    hl_status bind_status;         /* whether the header binds to a runnable model, and if not why */
    char bind_message[512];
    bool has_tensors;              /* false: a vocabulary only */
    double packed_bytes, staging_bytes;
    /* Private to model/ */
    struct model_binding *bindings; /* where each tensor of the file goes, [n_tensors] */
    unsigned char *weights;         /* all packed weights, [packed_bytes]; taken when the first tensor begins */
    uint8_t *staging;               /* bytes of the tensor that is arriving, [staging_bytes]; given back behind the last one */
};

/* A model that is to be loaded; weights are counted in mem and packed by pool. NULL when there is no memory. */
struct model *model_new(struct mem *mem, struct pool *pool);
void model_free(struct model *m);

/* Loading: as hl_model_window, hl_model_commit, hl_model_finish. A header that parses but does not bind (unknown architecture, missing
 * or ill-shaped tensor) is no error of commit() while no tensor has begun, so that metadata and tokenizer can be looked at; the
 * first tensor byte then fails with bind_status. Memory for all weights is taken when the first tensor begins: HL_EMEMORY says how much
 * is needed before any weight has arrived. */
uint8_t *model_window(struct model *m, size_t *size);
hl_status model_commit(struct model *m, size_t n);
hl_status model_finish(struct model *m);
bool model_ready(const struct model *m); /* all weights are in place */

#endif
