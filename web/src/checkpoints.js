import { commonPrefix } from './context.js';
import { HeadlightError } from './errors.js';

/** Ends of prompts and of answers: those of the last three turns. */
const MOST = 6;

/** Those of all sessions of this worker: when memory is short, they go first. @type {Set<Checkpoints>} */
const everywhere = new Set();

/** @param {unknown} error */
const isShort = (error) => error instanceof HeadlightError && error.code === 'NO_MEMORY';

/** @returns {boolean} whether there was anything to give back */
function dropEverywhere() {
  const count = [...everywhere].reduce((n, { kept }) => n + kept.length, 0);
  for (const checkpoints of everywhere) checkpoints.clear();
  return count > 0;
}

/**
 * Makes a call that takes memory; where there is none, once more after all checkpoints are gone.
 * @template T
 * @param {() => T} call changes nothing when it throws NO_MEMORY
 * @returns {T}
 * @throws {HeadlightError} what the call throws
 */
export function withRoom(call) {
  try {
    return call();
  } catch (error) {
    if (!isShort(error) || !dropEverywhere()) throw error;
    return call();
  }
}

/**
 * Forks of a session at the ends of recent turns. Sliding windows give back rows, so that a cache cannot be rewound past
 * them: after an edit, the fork before it saves evaluating everything again. They share blocks with the session.
 */
export class Checkpoints {
  /**
   * @param {number} bytes that they may hold alone; 0: none is kept
   */
  constructor(bytes) {
    this.most = bytes;
    /** The one that was not used for longest first. @type {{ inner: import('./wasm-session.js').CoreSession, tokens: Int32Array }[]} */
    this.kept = [];
    everywhere.add(this);
  }

  /** @param {import('./wasm-session.js').CoreSession} session whose present state is worth keeping */
  add(session) {
    if (this.most === 0) return;
    const tokens = session.tokens();
    const same = this.kept.findIndex(
      (c) => c.tokens.length === tokens.length && commonPrefix(c.tokens, tokens) === tokens.length,
    );
    if (same >= 0) {
      this.#use(same);
      return;
    }
    try {
      this.kept.push({ inner: session.fork(), tokens });
    } catch (error) {
      if (!isShort(error)) throw error;
      dropEverywhere();
    }
    while (this.kept.length > MOST || this.stats().bytes > this.most) this.kept.shift()?.inner.free();
  }

  /**
   * Keeps what others keep: blocks are shared.
   * @param {Checkpoints} others
   */
  take(others) {
    try {
      for (const { inner, tokens } of others.kept) this.kept.push({ inner: inner.fork(), tokens });
    } catch (error) {
      if (!isShort(error)) throw error;
      this.clear();
    }
  }

  /** @param {number} i */
  #use(i) {
    this.kept.push(...this.kept.splice(i, 1));
  }

  /**
   * @param {Int32Array} prompt
   * @param {number} more positions that are there without a checkpoint
   * @returns {import('./wasm-session.js').CoreSession | undefined} a new session with more of the prompt, rewound to
   *   what it has of it, but for the prompt's last token at least
   */
  resume(prompt, more) {
    const reach = this.kept.map(({ inner, tokens }) =>
      inner.keeps(commonPrefix(tokens, prompt, prompt.length - 1)),
    );
    const best = reach.reduce((at, n, i) => (n > Math.max(more, reach[at] ?? 0) ? i : at), -1);
    if (best < 0) return undefined;
    try {
      const fork = this.kept[best].inner.fork();
      fork.rewind(reach[best]);
      this.#use(best);
      return fork;
    } catch (error) {
      if (!isShort(error)) throw error;
      return undefined;
    }
  }

  /** @returns {{ count: number, bytes: number }} bytes: of blocks that only one checkpoint holds */
  stats() {
    const alone = this.kept.map(({ inner }) => {
      const { reserved, shared } = inner.cache(-1);
      return reserved - shared;
    });
    return { count: alone.length, bytes: alone.reduce((a, b) => a + b, 0) };
  }

  clear() {
    for (const { inner } of this.kept.splice(0)) inner.free();
  }

  close() {
    this.clear();
    everywhere.delete(this);
  }
}
