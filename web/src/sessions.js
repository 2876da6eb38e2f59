import { abortError, HeadlightError } from './errors.js';
import { BLOCK_POSITIONS } from './plan.js';
import { CHUNK } from './wasm.js';
import { yieldTurn } from './env.js';

/**
 * Someone who is told of every evaluated chunk.
 * @typedef {object} Watcher
 * @property {number[]} layers whose attention is wanted
 * @property {(step: import('./types.js').Step, transfer: ArrayBuffer[]) => Promise<void>} tell resolves when there is room for more
 * @property {() => void} closed the session has ended
 */

/** The worker's half of a session: a core session, who watches it, and an order of calls. */
export class WorkerSession {
  /**
   * @param {import('./wasm.js').Core} core
   * @param {{ context: number, kv: import('./types.js').KvType, overflow: import('./types.js').Overflow }} options
   */
  constructor(core, { context, kv, overflow }) {
    this.core = core;
    this.context = context;
    this.kv = kv;
    this.overflow = overflow;
    this.inner = core.session(context, kv);
    /** @type {Set<Watcher>} */
    this.watchers = new Set();
    /** @type {Map<number, number>} layers to how many watch */
    this.watched = new Map();
    this.closed = false;
    /** @type {Promise<unknown>} */
    this.last = Promise.resolve();
    /** Calls that wait for their turn. @type {Set<{ reject: (error: unknown) => void }>} */
    this.queued = new Set();
  }

  get length() {
    return this.inner.length;
  }

  /**
   * Runs calls one after the other, in the order they came.
   * @template T
   * @param {() => Promise<T>} call
   * @returns {Promise<T>}
   */
  inOrder(call) {
    return new Promise((resolve, reject) => {
      const turn = { reject };
      this.queued.add(turn);
      const run = async () => {
        if (!this.queued.delete(turn)) return;
        if (this.closed) throw new HeadlightError('DISPOSED', 'The session was disposed');
        resolve(await call());
      };
      this.last = this.last.then(run).catch(reject);
    });
  }

  /** Calls behind a generation that nobody reads on: its reader may be the one that waits for them. */
  refuseQueued() {
    const why = 'the session is busy with a generation: end it first (break, or its signal)';
    for (const { reject } of this.queued) reject(new HeadlightError('BAD_ARGUMENT', why));
    this.queued.clear();
  }

  /**
   * Evaluates tokens, a chunk at a time; other sessions and messages get their turn in between.
   * @param {Int32Array} tokens
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   * @throws {HeadlightError | DOMException} CONTEXT_FULL before anything is evaluated; AbortError after whole chunks
   */
  async feed(tokens, signal) {
    this.checkTokens(tokens);
    const room = this.context - this.length;
    if (tokens.length > room) {
      throw new HeadlightError(
        'CONTEXT_FULL',
        `${tokens.length} tokens do not fit: the context has ${this.context} positions, ${this.length} are used. ` +
          'Shorten the text, or load with a larger context',
      );
    }
    for (let at = 0; at < tokens.length; at += CHUNK) {
      if (at > 0) await yieldTurn();
      if (signal.aborted) throw abortError('feed');
      await this.step(tokens.subarray(at, at + CHUNK));
    }
  }

  /** @param {Int32Array} tokens */
  checkTokens(tokens) {
    const { nVocab } = this.core.info();
    tokens.forEach((id, i) => {
      if (id < 0 || id >= nVocab) {
        throw new HeadlightError('BAD_ARGUMENT', `token ${i} is ${id}; ids are 0 to ${nVocab - 1}`);
      }
    });
  }

  /**
   * Evaluates at most CHUNK tokens and tells the watchers.
   * @param {Int32Array} tokens
   */
  async step(tokens) {
    const position = this.length;
    this.inner.feed(tokens);
    for (const watcher of [...this.watchers]) {
      /** @type {import('./types.js').Step} */
      const step = { position, tokens: tokens.slice(), attention: {}, cache: this.cache() };
      /** @type {ArrayBuffer[]} */
      const transfer = [];
      for (const layer of watcher.layers) {
        const map = this.inner.read('attn_prob', layer);
        if (!map) continue;
        step.attention[layer] = map;
        transfer.push(/** @type {ArrayBuffer} */ (map.data.buffer));
      }
      await watcher.tell(step, transfer);
    }
  }

  /** @param {number} n positions to keep */
  rewind(n) {
    if (!Number.isInteger(n) || n < 0 || n > this.length) {
      throw new HeadlightError('BAD_ARGUMENT', `rewind: ${n} is not a length from 0 to ${this.length}`);
    }
    this.inner.rewind(n);
  }

  /**
   * Makes the cache begin with a prompt: what it holds of it stays, but for the last token, whose logits are wanted.
   * @param {Int32Array} prompt
   * @returns {number} positions that stay
   */
  reuse(prompt) {
    const held = this.inner.tokens();
    const most = Math.min(held.length, prompt.length - 1);
    let same = 0;
    while (same < most && held[same] === prompt[same]) same++;
    const kept = this.inner.keeps(same);
    this.rewind(kept);
    return kept;
  }

  /** @returns {import('./types.js').CacheStats} by the allocator's count */
  cache() {
    const { positions, used, reserved, shared } = this.inner.cache(-1);
    const perLayer = Array.from({ length: this.core.info().nLayer }, (_, layer) => {
      const c = this.inner.cache(layer);
      return { positions: c.positions, used: c.used, reserved: c.reserved, shared: c.shared };
    });
    return { type: this.kv, positions, used, reserved, shared, perLayer, blockPositions: BLOCK_POSITIONS };
  }

  /**
   * @param {Watcher} watcher
   * @returns {() => void} ends it
   */
  watch(watcher) {
    for (const layer of watcher.layers) {
      const n = this.watched.get(layer) ?? 0;
      if (n === 0) this.inner.tap('attn_prob', layer, true);
      this.watched.set(layer, n + 1);
    }
    this.watchers.add(watcher);
    return () => {
      if (!this.watchers.delete(watcher) || this.closed) return;
      for (const layer of watcher.layers) {
        const n = (this.watched.get(layer) ?? 1) - 1;
        if (n === 0) this.inner.tap('attn_prob', layer, false);
        this.watched.set(layer, n);
      }
    };
  }

  close() {
    this.closed = true;
    for (const watcher of this.watchers) watcher.closed();
    this.inner.free();
  }
}
