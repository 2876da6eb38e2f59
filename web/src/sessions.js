import { Checkpoints, withRoom } from './checkpoints.js';
import { commonPrefix, dropOf, slideBy, without } from './context.js';
import { abortError, HeadlightError } from './errors.js';
import { shapeOf } from './loader.js';
import { BLOCK_POSITIONS, kvPlan } from './plan.js';
import { CHUNK } from './wasm.js';
import { yieldTurn } from './env.js';

/**
 * Someone who is told of every evaluated chunk.
 * @typedef {object} Watcher
 * @property {number[]} layers whose attention is wanted
 * @property {(step: import('./types.js').Step, transfer: ArrayBuffer[]) => Promise<void>} tell resolves when there is room for more
 * @property {() => void} closed the session has ended
 */

/** Checkpoints of a session may hold so many times what its full cache takes. */
const SPARE = 2;

/**
 * @param {import('./types.js').KvShape} shape
 * @param {number} context positions
 * @param {import('./types.js').KvType} kv
 * @returns {number} bytes that checkpoints may hold; 0 where there are no windows, and a cache can be rewound
 */
function spareBytes(shape, context, kv) {
  if (!shape.window) return 0;
  const window = BLOCK_POSITIONS * (Math.ceil(shape.window / BLOCK_POSITIONS) + 1);
  return SPARE * kvPlan({ ...shape, window }, context, kv).bytes;
}

/** The worker's half of a session: a core session, who watches it, and an order of calls. */
export class WorkerSession {
  /**
   * @param {import('./wasm.js').Core} core
   * @param {{ context: number, kv: import('./types.js').KvType, overflow: import('./types.js').Overflow }} options
   * @param {import('./wasm-session.js').CoreSession} [inner] becomes this session's own; default: an empty one
   */
  constructor(core, { context, kv, overflow }, inner = withRoom(() => core.session(context, kv))) {
    this.core = core;
    this.context = context;
    this.kv = kv;
    this.overflow = overflow;
    this.inner = inner;
    this.checkpoints = new Checkpoints(spareBytes(shapeOf(core.info()), context, kv));
    /** Tokens of the conversation that have slid out from behind its first positions. */
    this.dropped = 0;
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
    withRoom(() => this.inner.feed(tokens));
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

  /**
   * Goes back to the first n positions. What sliding windows have given back of them is evaluated again.
   * @param {number} n
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  async rewind(n, signal) {
    if (!Number.isInteger(n) || n < 0 || n > this.length) {
      throw new HeadlightError('BAD_ARGUMENT', `rewind: ${n} is not a length from 0 to ${this.length}`);
    }
    if (this.inner.keeps(n) === n) {
      this.inner.rewind(n);
      return;
    }
    const tokens = this.inner.tokens().subarray(0, n);
    await this.feed(tokens.subarray(this.reuse(tokens)), signal);
  }

  /**
   * Makes the cache begin with a prompt: what it or a checkpoint holds of it stays, but for the last token, whose logits
   * are wanted.
   * @param {Int32Array} prompt
   * @returns {number} positions that stay
   */
  reuse(prompt) {
    const kept = this.inner.keeps(commonPrefix(this.inner.tokens(), prompt, prompt.length - 1));
    const fork = this.checkpoints.resume(prompt, kept);
    if (fork) this.#replace(fork);
    else this.inner.rewind(kept);
    return this.length;
  }

  /** @param {import('./wasm-session.js').CoreSession} inner */
  #replace(inner) {
    try {
      for (const [layer, n] of this.watched) if (n > 0) withRoom(() => inner.tap('attn_prob', layer, true));
    } catch (error) {
      inner.free();
      throw error;
    }
    this.inner.free();
    this.inner = inner;
  }

  /**
   * Makes the cache hold a prompt, and keeps checkpoints where it goes on from what was there and at its end.
   * @param {Int32Array} prompt no longer than the context
   * @param {AbortSignal} signal
   * @param {(kept: number) => void} onReuse is told of the positions that were there
   * @returns {Promise<void>}
   */
  async prompt(prompt, signal, onReuse) {
    const kept = this.reuse(prompt);
    onReuse(kept);
    if (kept > 0 && prompt.length - kept > 1) this.checkpoints.add(this.inner);
    await this.feed(prompt.subarray(kept), signal);
    this.checkpoints.add(this.inner);
  }

  /**
   * A prompt without what has to go so that it fits.
   * @param {Int32Array} prompt
   * @param {number} keep first positions that stay
   * @returns {Int32Array}
   */
  fit(prompt, keep) {
    const { context, dropped } = this;
    this.dropped = dropOf(prompt, this.inner.tokens(), { context, keep, dropped });
    return without(prompt, keep, this.dropped);
  }

  /**
   * Makes room in a full context: keeps the first positions and the newer half of the others, and evaluates those again,
   * with one more token.
   * @param {number} keep first positions that stay
   * @param {number} id the token that follows
   * @param {AbortSignal} signal
   * @returns {Promise<number>} positions that went; 0: there is no room to be made, and nothing has changed
   */
  async slide(keep, id, signal) {
    const held = this.inner.tokens();
    const gone = slideBy(held.length, keep);
    if (gone === 0) return 0;
    const rest = Int32Array.from([...without(held, keep, gone), id]);
    this.dropped += gone;
    await this.feed(rest.subarray(this.reuse(rest)), signal);
    return gone;
  }

  /** @returns {WorkerSession} with the same context; blocks of the cache are shared until one of the two writes */
  fork() {
    const fork = new WorkerSession(
      this.core,
      this,
      withRoom(() => this.inner.fork()),
    );
    fork.dropped = this.dropped;
    fork.checkpoints.take(this.checkpoints);
    return fork;
  }

  /** @returns {Uint8Array} */
  save() {
    return withRoom(() => this.inner.save(this.dropped));
  }

  /**
   * @param {Uint8Array} saved
   * @throws {HeadlightError} BAD_FORMAT, UNSUPPORTED, CONTEXT_FULL, NO_MEMORY; nothing has changed then
   */
  restore(saved) {
    this.dropped = withRoom(() => this.inner.restore(saved));
  }

  /** @returns {import('./types.js').CacheStats} by the allocator's count */
  cache() {
    const { positions, used, reserved, shared } = this.inner.cache(-1);
    const perLayer = Array.from({ length: this.core.info().nLayer }, (_, layer) => {
      const c = this.inner.cache(layer);
      return { positions: c.positions, used: c.used, reserved: c.reserved, shared: c.shared };
    });
    const checkpoints = this.checkpoints.stats();
    return {
      type: this.kv,
      positions,
      used,
      reserved,
      shared,
      perLayer,
      blockPositions: BLOCK_POSITIONS,
      checkpoints,
    };
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
    this.checkpoints.close();
    this.inner.free();
  }
}
