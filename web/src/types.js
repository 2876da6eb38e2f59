/**
 * Types of the package's public face. Numbers are in SI units: bytes, milliseconds, tokens per second.
 *
 * @typedef {string | URL | File | Blob | Response | ReadableStream<Uint8Array> | Uint8Array} SingleSource
 *   a URL, an opened file, or bytes; in Node a string without a scheme is a path
 * @typedef {SingleSource | SingleSource[]} Source
 *   a list holds the parts of a split model, in their order; the URL or path of NAME-00001-of-0000N.gguf stands for all N
 * @typedef {'f32' | 'f16' | 'q8_0'} KvType
 * @typedef {'fast' | 'high'} Precision
 * @typedef {'relaxed' | 'simd' | 'single'} Variant
 * @typedef {'stop' | 'slide' | 'error'} Overflow
 *   what happens when a generation reaches the end of the context: it ends with finishReason 'length'; the first positions
 *   and the newer half of the others are evaluated again, and it goes on; or it is an error
 *
 * @typedef {object} Progress
 * @property {'start' | 'load' | 'ready'} stage the engine starts; bytes arrive; done
 * @property {number} loaded bytes
 * @property {number | undefined} total bytes, when known
 * @property {number} bytesPerSecond
 * @property {boolean} fromStore
 *
 * @typedef {object} LoadOptions
 * @property {number} [threads] default: chosen for the machine, see features().defaultThreads
 * @property {number} [context] positions; default the model's, at most 4096
 * @property {KvType} [kv] default f16
 * @property {Precision} [precision] default fast: 8-bit activations, 15-bit where a row is large; high: 16-bit
 * @property {Variant} [variant] default: the fastest that works here
 * @property {Overflow} [overflow] default stop
 * @property {string | string[]} [sha256] hex of the file, or of each part's; refused when it differs
 * @property {HeadersInit} [headers] for URLs
 * @property {string | URL} [assets] folder of the .wasm and .mjs files of dist/, when they were moved
 * @property {number} [maxMemory] bytes of linear memory at most
 * @property {string} [template] a chat template (jinja) instead of the model's
 * @property {string} [pretokenizer] instead of the one that the file names in tokenizer.ggml.pre: llama-bpe, qwen2, ..
 * @property {AbortSignal} [signal]
 * @property {(progress: Progress) => void} [onProgress]
 *
 * @typedef {object} KvShape
 * @property {number} layers
 * @property {number} kvHeads
 * @property {number} keyDim floats of a key head
 * @property {number} [valueDim] default keyDim
 * @property {number} [rank] MLA: floats of the latent part of a row; the heads then do not count
 * @property {number} [ropeDim] MLA: floats of the rope part
 * @property {number} [window] positions that a windowed layer keeps
 * @property {boolean[]} [windowed] by layer; default: all, where there is a window
 *
 * @typedef {object} ModelInfo
 * @property {string} name
 * @property {string} architecture
 * @property {number} parameters weights in the file
 * @property {number} layers
 * @property {number} heads
 * @property {number} kvHeads
 * @property {'MHA' | 'GQA' | 'MQA' | 'MLA'} kind
 * @property {number} embedding floats of the residual stream
 * @property {number} feedForward
 * @property {number} vocabulary tokens
 * @property {number} context positions a session has when nothing is said
 * @property {number} trainedContext positions the model was made for
 * @property {KvShape} shape for kvPlan()
 * @property {string} quantization as the file calls it (general.file_type), such as Q4_K_M, which mixes block types; else the
 *   block type of most of the weights, such as Q4_1
 * @property {string | undefined} licence
 * @property {number} fileBytes
 * @property {number} packedBytes of the weights in memory
 * @property {{ bos: number, eos: number, eot: number }} tokens ids, -1 when there is none
 * @property {'model' | 'option' | 'chatml' | 'gemma' | 'llama2'} template where the chat template comes from
 * @property {KvType} kv
 * @property {Precision} precision
 * @property {Variant} variant
 * @property {number} threads
 * @property {string} buildId
 * @property {string[]} warnings what a person should know about this model or machine
 *
 * @typedef {object} MemoryUse
 * @property {number} weights bytes, by the allocator's count
 * @property {number} cache
 * @property {number} scratch
 * @property {number} tokenizer
 * @property {number} peak the largest sum so far
 * @property {number} wasm linear memory, which never shrinks
 *
 * @typedef {object} Message
 * @property {string} role system, user, assistant
 * @property {string | object[]} content
 *
 * @typedef {object} TemplateOptions
 * @property {boolean} [addGenerationPrompt] default true: the text ends where the answer begins
 * @property {Record<string, unknown>} [variables] further variables of the template
 *
 * @typedef {object} GenerateOptions
 * @property {number} [maxTokens] default: as many as the context has room for; with overflow 'slide' there is no end to it
 * @property {number} [temperature] default 0.8; 0 takes the best token always
 * @property {number} [topK] default 40; 0 off
 * @property {number} [topP] default 0.95; 1 off
 * @property {number} [minP] default 0.05; 0 off
 * @property {number} [typicalP] default 1: off
 * @property {number} [repeatPenalty] default 1: off
 * @property {number} [repeatLastN] default 64 tokens; -1 all
 * @property {number} [frequencyPenalty] default 0: off
 * @property {number} [presencePenalty] default 0: off
 * @property {Record<number, number>} [logitBias] by token id; -Infinity forbids
 * @property {number} [seed] 0 .. 2^32 - 1; default random
 * @property {string | string[]} [stop]
 * @property {boolean} [ignoreEos] go on past the end of text
 * @property {number} [logprobs] best candidates to tell for each token
 * @property {AbortSignal} [signal]
 * @property {Session} [session] continue this context
 * @property {Overflow} [overflow] default: the session's
 * @property {boolean} [addGenerationPrompt] chat(): default true
 * @property {Record<string, unknown>} [variables] chat(): further variables of the template
 *
 * @typedef {object} SamplerParams values that switch a step off: 1, 0, 1, 0, 1, 1, 0, 0, 0
 * @property {number} temperature
 * @property {number} topK
 * @property {number} topP
 * @property {number} minP
 * @property {number} typicalP
 * @property {number} repeatPenalty
 * @property {number} repeatLastN
 * @property {number} frequencyPenalty
 * @property {number} presencePenalty
 * @property {number} seed
 * @property {Record<number, number>} logitBias
 *
 * @typedef {object} TokenLogprobs natural logarithms, before any sampler
 * @property {number} token
 * @property {string} text
 * @property {number} logprob
 * @property {{ token: number, text: string, logprob: number }[]} top best first
 *
 * @typedef {object} Chunk
 * @property {string} text '' while text is held back: half a character, or the beginning of a stop string
 * @property {number} token
 * @property {number} position of the token in the context; smaller than before when the context has slid
 * @property {TokenLogprobs} [logprobs]
 *
 * @typedef {object} Usage
 * @property {number} promptTokens
 * @property {number} cachedTokens of the prompt, which were in the session's cache already
 * @property {number} droppedTokens of prompt and answer, which slid out of the context
 * @property {number} completionTokens
 *
 * @typedef {object} Timings
 * @property {number} promptMs time spent evaluating the prompt
 * @property {number} promptPerSecond tokens evaluated (without the cached ones) per second
 * @property {number} decodeMs time spent making tokens
 * @property {number} decodePerSecond
 *
 * @typedef {object} Result
 * @property {string} text
 * @property {Int32Array} tokens of the answer
 * @property {'stop' | 'length' | 'abort'} finishReason
 * @property {Usage} usage
 * @property {Timings} timings
 * @property {TokenLogprobs[]} [logprobs]
 *
 * @typedef {AsyncIterable<Chunk> & PromiseLike<Result>} Generation
 *
 * @typedef {object} LayerCache
 * @property {number} positions held
 * @property {number} used bytes of live rows
 * @property {number} reserved bytes of blocks held
 * @property {number} shared reserved bytes that another session, or a checkpoint, holds too
 *
 * @typedef {object} CacheStats
 * @property {KvType} type
 * @property {number} positions
 * @property {number} used
 * @property {number} reserved
 * @property {number} shared
 * @property {LayerCache[]} perLayer
 * @property {number} blockPositions positions of a block
 * @property {{ count: number, bytes: number }} checkpoints states at the ends of recent turns, where the model has sliding
 *   windows, and the bytes of blocks that only one of them holds
 *
 * @typedef {object} AttentionMap
 * @property {number} heads
 * @property {number} rows positions evaluated in this step
 * @property {number} cols positions in the cache after it
 * @property {Float32Array} data [heads][rows][cols], after softmax, 0 where masked
 *
 * @typedef {object} Step one evaluated chunk: of a prompt, or one generated token
 * @property {number} position of its first token: what was there from it on is gone
 * @property {Int32Array} tokens
 * @property {Record<number, AttentionMap>} attention by layer
 * @property {CacheStats} cache
 *
 * @typedef {object} SessionOptions
 * @property {number} [context] positions
 * @property {KvType} [kv]
 * @property {Overflow} [overflow]
 *
 * @typedef {object} WatchOptions
 * @property {number[]} [attention] layers
 *
 * @typedef {object} Features
 * @property {boolean} isolated cross-origin isolated (true in Node)
 * @property {boolean} threads
 * @property {boolean} simd
 * @property {boolean} relaxed relaxed SIMD gives right sums
 * @property {Variant | undefined} variant the one load() takes; undefined where nothing runs
 * @property {number} defaultThreads
 * @property {string} buildId
 * @property {string[]} reasons why something is off, in words
 *
 * @typedef {import('./model.js').Model} Model
 * @typedef {import('./model.js').Session} Session
 *
 * @typedef {object} NodeModules
 * @property {typeof import('node:worker_threads')} worker_threads
 * @property {typeof import('node:fs')} fs
 * @property {typeof import('node:os')} os
 * @property {typeof import('node:url')} url
 * @property {typeof import('node:path')} path
 */

export {};
