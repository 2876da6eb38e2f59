import { yieldTurn } from './env.js';
import { keepOf, SINKS } from './context.js';
import { HeadlightError } from './errors.js';
import { StopFilter } from './stop.js';
import { CONTINUE } from './wasm.js';

/** What llama.cpp samples with when nothing is said: people compare answers. */
const DEFAULTS = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  typicalP: 1,
  repeatPenalty: 1,
  repeatLastN: 64,
  frequencyPenalty: 0,
  presencePenalty: 0,
};

/** @returns {number} */
function randomSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

/**
 * @param {import('./types.js').GenerateOptions} options
 * @returns {import('./types.js').SamplerParams}
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function samplerParams(options) {
  /** @type {any} */
  const params = {};
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const given = /** @type {any} */ (options)[name] ?? value;
    if (typeof given !== 'number' || Number.isNaN(given)) {
      throw new HeadlightError('BAD_ARGUMENT', `${name} must be a number, not ${given}`);
    }
    params[name] = given;
  }
  const seed = options.seed ?? randomSeed();
  if (!Number.isInteger(seed) || seed < 0 || seed > 0xffffffff) {
    throw new HeadlightError('BAD_ARGUMENT', `seed is ${seed}, must be a whole number from 0 to 4294967295`);
  }
  return { ...params, seed, logitBias: options.logitBias ?? {} };
}

/**
 * @param {import('./types.js').GenerateOptions} options
 * @returns {string[]}
 */
function stopStrings({ stop }) {
  const list = stop === undefined ? [] : typeof stop === 'string' ? [stop] : stop;
  if (!Array.isArray(list) || list.some((s) => typeof s !== 'string')) {
    throw new HeadlightError('BAD_ARGUMENT', 'stop must be a string or a list of strings');
  }
  return list;
}

/**
 * @param {number | undefined} value
 * @param {string} name
 */
function checkCount(value, name) {
  if (value !== undefined && (!Number.isInteger(value) || value < 0)) {
    throw new HeadlightError('BAD_ARGUMENT', `${name} is ${value}, must be a whole number, 0 or more`);
  }
}

/** One answer in the making. */
export class Answer {
  /**
   * @param {import('./sessions.js').WorkerSession} session
   * @param {Int32Array} prompt
   * @param {import('./types.js').GenerateOptions} options
   * @param {AbortSignal} signal
   * @param {(chunk: import('./types.js').Chunk) => Promise<void>} emit resolves when there is room for more
   * @param {object} source where the prompt comes from
   * @param {boolean} source.continues the text goes on from the prompt: a space that it begins with belongs to it
   * @param {() => Promise<number>} [source.head] tokens of the prompt that should stay when the context slides
   */
  constructor(session, prompt, options, signal, emit, { continues, head = async () => SINKS }) {
    checkCount(options.maxTokens, 'maxTokens');
    checkCount(options.logprobs, 'logprobs');
    this.session = session;
    this.core = session.core;
    this.prompt = prompt;
    this.options = options;
    this.signal = signal;
    this.emit = emit;
    this.continues = continues;
    this.head = head;
    this.overflow = options.overflow ?? session.overflow;
    this.stop = new StopFilter(stopStrings(options));
    this.text = '';
    /** @type {number[]} */
    this.tokens = [];
    /** @type {import('./types.js').TokenLogprobs[]} */
    this.logprobs = [];
    this.cached = 0;
    /** Tokens of the prompt that are evaluated. */
    this.evaluated = 0;
    /** Tokens that slid out of the context. */
    this.dropped = 0;
    this.promptMs = 0;
    this.decodeMs = 0;
  }

  /**
   * @returns {Promise<import('./types.js').Result>}
   * @throws {HeadlightError} CONTEXT_FULL, BAD_ARGUMENT
   */
  async run() {
    const sampler = this.core.sampler(samplerParams(this.options));
    const detokenizer = this.core.detokenizer(this.continues ? CONTINUE : 0);
    try {
      const fed = await this.evaluatePrompt();
      if (!fed) return this.result('abort');
      for (const id of this.prompt) sampler.accept(id);
      return this.result(await this.decode(sampler, detokenizer));
    } finally {
      detokenizer.free();
      sampler.free();
    }
  }

  /** @returns {Promise<boolean>} false when it was aborted */
  async evaluatePrompt() {
    const { session, prompt } = this;
    if (prompt.length === 0)
      throw new HeadlightError('BAD_ARGUMENT', 'The prompt is empty: there is nothing to go on from');
    if (prompt.length > session.context && this.overflow !== 'slide') {
      throw new HeadlightError(
        'CONTEXT_FULL',
        `The prompt has ${prompt.length} tokens, the context ${session.context} positions. ` +
          'Shorten it, load with a larger context, or let it slide (overflow slide)',
      );
    }
    session.checkTokens(prompt);
    if (this.signal.aborted) return false;
    const fitting = this.overflow === 'slide' ? session.fit(prompt, await this.keep()) : prompt;
    this.dropped = prompt.length - fitting.length;
    const begun = performance.now();
    try {
      await session.prompt(fitting, this.signal, (kept) => {
        this.cached = kept;
        this.evaluated = fitting.length - kept;
      });
    } catch (error) {
      if (this.signal.aborted) return false;
      throw error;
    } finally {
      this.promptMs = performance.now() - begun;
    }
    return true;
  }

  /**
   * @param {import('./wasm-sampler.js').CoreSampler} sampler
   * @param {ReturnType<import('./wasm.js').Core['detokenizer']>} detokenizer
   * @returns {Promise<import('./types.js').Result['finishReason']>}
   */
  async decode(sampler, detokenizer) {
    const { session, options, core } = this;
    const most = options.maxTokens ?? Infinity;
    const { nVocab } = core.info();
    while (this.tokens.length < most) {
      await yieldTurn();
      if (this.signal.aborted) return this.end('abort', detokenizer);
      const begun = performance.now();
      const id = sampler.sample(session.inner.logitsPointer, nVocab);
      if (core.isEnd(id) && !options.ignoreEos) return this.end('stop', detokenizer);
      sampler.accept(id);
      const logprobs = this.describe(id);
      const text = this.stop.push(detokenizer.push(id));
      this.tokens.push(id);
      this.decodeMs += performance.now() - begun;
      await this.say({ text, token: id, position: session.length, logprobs });
      if (this.stop.found !== undefined) return 'stop';
      if (this.tokens.length >= most) break;
      if (this.signal.aborted) return this.end('abort', detokenizer);
      const feeding = performance.now();
      const went = await this.advance(id);
      this.decodeMs += performance.now() - feeding;
      if (!went) break;
    }
    return this.end('length', detokenizer);
  }

  /** @returns {Promise<number>} first positions that stay when the context slides */
  async keep() {
    return keepOf(await this.head(), this.session.context);
  }

  /**
   * Evaluates a token of the answer.
   * @param {number} id
   * @returns {Promise<boolean>} false where the context ends
   * @throws {HeadlightError} CONTEXT_FULL
   */
  async advance(id) {
    const { session } = this;
    if (session.length < session.context) {
      await session.step(Int32Array.of(id));
      return true;
    }
    if (this.overflow === 'slide') {
      const { dropped } = session;
      try {
        return (await session.slide(await this.keep(), id, this.signal)) > 0;
      } catch (error) {
        // The loop that is gone back to finds that it was aborted.
        if (this.signal.aborted) return true;
        throw error;
      } finally {
        this.dropped += session.dropped - dropped;
      }
    }
    if (this.overflow === 'stop') return false;
    throw new HeadlightError(
      'CONTEXT_FULL',
      `The context of ${session.context} positions is full after ${this.tokens.length} tokens of the answer`,
    );
  }

  /** @param {import('./types.js').Chunk} chunk */
  async say(chunk) {
    this.text += chunk.text;
    if (chunk.logprobs) this.logprobs.push(chunk.logprobs);
    else delete chunk.logprobs;
    await this.emit(chunk);
  }

  /**
   * Text that was held back goes out with the last token.
   * @param {import('./types.js').Result['finishReason']} reason
   * @param {ReturnType<import('./wasm.js').Core['detokenizer']>} detokenizer
   */
  async end(reason, detokenizer) {
    const rest = this.stop.push(detokenizer.flush()) + this.stop.flush();
    const token = this.tokens.at(-1);
    if (rest === '' || token === undefined) return reason;
    this.text += rest;
    if (reason !== 'abort') await this.emit({ text: rest, token, position: this.session.length });
    return reason;
  }

  /**
   * @param {number} id
   * @returns {import('./types.js').TokenLogprobs | undefined}
   */
  describe(id) {
    const k = this.options.logprobs;
    if (k === undefined) return undefined;
    const { core, session } = this;
    const { logprob, top } = core.topLogprobs(session.inner.logitsPointer, core.info().nVocab, id, k);
    const text = (/** @type {number} */ token) => core.tokenText(token);
    return {
      token: id,
      text: text(id),
      logprob,
      top: top.map(([t, l]) => ({ token: t, text: text(t), logprob: l })),
    };
  }

  /**
   * @param {import('./types.js').Result['finishReason']} finishReason
   * @returns {import('./types.js').Result}
   */
  result(finishReason) {
    const rate = (/** @type {number} */ n, /** @type {number} */ ms) => (ms > 0 ? (1000 * n) / ms : 0);
    /** @type {import('./types.js').Result} */
    const result = {
      text: this.text,
      tokens: Int32Array.from(this.tokens),
      finishReason,
      usage: {
        promptTokens: this.prompt.length,
        cachedTokens: this.cached,
        droppedTokens: this.dropped,
        completionTokens: this.tokens.length,
      },
      timings: {
        promptMs: this.promptMs,
        promptPerSecond: rate(this.evaluated, this.promptMs),
        decodeMs: this.decodeMs,
        decodePerSecond: rate(this.tokens.length, this.decodeMs),
      },
    };
    if (this.options.logprobs !== undefined) result.logprobs = this.logprobs;
    return result;
  }
}
