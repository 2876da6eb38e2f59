import { checkSampler } from './checks.js';
import { codeOfStatus, HeadlightError } from './errors.js';
import { CoreSampler } from './wasm-sampler.js';
import { CoreSession } from './wasm-session.js';

/**
 * The C API of core/include/headlight.h as JavaScript: pointers, heap views and struct layouts live here and in the other
 * wasm-*.js files alone.
 */

/** Linear memory is asked for in parts below 2 GiB: sbrk takes a signed number. */
const RESERVE_PART = 2 ** 30;

/** @type {readonly import('./types.js').KvType[]} */
export const KV_TYPES = ['f32', 'f16', 'q8_0'];
const KINDS = /** @type {const} */ (['MHA', 'GQA', 'MQA', 'MLA']);
/** Flags of hl_tokenize and hl_detokenizer_new. */
export const SPECIAL = 1;
export const BOS = 2;
export const CONTINUE = 4;
/** HL_CHUNK: positions that are evaluated together. */
export const CHUNK = 64;

/** Fields of struct hl_info in order: int32, then doubles from the next multiple of 8 on. */
const INFO_INTS = (
  'nLayer nHead nHeadKv nEmbd nFf nVocab nCtxTrain dHeadK dHeadV kvLoraRank dRope nExpert nExpertUsed attention ' +
  'bos eos eot unk pad addBos addEos slidingWindow nParts'
).split(' ');
const INFO_DOUBLES = ['nParams', 'fileBytes', 'packedBytes', 'stagingBytes', 'scratchBytes'];
const INFO_DOUBLES_AT = 8 * Math.ceil(INFO_INTS.length / 2);
const INFO_BYTES = INFO_DOUBLES_AT + 8 * INFO_DOUBLES.length;
const MEMORY_FIELDS = /** @type {const} */ (['weights', 'cache', 'scratch', 'tokenizer', 'peak']);

/**
 * @typedef {Record<'nLayer' | 'nHead' | 'nHeadKv' | 'nEmbd' | 'nFf' | 'nVocab' | 'nCtxTrain' | 'dHeadK' | 'dHeadV' |
 *   'kvLoraRank' | 'dRope' | 'nExpert' | 'nExpertUsed' | 'attention' | 'bos' | 'eos' | 'eot' | 'unk' | 'pad' | 'addBos' |
 *   'addEos' | 'slidingWindow' | 'nParts' | 'nParams' | 'fileBytes' | 'packedBytes' | 'stagingBytes' | 'scratchBytes',
 *   number> &
 *   { windowed?: boolean[] }} CoreInfo windowed: which layers have the sliding window, where the model has one
 * @typedef {string | number | boolean | null} MetaScalar
 */

/** One wasm instance and its model. All calls from one thread. */
export class Core {
  /** @type {Uint8Array | undefined} */
  #bytes;
  /** @type {DataView | undefined} */
  #view;

  /**
   * @param {any} module what the glue gives
   * @param {WebAssembly.Memory} memory
   */
  constructor(module, memory) {
    this.module = module;
    this.memory = memory;
    this.model = 0;
    this.encoder = new TextEncoder();
    this.decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    /** @type {CoreInfo | undefined} */
    this.known = undefined;
    /** Room for results by pointer. */
    this.out = this.alloc(INFO_BYTES);
  }

  /** All of linear memory; good until the next call. */
  get bytes() {
    if (this.#bytes?.buffer !== this.memory.buffer) this.#bytes = new Uint8Array(this.memory.buffer);
    return this.#bytes;
  }

  get view() {
    if (this.#view?.buffer !== this.memory.buffer) this.#view = new DataView(this.memory.buffer);
    return this.#view;
  }

  /**
   * @param {number} size bytes
   * @returns {number} pointer
   */
  alloc(size) {
    const pointer = this.module._malloc(size) >>> 0;
    if (pointer === 0) {
      throw new HeadlightError('NO_MEMORY', `Linear memory is used up: ${size} bytes more were asked for`);
    }
    return pointer;
  }

  /** @param {number} pointer */
  free(pointer) {
    this.module._free(pointer);
  }

  /**
   * @param {number} pointer
   * @param {number} n
   * @returns {string} copied first: decoders refuse views on shared memory
   */
  text(pointer, n) {
    return this.decoder.decode(this.bytes.slice(pointer, pointer + n));
  }

  /** @param {number} pointer to a terminated string */
  cstring(pointer) {
    const p = pointer >>> 0;
    return p === 0 ? '' : this.text(p, this.bytes.indexOf(0, p) - p);
  }

  buildId() {
    return this.cstring(this.module._hl_build_id());
  }

  /** The error of the last call that failed. */
  error() {
    const code = codeOfStatus(this.module._hl_error_code());
    const message = this.cstring(this.module._hl_error());
    return new HeadlightError(code, message || `the core refused with ${code}`);
  }

  /**
   * @param {number} status an hl_status, or a count
   * @returns {number} the count
   */
  check(status) {
    if (status < 0) {
      throw new HeadlightError(
        codeOfStatus(status),
        this.cstring(this.module._hl_error()) || `status ${status}`,
      );
    }
    return status;
  }

  /**
   * @param {number} pointer
   * @returns {number} not 0
   */
  checkPointer(pointer) {
    if (pointer === 0) throw this.error();
    return pointer >>> 0;
  }

  /**
   * @template T
   * @param {ArrayBufferView} data put into linear memory for the time of the call
   * @param {(pointer: number) => T} call
   * @returns {T}
   */
  with(data, call) {
    const pointer = this.alloc(Math.max(1, data.byteLength));
    try {
      this.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), pointer);
      return call(pointer);
    } finally {
      this.free(pointer);
    }
  }

  /**
   * @param {number} pointer
   * @param {number} n
   */
  floats(pointer, n) {
    return new Float32Array(this.memory.buffer, pointer, n).slice();
  }

  /**
   * @param {number} threads
   * @param {number} precision an hl_precision
   */
  start(threads, precision) {
    this.model = this.checkPointer(this.module._hl_model_new(threads, precision));
  }

  /**
   * Before the header.
   * @param {string} name of the pre-tokenizer that is used instead of the file's
   */
  forcePretokenizer(name) {
    const text = this.encoder.encode(`${name}\0`);
    this.with(text, (p) => this.check(this.module._hl_model_set_pretokenizer(this.model, p)));
  }

  /** Bytes of linear memory now. */
  get size() {
    return this.memory.buffer.byteLength;
  }

  /**
   * Makes linear memory large enough for size more bytes, or says at once that it cannot be.
   * @param {number} size
   * @returns {boolean}
   */
  reserve(size) {
    /** @type {number[]} */
    const parts = [];
    let ok = true;
    for (let left = size; left > 0 && ok; left -= RESERVE_PART) {
      const pointer = this.module._malloc(Math.min(left, RESERVE_PART)) >>> 0;
      if (pointer === 0) ok = false;
      else parts.push(pointer);
    }
    for (const pointer of parts.reverse()) this.free(pointer);
    return ok;
  }

  // ---- loading

  /**
   * Gives the core the next bytes of the file: each is written once, to where the core wants it.
   * @param {Uint8Array} piece
   * @param {number} [headers] ends when so many are complete, and leaves the rest
   * @returns {boolean} false when the file is complete, or its header is, and the rest is not needed
   */
  push(piece, headers = Infinity) {
    for (let at = 0; at < piece.length;) {
      if (this.parts() >= headers) return false;
      const pointer = this.checkPointer(this.module._hl_model_window(this.model, this.out));
      const room = this.view.getUint32(this.out, true);
      if (room === 0) return false;
      const n = Math.min(room, piece.length - at);
      this.bytes.set(piece.subarray(at, at + n), pointer);
      this.check(this.module._hl_model_commit(this.model, n));
      at += n;
    }
    return true;
  }

  /**
   * The file has ended; the next part of a split model follows.
   * @param {boolean} [headersOnly] the file may end behind its header
   */
  nextPart(headersOnly = false) {
    this.check(this.module._hl_model_next_part(this.model, headersOnly ? 1 : 0));
  }

  /** Files whose header has arrived. */
  parts() {
    return this.module._hl_model_parts(this.model);
  }

  finish() {
    this.check(this.module._hl_model_finish(this.model));
  }

  hasHeader() {
    return Boolean(this.module._hl_model_has_header(this.model));
  }

  /** Throws where the header does not bind to a runnable model. */
  checkModel() {
    this.check(this.module._hl_model_check(this.model));
  }

  /** @returns {CoreInfo} */
  info() {
    if (this.known) return this.known;
    this.check(this.module._hl_model_info(this.model, this.out));
    const out = /** @type {any} */ ({});
    INFO_INTS.forEach((name, i) => (out[name] = this.view.getInt32(this.out + 4 * i, true)));
    INFO_DOUBLES.forEach(
      (name, i) => (out[name] = this.view.getFloat64(this.out + INFO_DOUBLES_AT + 8 * i, true)),
    );
    if (out.slidingWindow > 0) {
      const window = (/** @type {number} */ layer) => this.module._hl_model_window_of(this.model, layer);
      out.windowed = Array.from({ length: out.nLayer }, (_, layer) => window(layer) > 0);
    }
    if (this.parts() === out.nParts) this.known = out;
    return out;
  }

  /** @returns {'MHA' | 'GQA' | 'MQA' | 'MLA'} */
  kind() {
    return KINDS[this.info().attention];
  }

  architecture() {
    return this.cstring(this.module._hl_model_arch(this.model));
  }

  /** @returns {import('./types.js').MemoryUse} */
  memoryUse() {
    this.module._hl_model_memory(this.model, this.out);
    const out = /** @type {import('./types.js').MemoryUse} */ ({ wasm: this.size });
    MEMORY_FIELDS.forEach((name, i) => (out[name] = this.view.getUint32(this.out + 4 * i, true)));
    return out;
  }

  // ---- metadata

  metaCount() {
    return this.module._hl_meta_count(this.model);
  }

  /** @param {number} i */
  metaKey(i) {
    const p = this.module._hl_meta_key(this.model, i, this.out) >>> 0;
    return this.text(p, this.view.getUint32(this.out, true));
  }

  /** @param {number} i @returns {number} elements of an array, -1 for a single value */
  metaLength(i) {
    return this.module._hl_meta_length(this.model, i);
  }

  /** @param {number} i @returns {number} an hl_meta_type; of an array, of its elements */
  metaType(i) {
    return this.module._hl_meta_value_type(this.model, i);
  }

  /**
   * @param {number} i
   * @param {number} [j] element of an array
   * @returns {MetaScalar}
   */
  metaValue(i, j = 0) {
    const type = this.metaType(i);
    if (type === 8) {
      const p = this.module._hl_meta_string(this.model, i, j, this.out) >>> 0;
      return p === 0 ? null : this.text(p, this.view.getUint32(this.out, true));
    }
    const number = this.module._hl_meta_number(this.model, i, j);
    if (type === 7) return number !== 0;
    return type === 9 ? null : number;
  }

  /**
   * @param {string} key
   * @returns {MetaScalar | undefined} a single value; undefined when the file has no such key
   */
  meta(key) {
    const bytes = this.encoder.encode(key);
    const i = this.with(bytes, (p) => this.module._hl_meta_find(this.model, p, bytes.length));
    return i < 0 ? undefined : this.metaValue(i);
  }

  /** @returns {{ name: string, type: string, dims: number[], bytes: number }[]} bytes: in the file */
  tensors() {
    const n = this.module._hl_tensor_count(this.model);
    return Array.from({ length: n }, (_, i) => {
      const p = this.module._hl_tensor_name(this.model, i, this.out) >>> 0;
      const name = this.text(p, this.view.getUint32(this.out, true));
      const nDims = this.module._hl_tensor_dims(this.model, i, this.out);
      const dims = Array.from({ length: nDims }, (_unused, d) => this.view.getInt32(this.out + 4 * d, true));
      const type = this.cstring(this.module._hl_tensor_type(this.model, i));
      return { name, type, dims, bytes: this.module._hl_tensor_bytes(this.model, i) };
    });
  }

  /**
   * @param {number} i index of tensors()
   * @returns {{ part: number, start: number }} the file that it is in, from 0, and its first byte there
   */
  tensorPlace(i) {
    const start = this.module._hl_tensor_start(this.model, i, this.out);
    return { part: this.view.getInt32(this.out, true), start };
  }

  // ---- tokenizer

  /**
   * @param {string} text
   * @param {number} flags SPECIAL, BOS
   * @returns {Int32Array}
   */
  tokenize(text, flags) {
    const bytes = this.encoder.encode(text);
    return this.with(bytes, (p) => {
      let room = bytes.length + 8;
      for (;;) {
        const ids = this.alloc(4 * room);
        try {
          const n = this.check(this.module._hl_tokenize(this.model, p, bytes.length, flags, ids, room));
          if (n <= room) return new Int32Array(this.memory.buffer, ids, n).slice();
          room = n;
        } finally {
          this.free(ids);
        }
      }
    });
  }

  /**
   * @param {number} id
   * @returns {string} of one token; half a character becomes U+FFFD
   */
  tokenText(id) {
    const p = this.checkPointer(this.module._hl_token_text(this.model, id, this.out));
    return this.text(p, this.view.getUint32(this.out, true));
  }

  /** @param {number} id */
  isEnd(id) {
    return Boolean(this.module._hl_token_is_end(this.model, id));
  }

  /** @param {number} id */
  isControl(id) {
    return Boolean(this.module._hl_token_is_control(this.model, id));
  }

  /** @param {number} flags SPECIAL */
  detokenizer(flags) {
    const d = this.checkPointer(this.module._hl_detokenizer_new(this.model, flags));
    return {
      /** @param {number} id */
      push: (id) => {
        const p = this.checkPointer(this.module._hl_detokenizer_push(d, id, this.out));
        return this.text(p, this.view.getUint32(this.out, true));
      },
      flush: () => {
        const p = this.checkPointer(this.module._hl_detokenizer_flush(d, this.out));
        return this.text(p, this.view.getUint32(this.out, true));
      },
      free: () => this.module._hl_detokenizer_free(d),
    };
  }

  // ---- sessions and samplers

  /**
   * @param {number} positions
   * @param {import('./types.js').KvType} type
   */
  session(positions, type) {
    const kv = KV_TYPES.indexOf(type);
    return new CoreSession(this, this.checkPointer(this.module._hl_session_new(this.model, positions, kv)));
  }

  /**
   * @param {import('./types.js').SamplerParams} params
   * @param {number} [nVocab] logits there are
   * @throws {HeadlightError} BAD_ARGUMENT
   */
  sampler(params, nVocab = this.info().nVocab) {
    checkSampler(params, nVocab);
    return new CoreSampler(this, params);
  }

  /**
   * @param {number} logits pointer
   * @param {number} n
   * @param {number} id
   * @param {number} k
   * @returns {{ logprob: number, top: [number, number][] }} natural logarithms; top is [id, logprob], best first
   */
  topLogprobs(logits, n, id, k) {
    const room = Math.min(k, n);
    const at = this.alloc(Math.max(8, 8 * room));
    try {
      const logprob = this.module._hl_top_logprobs(logits, n, id, room, at, at + 4 * room);
      const { view } = this;
      /** @type {[number, number][]} */
      const top = [];
      for (let i = 0; i < room; i++) {
        top.push([view.getInt32(at + 4 * i, true), view.getFloat32(at + 4 * (room + i), true)]);
      }
      return { logprob, top };
    } finally {
      this.free(at);
    }
  }
}
