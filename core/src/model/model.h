/* Weights and hyperparameters of one model: what the decoder needs to know. */
#ifndef HL_MODEL_MODEL_H
#define HL_MODEL_MODEL_H

#include <limits.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/status.h"
#include "gguf/gguf.h"
#include "quant/panel.h"

/* Pairs (2i, 2i + 1), or (i, i + n_rot / 2). */
enum rope_kind { ROPE_INTERLEAVED, ROPE_NEOX };
/* Of the gate. relu(x)^2 has no gate: it acts on w_up's output. */
enum act_kind { ACT_SILU, ACT_GELU, ACT_RELU2 };
enum attn_kind { ATTN_GQA, ATTN_MLA };

enum { WINDOW_ALL = INT_MAX }; /* struct arch.global_every: every layer has the window */

/* A row of the table of architectures: what the file does not say, or may leave out. */
struct arch {
    const char *name; /* general.architecture */
    enum rope_kind rope;
    enum act_kind act;
    enum attn_kind attn;
    int global_every; /* n: layers n - 1, 2 n - 1, .. see everything, the others a window; 0: no windows */
    int window;       /* where the file does not say; 0: none */
    bool local_rope;  /* layers with a window are rotated without scaling, by a base of their own: */
    float rope_base_local;  /* where the file does not say; 0: the same as of the others */
    int no_rope_every;      /* n: layers n - 1, 2 n - 1, .. are not rotated; 0: all are */
    bool branch_norms_only; /* no norm before a branch, only behind it */
    bool post_norm;         /* norms behind the branches, before they are added to the residual stream */
    bool qk_norm;           /* norms of queries and keys, over each head, or: */
    bool qk_norm_whole;     /* over all heads together */
    bool fused_up;          /* ffn_up holds the gate's rows, then its own */
    bool experts;           /* files may have experts, */
    bool expert_norm;       /* whose weights are divided by their sum where the file does not say */
    bool shared_gate; /* the shared experts' output times a sigmoid; as wide as n_ff where it is not said */
    bool yarn_in_scores; /* YaRN's correction scales the scores instead of cosines and sines */
    float attn_softcap;  /* where the file does not say; 0: none */
    float final_softcap; /* the same */
    int n_layer_wide;    /* models of so many layers scale scores by 1 / sqrt(n_embd / n_head); 0: none */
    bool scale_embed;    /* embeddings times sqrt(n_embd) */
    bool minicpm_scales; /* embeddings x 12, branches x 1.4 / sqrt(n_layer), logits x 256 / n_embd */
};

/* NULL when the name is not in the table. */
const struct arch *arch_find(struct str name);
/* Names of all architectures, separated by ", ", into out [size], terminated. */
void arch_names(char *out, size_t size);

/* How router logits become weights; numbers as in the files. */
enum gate_kind { GATE_SOFTMAX = 1, GATE_SIGMOID = 2 };

struct hparams {
    int n_layer, n_embd, n_vocab, n_ctx_train, n_ff;
    int n_head, n_head_kv; /* MLA: n_head_kv is 1, the latent row that all heads share */
    int d_head_k;          /* width of a query and key head; MLA: d_nope + n_rot */
    int d_head_v;          /* width of a value head; MLA: the one that is made from the latent */
    int q_lora_rank;       /* MLA; 0: queries in one step */
    int kv_lora_rank;      /* MLA: width of the cached latent; 0: no MLA */
    int d_nope;            /* MLA: part of a key head that is not rotated */
    int window;            /* positions that a layer with a window sees, its own included; 0: none has */
    float norm_eps;

    int n_rot; /* rotated columns of a head */
    float rope_base;
    float rope_base_local; /* of layers with a window, not scaled then; 0: they are rotated like the others */
    float rope_scale;      /* factor of positions: 1 / factor of linear scaling, else 1 */
    float rope_mscale;     /* factor of cosines and sines: longrope's, YaRN's outside DeepSeek; else 1 */
    float yarn_factor;     /* YaRN: ratio of the context lengths; 0: no YaRN */
    float yarn_beta_fast;  /* YaRN: pairs that turn more often than this over n_ctx_orig stay as they are */
    float yarn_beta_slow;  /* YaRN: pairs that turn less often than this are slowed down by the factor */
    int n_ctx_orig;        /* YaRN: context before it; longrope: contexts beyond this use the long factors */

    float attn_scale;     /* of the scores: 1 / sqrt(d_head_k) where nothing else is said */
    float attn_softcap;   /* c * tanh(x / c) on scores; 0: none */
    float final_softcap;  /* the same on logits */
    float embed_scale;    /* factor of embeddings; 1: none */
    float residual_scale; /* of each branch */
    float logit_scale;    /* of logits */

    int n_expert, n_expert_used; /* 0: dense */
    int n_dense;                 /* layers before the first one with experts */
    int n_expert_groups;         /* experts are chosen from the best groups only; 0 or 1: from all */
    int n_groups_used;           /* how many of them */
    int n_ff_exp;                /* width of one expert */
    int n_ff_shexp;              /* width of all shared experts together; 0: none */
    enum gate_kind expert_gate;
    bool expert_norm;   /* weights of the chosen experts are divided by their sum */
    float expert_scale; /* and multiplied by this */
};

/* n matrices of the same shape, one behind the other. */
struct stack {
    struct matrix first;
    int n;
};

static inline struct matrix stack_at(const struct stack *s, int i) {
    struct matrix m = s->first;
    m.data += (size_t)i * panel_matrix_bytes(m.type, m.n_in, m.n_out);
    return m;
}

/* One layer's weights. NULL data: the model has no such step. Vectors are f32. */
struct layer {
    int window;                  /* positions it sees, its own included; 0: all */
    bool rope;                   /* false: queries and keys are not rotated */
    const float *attn_norm;      /* [n_embd]; NULL: the branch reads x itself */
    struct matrix wq;            /* [n_head * d_head_k][n_embd, MLA: q_lora_rank where there is one] */
    struct matrix wk;            /* [n_head_kv * d_head_k][n_embd] */
    struct matrix wv;            /* [n_head_kv * d_head_v][n_embd] */
    const float *bq, *bk, *bv;   /* biases of the same lengths */
    const float *q_norm;         /* [d_head_k]; arch.qk_norm_whole: [n_head * d_head_k] */
    const float *k_norm;         /* [d_head_k]; arch.qk_norm_whole: [n_head_kv * d_head_k] */
    struct matrix wq_a;          /* MLA: [q_lora_rank][n_embd] */
    const float *q_a_norm;       /* [q_lora_rank] */
    struct matrix wkv_a;         /* [kv_lora_rank + n_rot][n_embd] */
    const float *kv_a_norm;      /* [kv_lora_rank]; NULL: identity */
    struct stack wk_b;           /* n_head of [kv_lora_rank][d_nope]: from a query head to the latent */
    struct stack wv_b;           /* n_head of [d_head_v][kv_lora_rank]: from the latent to a value head */
    struct matrix wo;            /* [n_embd][n_head * d_head_v] */
    const float *bo;             /* [n_embd] */
    const float *post_attn_norm; /* [n_embd] on the branch, before it is added to x */
    const float *ffn_norm;       /* [n_embd]; NULL: the branch reads x itself */
    struct matrix w_gate, w_up;  /* [n_ff][n_embd] */
    struct matrix w_down;        /* [n_embd][n_ff] */
    const float *b_gate, *b_up, *b_down;
    struct matrix w_router;                 /* [n_expert][n_embd] */
    const float *router_bias;               /* [n_expert], for the choice only */
    struct stack w_gate_exps, w_up_exps;    /* n_expert of [n_ff_exp][n_embd] */
    struct stack w_down_exps;               /* n_expert of [n_embd][n_ff_exp] */
    struct matrix w_gate_shexp, w_up_shexp; /* [n_ff_shexp][n_embd] */
    struct matrix w_down_shexp;             /* [n_embd][n_ff_shexp] */
    const float *shexp_gate;                /* [n_embd]; NULL: the shared experts' output is added as it is */
    const float *post_ffn_norm;             /* [n_embd] on the branch, before it is added to x */
};

/* Which frequencies a layer's rotation has: ROPE_LOCAL in layers with a window, ROPE_LONG in contexts
 * beyond n_ctx_orig. */
enum rope_set { ROPE_GLOBAL, ROPE_LOCAL, ROPE_LONG, ROPE_SETS };

/* One file of a model: the whole of it, or a part of a split one. */
struct shard {
    struct gguf *gguf;
    /* Private to model/ */
    struct model_binding *bindings; /* where each tensor of the file goes, [n_tensors] */
    unsigned char *weights;         /* its packed weights, [n_bytes]; taken when its first tensor begins */
    double n_bytes;
};

struct model {
    const struct arch *arch;
    struct hparams hp;
    struct gguf *gguf;     /* of the first file: metadata, vocabulary */
    struct shard *shards;  /* [n_shards] files so far; the last one is arriving or complete */
    int n_shards, n_split; /* n_split: how many there will be; 1 for a whole file; 0: not known yet */
    struct mem *mem;
    struct pool *pool;
    struct matrix token_embd;  /* [n_vocab][n_embd] */
    struct matrix output;      /* the same as token_embd when tied */
    const float *output_norm;  /* [n_embd] */
    const float *output_bias;  /* [n_vocab] or NULL */
    const float *rope_factors; /* [n_rot / 2] or NULL: angles are divided by them; longrope: the short ones */
    const float *rope_factors_long; /* [n_rot / 2] or NULL: the same for contexts beyond n_ctx_orig */
    /* [n_rot / 2] angle per position, once the model is ready; NULL where it has no such layers. */
    const float *rope_freq[ROPE_SETS];
    struct layer *layers;  /* [n_layer] */
    hl_status bind_status; /* whether the headers so far bind to a runnable model, and if not why */
    char bind_message[512];
    uint64_t identity;                  /* of the files: their headers and the first bytes of each tensor */
    bool has_tensors;                   /* false: a vocabulary only */
    double packed_bytes, staging_bytes; /* for the tensors of all headers so far */
    /* Private to model/ */
    bool headers_only; /* the tensors of some part were passed over: this will never be a model */
    uint8_t *staging;  /* bytes of the tensor that is arriving, [staging_room]; given back behind the last */
    size_t staging_room;
};

/* A model that is to be loaded; weights are counted in mem and packed by pool. NULL when there is no
 * memory. */
struct model *model_new(struct mem *mem, struct pool *pool);
void model_free(struct model *m);

/* Loading: as hl_model_window, hl_model_commit, hl_model_finish. A header that parses but does not bind
 * (unknown architecture, missing or ill-shaped tensor) is no error of commit() while no tensor has begun,
 * so that metadata and tokenizer can be looked at; the first tensor byte then fails with bind_status.
 * Memory for the weights of a file is taken when its first tensor begins: HL_EMEMORY says how much is needed
 * before any of them has arrived. Of a split model the tensors are bound as the headers of its parts come;
 * what is missing is known with the last one. */
uint8_t *model_window(struct model *m, size_t *size);
hl_status model_commit(struct model *m, size_t n);
hl_status model_next_part(struct model *m, bool headers_only); /* as hl_model_next_part */
hl_status model_finish(struct model *m);
int model_n_headers(const struct model *m); /* files whose header is complete */
bool model_ready(const struct model *m);    /* all weights are in place */

/* Tensors of all files so far; i in [0, model_n_tensors). */
int model_n_tensors(const struct model *m);
const struct gguf_tensor *model_tensor(const struct model *m, int i);
/* The file that tensor i is in, from 0, and its number *j there. */
int model_tensor_part(const struct model *m, int i, int *j);
double model_file_bytes(const struct model *m); /* of the files so far */

#endif
