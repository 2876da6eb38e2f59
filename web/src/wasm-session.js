import { HeadlightError } from './errors.js';

/**
 * @typedef {'embd' | 'attn_norm' | 'q' | 'k' | 'v' | 'attn_prob' | 'attn_out' | 'ffn_norm' | 'ffn_out' | 'layer_out' |
 *   'final_norm' | 'logits' | 'router' | 'score_latent' | 'score_rope'} Tap
 */
/** In the order of hl_tap. */
const TAPS = (
  'embd attn_norm q k v attn_prob attn_out ffn_norm ffn_out layer_out final_norm logits router ' +
  'score_latent score_rope'
).split(' ');
/** How latent attention is evaluated, in the order of hl_mla. */
export const MLA_WAYS = ['auto', 'absorbed', 'expanded'];
/** HL_SAVED_HEAD: bytes that say what a saved context is. */
const SAVED_HEAD = 48;
const CACHE_FIELDS = /** @type {const} */ (['positions', 'blocks', 'used', 'reserved', 'shared']);

/** @typedef {Record<typeof CACHE_FIELDS[number], number>} CoreCache */

/** A context in the core: hl_session_* and the taps. */
export class CoreSession {
  /**
   * @param {import('./wasm.js').Core} core
   * @param {number} pointer
   */
  constructor(core, pointer) {
    this.core = core;
    this.pointer = pointer;
  }

  get length() {
    return this.core.module._hl_session_length(this.pointer);
  }

  /** @param {Int32Array} tokens */
  feed(tokens) {
    const { core } = this;
    core.with(tokens, (p) => core.check(core.module._hl_feed(this.pointer, p, tokens.length)));
  }

  /** @returns {number} pointer to n_vocab floats, 0 when there are none */
  get logitsPointer() {
    return this.core.module._hl_logits(this.pointer) >>> 0;
  }

  /** @returns {Float32Array} a copy, [n_vocab] */
  logits() {
    const p = this.logitsPointer;
    if (p === 0)
      throw new HeadlightError(
        'BAD_STATE',
        'The session has no logits: nothing was fed since it was rewound',
      );
    return this.core.floats(p, this.core.info().nVocab);
  }

  /** @returns {Int32Array} a copy of the ids in the cache */
  tokens() {
    const p = this.core.module._hl_session_tokens(this.pointer) >>> 0;
    return p === 0 ? new Int32Array(0) : new Int32Array(this.core.memory.buffer, p, this.length).slice();
  }

  /**
   * @param {number} n a length that is wanted back
   * @returns {number} the largest length up to n that rewind() can go to
   */
  keeps(n) {
    return this.core.module._hl_session_keeps(this.pointer, n);
  }

  /** @param {number} n positions to keep */
  rewind(n) {
    this.core.check(this.core.module._hl_session_rewind(this.pointer, n));
  }

  /** @returns {CoreSession} with the same context, logits included; taps are off in it */
  fork() {
    const { core } = this;
    return new CoreSession(core, core.checkPointer(core.module._hl_session_fork(this.pointer)));
  }

  /**
   * @param {number} note a number that restore() gives back
   * @returns {Uint8Array} the context, for restore()
   */
  save(note) {
    const { core } = this;
    const n = core.module._hl_session_save_bytes(this.pointer) >>> 0;
    const out = core.alloc(n);
    try {
      core.module._hl_session_save(this.pointer, note, out);
      return core.bytes.slice(out, out + n);
    } finally {
      core.free(out);
    }
  }

  /**
   * @param {Uint8Array} saved what save() gave; nothing changes, and no memory is taken for it, where it is refused
   * @returns {number} the note
   */
  restore(saved) {
    const { core } = this;
    const { module } = core;
    core.with(saved.subarray(0, SAVED_HEAD), (p) =>
      core.check(module._hl_session_can_restore(this.pointer, p, saved.length)),
    );
    core.with(saved, (p) => core.check(module._hl_session_restore(this.pointer, p, saved.length, core.out)));
    return core.view.getUint32(core.out, true);
  }

  /** @param {string} way one of MLA_WAYS, for what is fed from now on */
  setMla(way) {
    this.core.check(this.core.module._hl_session_set_mla(this.pointer, MLA_WAYS.indexOf(way)));
  }

  /**
   * @param {number} layer -1: all
   * @returns {CoreCache}
   */
  cache(layer) {
    const { core } = this;
    core.check(core.module._hl_session_cache(this.pointer, layer, core.out));
    const out = /** @type {CoreCache} */ ({});
    CACHE_FIELDS.forEach((name, i) => (out[name] = core.view.getUint32(core.out + 4 * i, true)));
    return out;
  }

  /**
   * @param {Tap} tap
   * @param {number} layer
   * @param {boolean} on
   */
  tap(tap, layer, on) {
    this.core.check(this.core.module._hl_tap_set(this.pointer, TAPS.indexOf(tap), layer, on ? 1 : 0));
  }

  /**
   * @param {Tap} tap
   * @param {number} [layer]
   * @returns {{ heads: number, rows: number, cols: number, data: Float32Array } | undefined} a copy of the last chunk's
   */
  read(tap, layer = 0) {
    const { core } = this;
    const p = core.module._hl_tap_read(this.pointer, TAPS.indexOf(tap), layer, core.out) >>> 0;
    if (p === 0) return undefined;
    const [heads, rows, cols] = [0, 4, 8].map((o) => core.view.getInt32(core.out + o, true));
    return { heads, rows, cols, data: core.floats(p, heads * rows * cols) };
  }

  free() {
    if (this.pointer) this.core.module._hl_session_free(this.pointer);
    this.pointer = 0;
  }
}
