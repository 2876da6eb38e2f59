import { buildId } from '../dist/build-id.js';
import { checkInteger, checkSignal, MAX_CONTEXT } from './checks.js';
import { Engine } from './engine.js';
import { abortError, checkOptions, HeadlightError } from './errors.js';
import { chooseVariant, detect, features } from './features.js';
import { checkOverflow, Model } from './model.js';
import { kvPlan } from './plan.js';
import { orRefuse, throwIfAborted } from './source.js';
import { describeSources } from './split.js';

/**
 * @typedef {import('./types.js').Source} Source
 * @typedef {import('./types.js').KvType} KvType
 * @typedef {import('./types.js').Progress} Progress
 * @typedef {import('./types.js').LoadOptions} LoadOptions
 * @typedef {import('./types.js').KvShape} KvShape
 * @typedef {import('./types.js').ModelInfo} ModelInfo
 * @typedef {import('./types.js').MemoryUse} MemoryUse
 * @typedef {import('./types.js').Message} Message
 * @typedef {import('./types.js').TemplateOptions} TemplateOptions
 * @typedef {import('./types.js').GenerateOptions} GenerateOptions
 * @typedef {import('./types.js').Chunk} Chunk
 * @typedef {import('./types.js').Usage} Usage
 * @typedef {import('./types.js').Timings} Timings
 * @typedef {import('./types.js').Result} Result
 * @typedef {import('./types.js').LayerCache} LayerCache
 * @typedef {import('./types.js').CacheStats} CacheStats
 * @typedef {import('./types.js').AttentionMap} AttentionMap
 * @typedef {import('./types.js').Step} Step
 * @typedef {import('./types.js').SessionOptions} SessionOptions
 * @typedef {import('./types.js').WatchOptions} WatchOptions
 * @typedef {import('./types.js').Features} Features
 * @typedef {import('./types.js').Precision} Precision
 * @typedef {import('./types.js').Variant} Variant
 * @typedef {import('./types.js').Overflow} Overflow
 * @typedef {import('./types.js').TokenLogprobs} TokenLogprobs
 * @typedef {import('./errors.js').ErrorCode} ErrorCode
 */

const LOAD_OPTIONS = [
  'threads',
  'context',
  'kv',
  'precision',
  'variant',
  'overflow',
  'sha256',
  'headers',
  'assets',
  'maxMemory',
  'template',
  'pretokenizer',
  'signal',
  'onProgress',
];

/**
 * @param {unknown} value
 * @param {readonly string[]} known
 * @param {string} name
 */
function checkChoice(value, known, name) {
  if (!known.includes(/** @type {string} */ (value))) {
    throw new HeadlightError('BAD_ARGUMENT', `load: ${name} is "${value}"; there are ${known.join(', ')}`);
  }
}

/**
 * @param {import('./types.js').LoadOptions} options
 * @returns {object} what the worker gets
 */
function workerOptions(options) {
  checkOptions(options, LOAD_OPTIONS, 'load');
  const {
    kv = 'f16',
    precision = 'fast',
    overflow = 'stop',
    sha256,
    assets,
    maxMemory,
    template,
    pretokenizer,
    context,
  } = options;
  checkChoice(kv, ['f32', 'f16', 'q8_0'], 'kv');
  checkChoice(precision, ['fast', 'high'], 'precision');
  checkOverflow(overflow, 'load');
  if (context !== undefined) checkInteger(context, 'load: context', 1, MAX_CONTEXT);
  for (const [name, value] of Object.entries({ template, pretokenizer })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new HeadlightError('BAD_ARGUMENT', `load: ${name} must be a string`);
    }
  }
  const hashes = sha256 === undefined ? [] : [sha256].flat();
  if (hashes.some((hash) => !/^[0-9a-f]{64}$/i.test(hash))) {
    throw new HeadlightError('BAD_ARGUMENT', 'load: sha256 must be 64 hexadecimal digits, of each file');
  }
  if (maxMemory !== undefined && !(typeof maxMemory === 'number' && maxMemory > 0)) {
    throw new HeadlightError('BAD_ARGUMENT', `load: maxMemory is ${maxMemory}, must be a number of bytes`);
  }
  const { variant, threads } = chooseVariant(options);
  const base = globalThis.document?.baseURI ?? import.meta.url;
  const folder =
    assets && orRefuse('assets is no URL', () => new URL(assets, base).href.replace(/\/?$/, '/'));
  return {
    buildId,
    variant,
    threads,
    context,
    kv,
    precision,
    overflow,
    sha256: hashes,
    maxMemory,
    template,
    pretokenizer,
    assets: folder,
    // Slower than it could be is worth a word only where threads are missing.
    reasons: options.variant === undefined && !detect().threads ? detect().reasons : [],
  };
}

/**
 * @param {import('./types.js').LoadOptions} options
 * @throws {HeadlightError} BAD_ARGUMENT
 */
function checkCallbacks({ signal, onProgress }) {
  checkSignal(signal, 'load');
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    throw new HeadlightError('BAD_ARGUMENT', 'load: onProgress must be a function');
  }
}

/**
 * Loads a model into a worker of its own.
 * @param {import('./types.js').Source} source
 * @param {import('./types.js').LoadOptions} [options]
 * @returns {Promise<Model>}
 * @throws {HeadlightError} what onProgress throws, and BAD_FORMAT, UNSUPPORTED, TRUNCATED, NO_MEMORY, NETWORK, NOT_FOUND, CHECKSUM, BAD_ARGUMENT,
 *   WORKER_LOST, BUILD_MISMATCH; AbortError when the signal aborts. Memory is given back in every case.
 */
export async function load(source, options = {}) {
  const forWorker = workerOptions(options);
  checkCallbacks(options);
  const { signal, onProgress } = options;
  throwIfAborted(signal, 'load');
  const { specs, pieces } = describeSources(source, options.headers);
  const hashes = options.sha256 === undefined ? specs.length : [options.sha256].flat().length;
  if (hashes !== specs.length) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `load: sha256 has ${hashes} of ${specs.length} files: give a list with one for each, in their order`,
    );
  }
  const iterators = pieces.map((of) => of?.[Symbol.asyncIterator]());
  const engine = new Engine();
  const tell = (/** @type {import('./types.js').Progress} */ progress) => {
    try {
      onProgress?.(progress);
    } catch (error) {
      void engine.end(/** @type {any} */ (error));
    }
  };
  const stop = () => void engine.end(/** @type {any} */ (abortError('load')));
  signal?.addEventListener('abort', stop);
  try {
    const call = engine.call(
      'load',
      { specs, options: forWorker },
      {
        onEvent: (event, data) => {
          const iterator = event === 'pull' ? iterators[data] : undefined;
          if (iterator) void engine.pump(call.id, iterator);
          else if (event === 'progress') tell(data);
        },
      },
    );
    return new Model(engine, await call.done);
  } catch (error) {
    await engine.end(/** @type {any} */ (error));
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    for (const iterator of iterators) void iterator?.return?.(undefined)?.catch?.(() => {});
  }
}

export { buildId, features, HeadlightError, kvPlan };
export { Generation, Model, Session } from './model.js';
