/* Headlight: small language models, their weights and their KV cache in one linear memory.
 *
 * One hl_model holds weights and tokenizer; any number of hl_session hold a context each. Nothing here
 * prints, exits or reads files: the caller pushes the bytes of a GGUF file in. All calls on one model and its
 * sessions come from one thread; the model's own worker threads are hidden.
 *
 * Conventions
 *   - Functions that can fail return hl_status, or NULL / a negative hl_status where they return a pointer /
 *     a count; hl_error() then says in words what is wrong, where, and what to do. A failed call changes
 *     nothing unless it says so.
 *   - Text is UTF-8 with a length in bytes, not terminated. Token ids lie in [0, n_vocab).
 *   - Sizes are bytes; matrices are row-major, shapes are written [rows][columns]. */
#ifndef HEADLIGHT_H
#define HEADLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HL_API __attribute__((visibility("default")))

typedef enum hl_status {
    HL_OK = 0,
    HL_EARGUMENT = -1,    /* an argument is out of its range */
    HL_EFORMAT = -2,      /* the bytes are no valid GGUF file, or contradict themselves */
    HL_EUNSUPPORTED = -3, /* valid, but of an architecture, type, tokenizer or range that is not built in */
    HL_ETRUNCATED = -4,   /* the bytes end before the file does */
    HL_EMEMORY = -5,      /* linear memory is used up */
    HL_EFULL = -6,        /* the context has no room for the tokens */
    HL_ESTATE = -7,       /* the call does not fit the state: no header yet, loading has failed, no logits */
} hl_status;

typedef struct hl_model hl_model;
typedef struct hl_session hl_session;
typedef struct hl_sampler hl_sampler;
typedef struct hl_detokenizer hl_detokenizer;

/* What the last failed call on this thread had to say; "" when none failed. Valid until the next call. */
HL_API const char *hl_error(void);

/* Code of the last failed call on this thread, for functions that return NULL. HL_OK when none failed. */
HL_API hl_status hl_error_code(void);

/* Hash over the sources and flags of this build; JavaScript refuses a core of another build. */
HL_API const char *hl_build_id(void);

/* ---- model: loading */

/* How activations of quantized matrices are rounded, with one scale per 32: to int8, or 15 bits where a row
 * is large; or all to int16. Float matrices see float activations in both. */
typedef enum hl_precision { HL_FAST = 0, HL_HIGH = 1 } hl_precision;

/* A model without weights. n_threads counts the calling thread, 1 .. 64 (1 in builds without threads).
 * Returns NULL: HL_EARGUMENT, HL_EMEMORY. */
HL_API hl_model *hl_model_new(int n_threads, hl_precision precision);

/* Frees the model. Its sessions and detokenizers must be freed before. NULL is allowed. */
HL_API void hl_model_free(hl_model *m);

/* Cuts text as this pre-tokenizer does, instead of the one that the file names in tokenizer.ggml.pre (a name as
 * there, such as "llama-bpe"): for files whose name is not built in, or wrong. Call it before the header has
 * arrived. HL_EARGUMENT: no such name; the message lists them. A SentencePiece vocabulary then fails with
 * HL_EARGUMENT when its header comes. */
HL_API hl_status hl_model_set_pretokenizer(hl_model *m, const char *name);

/* Where the next bytes of the file go: the caller writes up to *size bytes there and says how many with
 * hl_model_commit. The pointer is good until that call. *size is 0 when the file is complete (bytes after the
 * last tensor are ignored). Returns NULL when loading has failed or when there is no memory: see
 * hl_error(). */
HL_API uint8_t *hl_model_window(hl_model *m, size_t *size);

/* Takes n bytes written into the window: parses the header as far as it goes, packs a tensor when it is
 * complete. Errors are final for the model: HL_EFORMAT, HL_EUNSUPPORTED, HL_EMEMORY, HL_EARGUMENT (n larger
 * than the window). */
HL_API hl_status hl_model_commit(hl_model *m, size_t n);

/* One file of a split model (NAME-00001-of-00003.gguf; metadata says how many there are: hl_info.n_parts) has
 * ended; the bytes that follow are the next one's. The parts come in their order. Errors are final and say in
 * which part they are: HL_ETRUNCATED (the file has not ended), HL_EFORMAT (the model is whole, or has no
 * further part; the next commits refuse a part that is out of order or belongs to another model).
 *
 * headers_only: the rest of the file may be missing once its header is there, for a look at all tensors
 * without their weights; hl_model_finish then refuses. */
HL_API hl_status hl_model_next_part(hl_model *m, bool headers_only);

/* The input has ended. HL_ETRUNCATED when the file has not, or when parts are missing. Afterwards sessions can
 * be made, unless the file is a vocabulary without tensors: then only tokenizing works. */
HL_API hl_status hl_model_finish(hl_model *m);

/* True once hyperparameters, tokenizer and tensor list are known. hl_model_info, hl_meta_*, hl_tensor_* and
 * tokenizing work from then on. Of a split model the first part has the metadata; each part's header adds its
 * tensors. */
HL_API bool hl_model_has_header(const hl_model *m);

/* Parts whose header has arrived: 1 for a whole file, hl_info.n_parts when all tensors are known. */
HL_API int hl_model_parts(const hl_model *m);

/* Whether the header binds to a runnable model: every tensor that its architecture needs is there in the
 * right shape and in a type that is built in. Known before any weight arrives; of a split model what is known
 * so far: a missing tensor with the last part's header. HL_ESTATE before the header. */
HL_API hl_status hl_model_check(const hl_model *m);

typedef enum hl_attention_kind { HL_MHA = 0, HL_GQA = 1, HL_MQA = 2, HL_MLA = 3 } hl_attention_kind;

struct hl_info {
    int32_t n_layer, n_head, n_head_kv, n_embd, n_ff, n_vocab, n_ctx_train;
    int32_t d_head_k, d_head_v;      /* floats of one key and one value head */
    int32_t kv_lora_rank, d_rope;    /* MLA: the latent and the rope part of a cached row; 0 elsewhere */
    int32_t n_expert, n_expert_used; /* 0 when dense */
    int32_t attention;               /* hl_attention_kind */
    int32_t bos, eos, eot, unk, pad; /* token ids, -1 when the file has none */
    int32_t add_bos, add_eos;        /* 1 when the tokenizer adds them */
    int32_t sliding_window;          /* positions, 0 when all layers see everything */
    int32_t n_parts;                 /* files that the model is split into; 1 for a whole file */
    /* Of a split model the rest is of the parts whose header has arrived (hl_model_parts). */
    double n_params;      /* weights in the file */
    double file_bytes;    /* header, padding and tensor data: where the file ends */
    double packed_bytes;  /* of all weights once packed */
    double staging_bytes; /* of the largest tensor: what loading takes beside packed_bytes */
    double scratch_bytes; /* of the decoder, beside packed_bytes once the model is loaded */
};

/* Fills *out. HL_ESTATE before the header. */
HL_API hl_status hl_model_info(const hl_model *m, struct hl_info *out);

/* Name of the architecture as in general.architecture; "" before the header. */
HL_API const char *hl_model_arch(const hl_model *m);

/* Positions that a layer looks back on, the newest included; 0: all. Negative: HL_EARGUMENT, HL_ESTATE (no
 * header that binds). */
HL_API int hl_model_window_of(const hl_model *m, int layer);

/* Bytes by the allocator's count, not by a formula. peak is the largest sum so far. */
struct hl_memory {
    size_t weights, cache, scratch, tokenizer, peak;
};
HL_API void hl_model_memory(const hl_model *m, struct hl_memory *out);

/* ---- model: metadata and tensors */

/* GGUF value types; elements of an array have one of the others. Source: the GGUF specification. */
typedef enum hl_meta_type {
    HL_META_U8 = 0,
    HL_META_I8,
    HL_META_U16,
    HL_META_I16,
    HL_META_U32,
    HL_META_I32,
    HL_META_F32,
    HL_META_BOOL,
    HL_META_STRING,
    HL_META_ARRAY,
    HL_META_U64,
    HL_META_I64,
    HL_META_F64,
} hl_meta_type;

/* Metadata entries in the file's order, unknown ones included. Index i in [0, hl_meta_count). */
HL_API int hl_meta_count(const hl_model *m);
HL_API const char *hl_meta_key(const hl_model *m, int i, size_t *n);
/* Index of key (n bytes), -1 when absent. */
HL_API int hl_meta_find(const hl_model *m, const char *key, size_t n);
/* The value's type, or for an array its elements' type. */
HL_API hl_meta_type hl_meta_value_type(const hl_model *m, int i);
/* Number of elements of an array; -1 for a single value. */
HL_API int hl_meta_length(const hl_model *m, int i);
/* Element j (0 for a single value) as a number (bool: 0 or 1; NaN for strings and nested arrays) or as text
 * (NULL for numbers). */
HL_API double hl_meta_number(const hl_model *m, int i, int j);
HL_API const char *hl_meta_string(const hl_model *m, int i, int j, size_t *n);

HL_API int hl_tensor_count(const hl_model *m);
HL_API const char *hl_tensor_name(const hl_model *m, int i, size_t *n);
/* Name of the block type, such as "Q4_1". */
HL_API const char *hl_tensor_type(const hl_model *m, int i);
/* dims[0] is the contiguous dimension (input features); unused ones are 1. Returns the number of
 * dimensions. */
HL_API int hl_tensor_dims(const hl_model *m, int i, int32_t dims[4]);
/* Bytes in the file. */
HL_API double hl_tensor_bytes(const hl_model *m, int i);
/* Where they begin, counted from the start of their file; *part: which file of a split model, from 0. */
HL_API double hl_tensor_start(const hl_model *m, int i, int32_t *part);

/* ---- tokenizer */

enum {
    HL_SPECIAL = 1, /* tokenize: parse control markers in the text; detokenize: show control tokens */
    HL_BOS = 2,     /* tokenize: begin with BOS (and end with EOS) where the tokenizer adds them */
    /* detokenize: the ids go on from an earlier text, so that a leading space is a space: SentencePiece
     * vocabularies begin each text with one that is not shown */
    HL_CONTINUE = 4,
};

/* Ids of n bytes of text. Writes at most capacity of them and returns how many there are in all (call again
 * with room when that is more), or a negative hl_status. Invalid UTF-8 is taken byte by byte. Time is O(n log
 * n). */
HL_API int hl_tokenize(hl_model *m, const char *text, size_t n, int flags, int32_t *ids, int capacity);

/* Text of one token as raw bytes (a byte token may be a part of a character); *n bytes. Control tokens give
 * their marker. NULL: HL_EARGUMENT. */
HL_API const char *hl_token_text(hl_model *m, int32_t id, size_t *n);

/* True for tokens that end a turn or a text: EOS, EOT and the like. */
HL_API bool hl_token_is_end(const hl_model *m, int32_t id);
/* True for control tokens (markers that are no text). */
HL_API bool hl_token_is_control(const hl_model *m, int32_t id);

/* Streaming detokenizer: never splits a UTF-8 character; bytes that cannot become one turn into U+FFFD as
 * WHATWG's decoder does it. flags: HL_SPECIAL, HL_CONTINUE. Returns NULL: HL_EMEMORY. */
HL_API hl_detokenizer *hl_detokenizer_new(hl_model *m, int flags);
HL_API void hl_detokenizer_free(hl_detokenizer *d);
/* Text that became complete with this token; *n bytes, good until the next call. NULL: HL_EARGUMENT,
 * HL_EMEMORY. */
HL_API const char *hl_detokenizer_push(hl_detokenizer *d, int32_t id, size_t *n);
/* What is left over (U+FFFD for an incomplete character); the detokenizer is then as new. */
HL_API const char *hl_detokenizer_flush(hl_detokenizer *d, size_t *n);

/* ---- session */

typedef enum hl_kv_type { HL_KV_F32 = 0, HL_KV_F16 = 1, HL_KV_Q8_0 = 2 } hl_kv_type;

enum { HL_CHUNK = 64 }; /* positions that are evaluated together */

/* An empty context of at most n_ctx positions. The cache grows in blocks as positions are used.
 * Returns NULL: HL_EARGUMENT, HL_ESTATE (weights not loaded), HL_EUNSUPPORTED (cache type), HL_EMEMORY. */
HL_API hl_session *hl_session_new(hl_model *m, int n_ctx, hl_kv_type type);
HL_API void hl_session_free(hl_session *s);

/* Appends tokens to the session's context and computes the logits after the last one.
 *
 * tokens  n token ids, each in [0, n_vocab)
 * n       1 or more; a long prompt is cut into chunks of HL_CHUNK inside
 *
 * Afterwards hl_logits() points at n_vocab floats, unscaled, and hl_session_length() has grown by n.
 * Time is O(n * (weights + length)): one decode step reads every active weight once.
 *
 * Returns HL_EFULL when length + n > n_ctx, HL_EARGUMENT for an id out of range, HL_EMEMORY, HL_EUNSUPPORTED
 * when a key or value is no number or too large for the cache's type (f16: beyond 65504, q8_0: beyond 8.3
 * million); the context is then unchanged. Source: Vaswani et al. 2017, section 3.2; incremental form with shared keys: Shazeer 2019,
 * arXiv 1911.02150. */
HL_API hl_status hl_feed(hl_session *s, const int32_t *tokens, int n);

/* Logits after the last position fed, [n_vocab]; NULL when there are none (nothing fed since new or
 * rewind). */
HL_API const float *hl_logits(const hl_session *s);

/* Positions in the cache. */
HL_API int hl_session_length(const hl_session *s);

/* Token ids in the cache, [hl_session_length]; good until the next call that changes the session. */
HL_API const int32_t *hl_session_tokens(const hl_session *s);

/* The largest length <= n that hl_session_rewind can go back to: n, or 0 where a layer with a sliding window
 * has given back rows that position n would see. n in [0, length]. */
HL_API int hl_session_keeps(const hl_session *s, int n);

/* Forgets all positions from n on and gives their blocks back. Logits are gone unless n == length.
 * HL_EARGUMENT: n is out of [0, length]; HL_ESTATE: hl_session_keeps(s, n) is not n. */
HL_API hl_status hl_session_rewind(hl_session *s, int n);

/* A second session with the same context; cache blocks are shared until one of them writes. Taps are off in
 * it, logits are copied. NULL: HL_EMEMORY. */
HL_API hl_session *hl_session_fork(const hl_session *s);

/* Bytes that hl_session_save writes. */
HL_API size_t hl_session_save_bytes(const hl_session *s);

/* Writes the context (tokens and cache rows) into out [hl_session_save_bytes]. The format belongs to this
 * build, model and precision. note: a number of the caller's, which hl_session_restore gives back. */
HL_API void hl_session_save(const hl_session *s, uint32_t note, uint8_t *out);

enum { HL_SAVED_HEAD = 48 }; /* bytes at the beginning of a saved context that say what it is */

/* Whether n bytes that begin with head [HL_SAVED_HEAD, or n when that is less] can be a saved context for this
 * session, before memory is taken for them all. Errors as of hl_session_restore. */
HL_API hl_status hl_session_can_restore(const hl_session *s, const uint8_t *head, size_t n);

/* Replaces the context by a saved one; there are no logits afterwards. Nothing has changed on failure:
 * HL_EFORMAT (damaged, or not a saved context), HL_EUNSUPPORTED (another build, model, precision or cache
 * type), HL_EFULL (longer than n_ctx), HL_EMEMORY. */
HL_API hl_status hl_session_restore(hl_session *s, const uint8_t *bytes, size_t n, uint32_t *note);

/* How multi-head latent attention (MLA) is evaluated: queries are brought to the cached latent rows
 * (absorbed), or the keys and values of each head are made from them (expanded), which costs less from about
 * r d / (r - d) query rows a chunk on: 171 for a latent of r = 512 and heads of d = 128. HL_CHUNK stays below
 * that, so auto is absorbed; expanded is there to check it. */
typedef enum hl_mla { HL_MLA_AUTO = 0, HL_MLA_ABSORBED = 1, HL_MLA_EXPANDED = 2 } hl_mla;

/* For what is fed from now on; no difference to models without MLA. HL_EARGUMENT. */
HL_API hl_status hl_session_set_mla(hl_session *s, hl_mla mode);

/* Cache bytes: used = live rows x row bytes, reserved = blocks held x block bytes, shared = reserved bytes
 * that another session holds too. layer in [0, n_layer), or -1 for the sum. */
struct hl_cache {
    int32_t positions, blocks;
    size_t used, reserved, shared;
};
HL_API hl_status hl_session_cache(const hl_session *s, int layer, struct hl_cache *out);

/* ---- taps */

/* Copies of what passes through, taken while hl_feed runs; off costs nothing.
 * Rows are the positions of the last chunk: feed HL_CHUNK tokens or fewer at a time to see every row.
 *   HL_TAP_EMBD          [rows][n_embd]               input of the first layer
 *   HL_TAP_ATTN_PROB     [n_head][rows][length]       attention after softmax, 0 where masked        (by
 *   layer)
 *   HL_TAP_LAYER_OUT     [rows][n_embd]               residual stream behind the layer               (by
 *   layer)
 *   HL_TAP_FINAL_NORM    [rows][n_embd]               input of the output matrix
 *   HL_TAP_LOGITS        [rows][n_vocab]              logits of every position
 *   HL_TAP_ROUTER        [rows][n_expert_used][2]     expert and its weight                          (by
 *   layer)
 *   HL_TAP_SCORE_LATENT, HL_TAP_SCORE_ROPE
 *                        [n_head][rows][length]       MLA: the two summands of the scores, scaled, before
 *                        softmax, 0 where
 *                                                     masked: from the latent and from the rotated part  (by
 *                                                     layer)
 * and for finding a first difference, all [rows][columns] (by layer):
 *   HL_TAP_ATTN_NORM, HL_TAP_Q, HL_TAP_K, HL_TAP_V (as they enter attention), HL_TAP_ATTN_OUT,
 *   HL_TAP_FFN_NORM, HL_TAP_FFN_OUT */
typedef enum hl_tap {
    HL_TAP_EMBD,
    HL_TAP_ATTN_NORM,
    HL_TAP_Q,
    HL_TAP_K,
    HL_TAP_V,
    HL_TAP_ATTN_PROB,
    HL_TAP_ATTN_OUT,
    HL_TAP_FFN_NORM,
    HL_TAP_FFN_OUT,
    HL_TAP_LAYER_OUT,
    HL_TAP_FINAL_NORM,
    HL_TAP_LOGITS,
    HL_TAP_ROUTER,
    HL_TAP_SCORE_LATENT,
    HL_TAP_SCORE_ROPE,
    HL_TAPS
} hl_tap;

/* Switches a tap on or off; layer 0 for taps that have none. HL_EARGUMENT, HL_EMEMORY. */
HL_API hl_status hl_tap_set(hl_session *s, hl_tap tap, int layer, bool on);

/* What the tap took in the last chunk; shape[3] = {heads or 1, rows, columns}. Good until the next hl_feed.
 * NULL when the tap is off or nothing has passed. */
HL_API const float *hl_tap_read(const hl_session *s, hl_tap tap, int layer, int32_t shape[3]);

/* ---- sampler */

/* Order: logit bias, penalties, top-k, typical-p, top-p, min-p, temperature (the order of llama.cpp's
 * defaults). Values that switch a step off are given in brackets. */
struct hl_sampler_params {
    float temperature;       /* 0 or less: greedy, the lowest id wins a tie [1] */
    int32_t top_k;           /* [0] */
    float top_p;             /* [1] */
    float min_p;             /* [0] */
    float typical_p;         /* [1] */
    float repeat_penalty;    /* divides positive, multiplies negative logits of tokens seen [1] */
    int32_t repeat_last_n;   /* tokens that the penalties look back on; 0 off, -1 all */
    float frequency_penalty; /* [0] */
    float presence_penalty;  /* [0] */
    uint32_t seed;
    int32_t n_bias;           /* entries of the two arrays, copied by hl_sampler_new */
    const int32_t *bias_ids;  /* [n_bias] */
    const float *bias_values; /* [n_bias], added to logits; -inf forbids */
};

/* Returns NULL: HL_EARGUMENT (a value out of its range, by name), HL_EMEMORY. */
HL_API hl_sampler *hl_sampler_new(const struct hl_sampler_params *p);
HL_API void hl_sampler_free(hl_sampler *s);

/* Tells the sampler of a token of the context, prompt tokens included; the penalties count it. */
HL_API hl_status hl_sampler_accept(hl_sampler *s, int32_t id);

/* Draws one token from logits [n_vocab] (left as they are); does not accept it. NaN counts as -inf, +inf is
 * certain. Negative: HL_EARGUMENT (all logits are -inf or NaN; a biased id is not in the vocabulary),
 * HL_EMEMORY. */
HL_API int32_t hl_sampler_sample(hl_sampler *s, const float *logits, int n_vocab);

/* The distribution hl_sampler_sample draws from: probs [n_vocab], 0 for tokens that were cut. */
HL_API hl_status hl_sampler_probs(hl_sampler *s, const float *logits, int n_vocab, float *probs);

/* Natural-log probabilities of logits [n_vocab] (before any sampler): the k largest into ids, logprobs [k],
 * largest first, ties by lowest id; returns the log probability of token id (NaN when id is out of range). */
HL_API float hl_top_logprobs(const float *logits, int n_vocab, int32_t id, int k, int32_t *ids,
                             float *logprobs);

#ifdef __cplusplus
}
#endif
#endif
