import { checkInteger, checkSignal, MAX_CONTEXT } from './checks.js';
import { abortError, checkOptions, HeadlightError } from './errors.js';
import { throwIfAborted } from './source.js';
import { contextWarnings } from './warnings.js';

/** @typedef {import('./types.js').Chunk} Chunk */
/** @typedef {import('./types.js').Result} Result */

export const OVERFLOWS = ['stop', 'slide', 'error'];
const TEMPLATE_OPTIONS = ['addGenerationPrompt', 'variables'];
const GENERATE_OPTIONS = [
  'maxTokens',
  'temperature',
  'topK',
  'topP',
  'minP',
  'typicalP',
  'repeatPenalty',
  'repeatLastN',
  'frequencyPenalty',
  'presencePenalty',
  'logitBias',
  'seed',
  'stop',
  'ignoreEos',
  'logprobs',
  'signal',
  'session',
  'overflow',
];
const SESSION_OPTIONS = ['context', 'kv', 'overflow'];

/**
 * @param {string | undefined} overflow
 * @param {string} where
 */
export function checkOverflow(overflow, where) {
  if (overflow === undefined || OVERFLOWS.includes(overflow)) return;
  throw new HeadlightError(
    'BAD_ARGUMENT',
    `${where}: overflow "${overflow}" is not known; there are ${OVERFLOWS.join(', ')}`,
  );
}

/**
 * An answer that can be awaited, or iterated, or both. It starts when it is made. Who only iterates, and slowly, slows
 * it; when nobody iterates it, or somebody awaits it too, it runs to its end. Leaving the loop stops it. When it is aborted, the loop throws AbortError, and awaiting gives the text so far.
 * @implements {AsyncIterable<Chunk>}
 * @implements {PromiseLike<Result>}
 */
export class Generation {
  /** @type {Chunk[]} */
  #queue = [];
  /** How many at the front of the queue the worker has got its credit for. */
  #paid = 0;
  /** @type {(() => void) | undefined} */
  #wake;
  #finished = false;
  #iterated = false;
  #awaited = false;
  /** @type {unknown} */
  #error;
  /** @type {Result | undefined} */
  #result;

  /**
   * @param {import('./engine.js').Engine} engine
   * @param {object} args of the worker's generate
   * @param {AbortSignal | undefined} signal
   * @param {(length: number) => void} onLength the session's new length
   */
  constructor(engine, args, signal, onLength) {
    this.engine = engine;
    const onEvent = (/** @type {string} */ _event, /** @type {Chunk} */ chunk) => {
      onLength(chunk.position);
      this.#arrive(chunk);
    };
    this.call = engine.call('generate', args, { signal, onEvent });
    this.done = this.call.done.then(
      ({ result, length }) => {
        onLength(length);
        this.#result = result;
        this.#finish();
        return result;
      },
      (error) => {
        if (typeof error?.sessionLength === 'number') onLength(error.sessionLength);
        this.#error = error;
        this.#finish();
        throw error;
      },
    );
    this.done.catch(() => {});
  }

  /** @param {Chunk} chunk */
  #arrive(chunk) {
    this.#queue.push(chunk);
    // Only a lone reader holds the engine back: whoever waits for the end would otherwise wait for the reader.
    if (this.#awaited || !this.#iterated) this.#payAll();
    this.#wake?.();
  }

  #payAll() {
    const n = this.#queue.length - this.#paid;
    if (n > 0 && !this.#finished) this.engine.credit(this.call.id, n);
    this.#paid = this.#queue.length;
  }

  #finish() {
    this.#finished = true;
    this.#wake?.();
  }

  /**
   * @template [A=Result]
   * @template [B=never]
   * @param {((result: Result) => A | PromiseLike<A>) | null} [onResult]
   * @param {((error: any) => B | PromiseLike<B>) | null} [onError]
   * @returns {Promise<A | B>}
   */
  then(onResult, onError) {
    this.#awaited = true;
    this.#payAll();
    return this.done.then(onResult, onError);
  }

  /** @returns {AsyncGenerator<Chunk, void, void>} */
  async *[Symbol.asyncIterator]() {
    if (this.#iterated) throw new HeadlightError('BAD_STATE', 'A generation can be iterated once');
    this.#iterated = true;
    try {
      for (;;) {
        const chunk = this.#queue.shift();
        if (chunk) {
          if (this.#paid > 0) this.#paid--;
          else this.engine.credit(this.call.id, 1);
          yield chunk;
        } else if (this.#finished) {
          break;
        } else {
          await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
          this.#wake = undefined;
        }
      }
      if (this.#error) throw this.#error;
      if (this.#result?.finishReason === 'abort') throw abortError('The generation');
    } finally {
      if (!this.#finished) this.engine.abort(this.call.id);
    }
  }
}

/**
 * One context over time, with its cache. Calls run in order; cache() is answered at once, between two tokens. A call that
 * waits for a generation whose reader takes nothing for a second is refused with BAD_ARGUMENT: it would wait for ever.
 */
export class Session {
  /** @type {import('./engine.js').Engine} */
  #engine;
  #id;
  #layers;
  #length;
  #disposed = false;

  /**
   * @param {import('./engine.js').Engine} engine
   * @param {number} id in the worker
   * @param {number} layers of the model
   * @param {string[]} warnings
   * @param {number} [length] positions in its cache
   */
  constructor(engine, id, layers, warnings, length = 0) {
    this.#engine = engine;
    this.#id = id;
    this.#layers = layers;
    this.#length = length;
    /** What a person should know about this context, as of model.info. @type {readonly string[]} */
    this.warnings = warnings;
  }

  /**
   * Positions in the cache, as of the last call that has ended or the last chunk that has come; 0 when the session or its
   * model was disposed.
   */
  get length() {
    return this.#disposed || this.#engine.ended ? 0 : this.#length;
  }

  /**
   * For Model: the number in the worker.
   * @param {Session} session
   * @param {import('./engine.js').Engine} engine
   * @returns {number}
   */
  static idOf(session, engine) {
    if (!(session instanceof Session) || session.#engine !== engine) {
      throw new HeadlightError('BAD_ARGUMENT', 'session: it must come from session() of the same model');
    }
    if (session.#disposed) throw new HeadlightError('DISPOSED', 'The session was disposed');
    return session.#id;
  }

  /**
   * @param {Session | undefined} session
   * @param {number} length
   */
  static setLength(session, length) {
    if (session) session.#length = length;
  }

  #check() {
    if (this.#disposed && !this.#engine.ended)
      throw new HeadlightError('DISPOSED', 'The session was disposed');
  }

  /**
   * Appends tokens and evaluates them.
   * @param {ArrayLike<number>} tokens ids
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<Float32Array>} logits after the last, [vocabulary]
   * @throws {HeadlightError} CONTEXT_FULL, BAD_ARGUMENT (nothing is changed); AbortError: whole chunks of 64 stay
   */
  async feed(tokens, options = {}) {
    checkOptions(options, ['signal'], 'feed');
    checkSignal(options.signal, 'feed');
    this.#check();
    throwIfAborted(options.signal, 'feed');
    const ids = idsOf(tokens, 'feed');
    try {
      const { logits, length } = await this.#engine.call('feed', { session: this.#id, tokens: ids }, options)
        .done;
      this.#length = length;
      return logits;
    } catch (error) {
      const length = /** @type {any} */ (error)?.sessionLength;
      if (typeof length === 'number') this.#length = length;
      throw error;
    }
  }

  /**
   * Forgets all positions from length on. What sliding windows have given back before it is evaluated again.
   * @param {number} length
   * @returns {Promise<void>}
   * @throws {HeadlightError} BAD_ARGUMENT
   */
  async rewind(length) {
    this.#check();
    await this.#engine.call('rewind', { session: this.#id, length }).done;
    this.#length = length;
  }

  /**
   * A second session with the same context. Blocks of the cache are shared until one of the two writes to them.
   * @returns {Promise<Session>}
   * @throws {HeadlightError} NO_MEMORY, DISPOSED
   */
  async fork() {
    this.#check();
    const { session, length } = await this.#engine.call('fork', { session: this.#id }).done;
    return new Session(this.#engine, session, this.#layers, [...this.warnings], length);
  }

  /**
   * The context as bytes, for restore() of the same build, model and precision: tokens and cache rows, with a checksum.
   * @returns {Promise<Uint8Array>}
   * @throws {HeadlightError} NO_MEMORY: linear memory has no room for a copy
   */
  async save() {
    this.#check();
    return this.#engine.call('save', { session: this.#id }).done;
  }

  /**
   * Replaces the context by a saved one. Nothing changes when it is refused.
   * @param {Uint8Array} bytes
   * @returns {Promise<void>}
   * @throws {HeadlightError} BAD_FORMAT (damaged, or not a saved context), UNSUPPORTED (another build, model,
   *   precision or cache type), CONTEXT_FULL, NO_MEMORY, BAD_ARGUMENT
   */
  async restore(bytes) {
    this.#check();
    if (!(bytes instanceof Uint8Array)) {
      throw new HeadlightError('BAD_ARGUMENT', 'restore: bytes must be the Uint8Array that save() gave');
    }
    this.#length = await this.#engine.call('restore', { session: this.#id, saved: bytes }).done;
  }

  /** @returns {Promise<import('./types.js').CacheStats>} bytes by the allocator's count */
  async cache() {
    this.#check();
    return this.#engine.call('cache', { session: this.#id }).done;
  }

  /**
   * Tells of every evaluated chunk from now on: of a prompt (up to 64 tokens), or one generated token.
   * @param {import('./types.js').WatchOptions} what
   * @param {(step: import('./types.js').Step) => void} listener
   * @returns {() => void} ends it
   * @throws {HeadlightError} BAD_ARGUMENT, UNSUPPORTED
   */
  watch(what, listener) {
    for (const name of ['lens', 'candidates']) {
      if (name in Object(what))
        throw new HeadlightError('UNSUPPORTED', `watch: "${name}" is not built in yet`);
    }
    checkOptions(what ?? null, ['attention'], 'watch');
    if (typeof listener !== 'function') {
      throw new HeadlightError('BAD_ARGUMENT', 'watch: the listener must be a function');
    }
    if (what.attention !== undefined && !Array.isArray(what.attention)) {
      throw new HeadlightError('BAD_ARGUMENT', 'watch: attention must be a list of layers');
    }
    this.#check();
    const attention = [...new Set(what.attention)];
    for (const layer of attention) {
      if (!Number.isInteger(layer) || layer < 0 || layer >= this.#layers) {
        throw new HeadlightError(
          'BAD_ARGUMENT',
          `watch: layer ${layer}; the model has layers 0 to ${this.#layers - 1}`,
        );
      }
    }
    const engine = this.#engine;
    let on = true;
    const onEvent = (/** @type {string} */ _event, /** @type {import('./types.js').Step} */ step) => {
      try {
        if (on) listener(step);
      } finally {
        engine.credit(call.id, 1);
      }
    };
    const call = engine.call('watch', { session: this.#id, attention }, { onEvent, background: true });
    call.done.catch(() => {});
    return () => {
      if (on) engine.abort(call.id);
      on = false;
    };
  }

  /**
   * Gives the cache back; generations of the session are aborted. Twice is no error.
   * @returns {Promise<void>}
   */
  async dispose() {
    if (this.#disposed || this.#engine.ended) return;
    this.#disposed = true;
    await this.#engine.call('close', { session: this.#id }).done;
  }
}

/**
 * @param {ArrayLike<number>} tokens
 * @param {string} where
 * @returns {Int32Array}
 */
function idsOf(tokens, where) {
  if (tokens === null || typeof tokens !== 'object' || typeof tokens.length !== 'number') {
    throw new HeadlightError('BAD_ARGUMENT', `${where}: tokens must be a list of ids`);
  }
  return Int32Array.from(tokens, (id, i) => {
    if (Number.isInteger(id) && Math.abs(id) < 2 ** 31) return id;
    throw new HeadlightError('BAD_ARGUMENT', `${where}: token ${i} is ${id}, which is no id`);
  });
}

/** Weights and tokenizer, in a worker of their own. */
export class Model {
  /** @type {import('./engine.js').Engine} */
  #engine;

  /**
   * @param {import('./engine.js').Engine} engine with a loaded model
   * @param {import('./types.js').ModelInfo} info
   */
  constructor(engine, info) {
    this.#engine = engine;
    /** @type {import('./types.js').ModelInfo} */
    this.info = info;
  }

  /**
   * For tests: the connection to the worker.
   * @param {Model} model
   */
  static engineOf(model) {
    return model.#engine;
  }

  /**
   * Answers a chat. Without a session the model's own is used, so that the next turn of the same chat finds its beginning
   * in the cache; such calls run one after the other.
   * @param {import('./types.js').Message[]} messages
   * @param {import('./types.js').GenerateOptions} [options]
   * @returns {Generation}
   */
  chat(messages, options = {}) {
    checkOptions(options, [...GENERATE_OPTIONS, ...TEMPLATE_OPTIONS], 'chat');
    return this.#generate({ messages }, options, 'chat');
  }

  /**
   * Goes on from a prompt as it is, without a chat template. Control markers in a text count.
   * @param {string | ArrayLike<number>} prompt text or ids
   * @param {import('./types.js').GenerateOptions} [options]
   * @returns {Generation}
   */
  generate(prompt, options = {}) {
    checkOptions(options, GENERATE_OPTIONS, 'generate');
    return this.#generate(
      { prompt: typeof prompt === 'string' ? prompt : idsOf(prompt, 'generate') },
      options,
      'generate',
    );
  }

  /**
   * @param {object} what prompt or messages
   * @param {import('./types.js').GenerateOptions} options
   * @param {string} where
   */
  #generate(what, options, where) {
    const { signal, session, ...rest } = options;
    checkOverflow(options.overflow, where);
    checkSignal(signal, where);
    const id = session === undefined ? 0 : Session.idOf(session, this.#engine);
    const args = { session: id, ...what, options: rest, aborted: signal?.aborted ?? false };
    return new Generation(this.#engine, args, signal, (length) => Session.setLength(session, length));
  }

  /**
   * A context of its own. Memory for its cache is taken as it fills, also beyond what load() has planned for.
   * @param {import('./types.js').SessionOptions} [options]
   * @returns {Promise<Session>}
   * @throws {HeadlightError} NO_MEMORY, BAD_ARGUMENT, UNSUPPORTED
   */
  async session(options = {}) {
    checkOptions(options, SESSION_OPTIONS, 'session');
    checkOverflow(options.overflow, 'session');
    if (options.context !== undefined) checkInteger(options.context, 'session: context', 1, MAX_CONTEXT);
    const id = await this.#engine.call('open', options).done;
    const { context, trainedContext, layers } = this.info;
    return new Session(this.#engine, id, layers, contextWarnings(options.context ?? context, trainedContext));
  }

  /**
   * @param {string} text
   * @param {{ special?: boolean, bos?: boolean }} [options] special: control markers in the text count (default false);
   *   bos: begin as the tokenizer begins a text (default false)
   * @returns {Promise<Int32Array>} ids
   */
  async tokenize(text, options = {}) {
    checkOptions(options, ['special', 'bos'], 'tokenize');
    if (typeof text !== 'string') throw new HeadlightError('BAD_ARGUMENT', 'tokenize: text must be a string');
    return this.#engine.call('tokenize', { text, ...options }).done;
  }

  /**
   * @param {ArrayLike<number>} ids
   * @param {{ special?: boolean }} [options] special: show control tokens (default false)
   * @returns {Promise<string>}
   */
  async detokenize(ids, options = {}) {
    checkOptions(options, ['special'], 'detokenize');
    return this.#engine.call('detokenize', { ids: idsOf(ids, 'detokenize'), ...options }).done;
  }

  /**
   * The text that the chat template makes.
   * @param {import('./types.js').Message[]} messages
   * @param {import('./types.js').TemplateOptions} [options]
   * @returns {Promise<string>}
   * @throws {HeadlightError} TEMPLATE, BAD_ARGUMENT
   */
  async render(messages, options = {}) {
    checkOptions(options, TEMPLATE_OPTIONS, 'render');
    return this.#engine.call('render', { messages, options }).done;
  }

  /** @returns {Promise<import('./types.js').MemoryUse>} bytes */
  async memory() {
    return this.#engine.call('memory', {}).done;
  }

  /**
   * Ends the worker: memory and threads are given back, calls under way reject with DISPOSED. Twice is no error.
   * @returns {Promise<void>}
   */
  async dispose() {
    await this.#engine.end(new HeadlightError('DISPOSED', 'The model was disposed'));
  }
}
