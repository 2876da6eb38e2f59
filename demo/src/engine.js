import { features, load } from 'headlight-wasm';
import { planOf } from './cache-plan.js';

/**
 * @typedef {import('headlight-wasm').Model} Model
 * @typedef {import('headlight-wasm').ModelInfo} ModelInfo
 * @typedef {import('headlight-wasm').Session} Session
 * @typedef {import('./types.js').Token} Token
 * @typedef {import('./types.js').AnswerStats} AnswerStats
 *
 * @typedef {object} Step  One evaluated chunk.
 * @property {number} position   of its first token
 * @property {Token[]} tokens
 * @property {Record<number, { heads: number, rows: number, cols: number, data: Float32Array }>} attention  by layer;
 *   data: [heads][rows][cols]
 * @property {CacheLook} cache
 *
 * @typedef {import('./types.js').CacheSample & { type: string, blockPositions: number, blocks: Block[] }} CacheLook
 * @typedef {import('./types.js').CacheState['blocks'][number]} Block
 */

const CACHE_TYPE = 'f16';
const SEEDS = 1e9;

/**
 * What the machine and the browser allow, in words for the page.
 * @returns {Promise<import('./types.js').EngineState>}
 */
export async function describeEngine() {
  const { isolated, defaultThreads, variant, relaxed, reasons } = await features();
  const simd =
    variant === undefined ? 'does not run here' : relaxed && variant === 'relaxed' ? 'relaxed SIMD' : 'SIMD';
  return { isolated, threads: defaultThreads, variant: simd, why: reasons.join(' ') };
}

/**
 * Loads a model and opens one context on it.
 * @param {import('headlight-wasm').Source} source
 * @param {object} options
 * @param {string} options.name
 * @param {string} [options.sha256]  hex
 * @param {number} [options.bytes]   size of the file
 * @param {AbortSignal} options.signal
 * @param {(progress: import('headlight-wasm').Progress) => void} options.onProgress
 * @returns {Promise<Engine>}
 * @throws {import('headlight-wasm').HeadlightError} and AbortError
 */
export async function openModel(source, { name, sha256, bytes, signal, onProgress }) {
  const model = await load(source, { kv: CACHE_TYPE, sha256, signal, onProgress });
  try {
    return new Engine(model, await model.session(), { name, bytes: bytes ?? model.info.fileBytes });
  } catch (error) {
    await model.dispose();
    throw error;
  }
}

/** A loaded model and the one conversation that the page has with it. */
export class Engine {
  #model;
  #session;
  /** @type {Map<number, Token>} */
  #tokens = new Map();

  /**
   * @param {Model} model
   * @param {Session} session
   * @param {{ name: string, bytes: number }} about
   */
  constructor(model, session, { name, bytes }) {
    this.#model = model;
    this.#session = session;
    const { architecture, kind, quantization, layers, heads, kvHeads, parameters } = model.info;
    /** @type {import('./types.js').ModelState} */
    this.info = { name, architecture, kind, quantization, layers, heads, kvHeads, parameters, bytes };
    /** Positions of the context. */
    this.limit = model.info.context;
    /** What a person should know about this model. */
    this.warnings = model.info.warnings;
    this.plan = planOf(model.info, CACHE_TYPE);
    this.cacheType = CACHE_TYPE;
  }

  /**
   * @param {{ role: 'user' | 'assistant', content: string }[]} messages
   * @param {import('./types.js').Settings} settings
   * @param {AbortSignal} signal
   * @param {(text: string) => void} onText
   * @returns {Promise<AnswerStats>}
   */
  async answer(messages, settings, signal, onText) {
    const seed = settings.seed === '' ? Math.floor(Math.random() * SEEDS) : Number(settings.seed);
    const system = settings.system.trim();
    const said = messages.map(({ role, content }) => ({ role, content }));
    const prompt = system ? [{ role: /** @type {const} */ ('system'), content: system }, ...said] : said;
    const { temperature, topP, maxTokens } = settings;
    const generation = this.#model.chat(prompt, {
      session: this.#session,
      temperature,
      topP,
      maxTokens,
      seed,
      signal,
    });
    try {
      for await (const chunk of generation) onText(chunk.text);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return this.#stats(await generation, seed);
  }

  /**
   * @param {import('headlight-wasm').Result} result
   * @param {number} seed
   * @returns {AnswerStats}
   */
  #stats({ usage, timings, finishReason, tokens }, seed) {
    const full = finishReason === 'length' && this.#session.length >= this.limit - 1;
    return {
      promptTokens: usage.promptTokens - usage.cachedTokens,
      cachedTokens: usage.cachedTokens,
      promptRate: timings.promptPerSecond,
      answerTokens: tokens.length,
      answerRate: timings.decodePerSecond,
      seed,
      finish: full ? 'full' : finishReason,
    };
  }

  /**
   * Tells of every chunk that the conversation evaluates.
   * @param {number} layer  whose attention is told
   * @param {(step: Step) => void} listener
   * @param {() => void} onText  the text of a token that was told is known now
   * @returns {() => void} ends it
   */
  watch(layer, listener, onText) {
    return this.#session.watch({ attention: [layer] }, (step) => {
      listener(this.#named(step));
      void this.#name(step.tokens).then((any) => any && onText());
    });
  }

  /**
   * Evaluates tokens in a context of its own, to see a layer's attention of tokens that were evaluated before.
   * @param {number[]} ids
   * @param {number} layer
   * @param {AbortSignal} signal
   * @param {(step: Step) => void} listener
   */
  async replay(ids, layer, signal, listener) {
    if (ids.length === 0) return;
    const session = await this.#model.session();
    const unwatch = session.watch({ attention: [layer] }, (step) => listener(this.#named(step)));
    try {
      await session.feed(ids, { signal });
    } finally {
      unwatch();
      await session.dispose();
    }
  }

  /**
   * @param {import('headlight-wasm').Step} step
   * @returns {Step}
   */
  #named({ position, tokens, attention, cache }) {
    return { position, tokens: Array.from(tokens, (id) => this.#token(id)), attention, cache: lookOf(cache) };
  }

  /** @param {number} id */
  #token(id) {
    let token = this.#tokens.get(id);
    if (!token) {
      token = { id, text: '' };
      this.#tokens.set(id, token);
    }
    return token;
  }

  /**
   * @param {ArrayLike<number>} ids
   * @returns {Promise<boolean>} true when a text was new
   */
  async #name(ids) {
    const fresh = [...new Set(Array.from(ids))]
      .map((id) => this.#token(id))
      .filter((token) => token.text === '');
    try {
      await Promise.all(
        fresh.map(async (token) => {
          token.text = await this.#model.detokenize([token.id], { special: true });
        }),
      );
    } catch {
      // The model went away; its tokens go with it.
      return false;
    }
    return fresh.length > 0;
  }

  /** @returns {Promise<CacheLook>} */
  async cache() {
    return lookOf(await this.#session.cache());
  }

  /** Forgets the conversation. */
  clear() {
    return this.#session.rewind(0);
  }

  /** Ends the worker and gives its memory back. */
  dispose() {
    return this.#model.dispose();
  }
}

/**
 * @param {import('headlight-wasm').CacheStats} stats
 * @returns {CacheLook}
 */
function lookOf({ type, positions, used, reserved, shared, blockPositions }) {
  const n = Math.ceil(positions / blockPositions);
  const others = reserved > 0 ? Math.round((n * shared) / reserved) : 0;
  const blocks = Array.from({ length: n }, (_, i) => ({
    positions: Math.min(blockPositions, positions - i * blockPositions),
    state: i < others ? 'shared' : 'own',
  }));
  return { positions, used, reserved, type, blockPositions, blocks };
}
