import { checkInteger, INT32_MAX } from '../checks.js';
import { HeadlightError } from '../errors.js';
import { contextOf } from '../loader.js';
import { BOS, CHUNK, KV_TYPES, SPECIAL } from '../wasm.js';
import { MLA_WAYS } from '../wasm-session.js';
import { contextWarnings } from '../warnings.js';
import { checkChoice, oneModel, parseArgs, UsageError } from './args.js';
import { openModel } from './core.js';
import { checkFields, f32, f32s, readFlag, readIds, serveLines } from './json.js';

const OPTIONS = /** @type {const} */ ({
  json: 'flag',
  kv: 'text',
  precision: 'text',
  variant: 'text',
  threads: 'size',
  ctx: 'size',
  chunk: 'size',
  mla: 'text',
  pretokenizer: 'text',
});
const INPUTS = ['tokens', 'text', 'positions', 'logits', 'top', 'attention', 'hidden', 'router', 'greedy'];

/**
 * headlight eval: numbers of single positions, for tests and for people who compare.
 * @param {string[]} argv
 * @returns {Promise<number>} exit code
 */
export async function evalCommand(argv) {
  const { options, rest } = parseArgs(argv, OPTIONS);
  const model = oneModel(rest, 'eval');
  if (!options.json) throw new UsageError('eval reads and writes JSON lines: give --json');
  checkChoice(options.kv, KV_TYPES, 'kv');
  checkChoice(options.precision, ['fast', 'high'], 'precision');
  checkChoice(options.variant, ['relaxed', 'simd', 'single'], 'variant');
  checkChoice(options.mla, MLA_WAYS, 'mla');
  if (options.chunk > CHUNK) throw new UsageError(`--chunk is at most ${CHUNK}`);
  const core = await openModel(model, options);
  if (options.mla !== undefined && options.mla !== 'auto' && core.kind() !== 'MLA') {
    throw new UsageError(`--mla ${options.mla}: the model's attention is ${core.kind()}, not MLA`);
  }
  const warn = warnOnce(core.info().nCtxTrain);
  warn(options.ctx ?? 0);
  return serveLines((input) => {
    const evaluation = new Evaluation(core, options, input);
    warn(evaluation.context);
    return evaluation.run();
  });
}

/**
 * @param {number} trained positions that the model was made for
 * @returns {(context: number) => void} says on stderr, once, that a context is larger
 */
function warnOnce(trained) {
  let warned = false;
  return (context) => {
    const [text] = warned ? [] : contextWarnings(context, trained);
    if (text === undefined) return;
    process.stderr.write(`${text}\n`);
    warned = true;
  };
}

/** One line of eval: a new context, the tokens, and what was asked of them. */
class Evaluation {
  /**
   * @param {import('../wasm.js').Core} core
   * @param {Record<string, any>} options
   * @param {any} input
   */
  constructor(core, options, input) {
    checkFields(input, INPUTS, 'eval');
    this.core = core;
    this.input = input;
    this.info = core.info();
    this.tokens = this.#readTokens();
    this.all = this.#readPositions();
    this.top = this.#readCount('top');
    this.greedy = this.#readCount('greedy');
    this.layers = this.#readLayers();
    this.wants = {
      logits: readFlag(input.logits, 'logits'),
      hidden: readFlag(input.hidden, 'hidden'),
      router: readFlag(input.router, 'router'),
    };
    const wanted = this.tokens.length + this.greedy;
    this.context = options.ctx ?? Math.max(contextOf(this.info, undefined), wanted);
    this.session = core.session(this.context, options.kv ?? 'f16');
    this.session.setMla(options.mla ?? 'auto');
    // Taps hold the last chunk only; without taps the core cuts by itself.
    this.chunk = options.chunk ?? CHUNK;
    /** @type {Record<string, any>} */
    this.out = { tokens: Array.from(this.tokens) };
    if (this.wants.logits) this.out.logits = [];
    if (this.top > 0) this.out.top = [];
    if (this.layers.length > 0) this.out.attention = {};
    if (this.wants.router) this.out.router = {};
  }

  #readTokens() {
    const { tokens, text } = this.input;
    if (tokens !== undefined && text !== undefined) {
      throw new HeadlightError('BAD_ARGUMENT', 'eval: "tokens" and "text" are both given: give one of them');
    }
    if (tokens !== undefined) {
      const ids = readIds(tokens, 'tokens');
      if (ids.length > 0) return ids;
    } else if (typeof text === 'string') {
      const ids = this.core.tokenize(text, SPECIAL | BOS);
      if (ids.length > 0) return ids;
    } else {
      throw new HeadlightError('BAD_ARGUMENT', 'eval needs "tokens", a list of ids, or "text"');
    }
    throw new HeadlightError('BAD_ARGUMENT', 'eval: there is no token to evaluate');
  }

  #readPositions() {
    const { positions = 'last' } = this.input;
    if (positions !== 'last' && positions !== 'all') {
      throw new HeadlightError(
        'BAD_ARGUMENT',
        `positions is "last" or "all", not ${JSON.stringify(positions)}`,
      );
    }
    return positions === 'all';
  }

  /** @param {'top' | 'greedy'} name */
  #readCount(name) {
    const value = this.input[name] ?? 0;
    checkInteger(value, name, 0, INT32_MAX);
    return value;
  }

  /** @returns {number[]} */
  #readLayers() {
    const { attention = [] } = this.input;
    const layers = readIds(attention, 'attention');
    for (const layer of layers) {
      if (layer < 0 || layer >= this.info.nLayer) {
        throw new HeadlightError(
          'BAD_ARGUMENT',
          `attention: layer ${layer}; there are 0 to ${this.info.nLayer - 1}`,
        );
      }
    }
    return Array.from(layers);
  }

  run() {
    try {
      this.#tap();
      for (let at = 0; at < this.tokens.length; at += this.chunk) {
        this.session.feed(this.tokens.subarray(at, at + this.chunk));
        this.#takeAttention(at);
        if (this.wants.router) this.#takeRouter();
        if (this.all) this.#takeAll();
      }
      this.#takeLast();
      this.#goOn();
      return this.out;
    } finally {
      this.session.free();
    }
  }

  #tap() {
    const { session, wants, info } = this;
    for (const layer of this.layers) session.tap('attn_prob', layer, true);
    if (this.all && (wants.logits || this.top > 0)) session.tap('logits', 0, true);
    for (let layer = 0; layer < info.nLayer; layer++) {
      if (wants.hidden) session.tap('layer_out', layer, true);
      if (wants.router && info.nExpert > 0) session.tap('router', layer, true);
    }
    if (!wants.hidden) return;
    session.tap('embd', 0, true);
    session.tap('final_norm', 0, true);
  }

  /** @param {number} at first position of the chunk */
  #takeAttention(at) {
    const n = this.tokens.length;
    for (const layer of this.layers) {
      const map = this.session.read('attn_prob', layer);
      if (!map) continue;
      const heads = (this.out.attention[layer] ??= Array.from({ length: map.heads }, () => []));
      for (let h = 0; h < map.heads; h++) {
        for (let r = 0; r < map.rows; r++) {
          const from = (h * map.rows + r) * map.cols;
          const row = f32s(map.data.subarray(from, from + map.cols));
          heads[h][at + r] = row.concat(Array(n - map.cols).fill(0));
        }
      }
    }
  }

  /** Of every position of the chunk, the chosen experts, best first, and their weights. */
  #takeRouter() {
    for (let layer = 0; layer < this.info.nLayer; layer++) {
      const map = this.session.read('router', layer);
      if (!map) continue;
      const taken = (this.out.router[layer] ??= { experts: [], weights: [] });
      for (let r = 0; r < map.rows; r++) {
        const row = f32s(map.data.subarray(r * map.cols, (r + 1) * map.cols));
        taken.experts.push(row.filter((_, i) => i % 2 === 0));
        taken.weights.push(row.filter((_, i) => i % 2 === 1));
      }
    }
  }

  /** Logits of every position of the chunk. */
  #takeAll() {
    const map = this.session.read('logits');
    if (!map) return;
    for (let r = 0; r < map.rows; r++) {
      const row = map.data.subarray(r * map.cols, (r + 1) * map.cols);
      if (this.wants.logits) this.out.logits.push(f32s(row));
      if (this.top > 0) this.out.top.push(this.#best(row));
    }
  }

  /**
   * @param {Float32Array} logits
   * @returns {[number, number | string][]}
   */
  #best(logits) {
    const { top } = this.core.with(logits, (p) => this.core.topLogprobs(p, logits.length, 0, this.top));
    return top.map(([id, logprob]) => [id, f32(logprob)]);
  }

  #takeLast() {
    const { wants, session, out } = this;
    if (!this.all) {
      const logits = session.logits();
      if (wants.logits) out.logits = f32s(logits);
      if (this.top > 0) out.top = this.#best(logits);
    }
    if (wants.hidden) out.hidden = this.#hidden();
  }

  #hidden() {
    const lastRow = (/** @type {import('../wasm-session.js').Tap} */ tap, /** @type {number} */ layer) => {
      const map = this.session.read(tap, layer);
      return map ? f32s(map.data.subarray((map.rows - 1) * map.cols, map.rows * map.cols)) : [];
    };
    /** @type {Record<string, any>} */
    const hidden = { embed: lastRow('embd', 0) };
    for (let layer = 0; layer < this.info.nLayer; layer++)
      hidden[`layer_${layer}`] = lastRow('layer_out', layer);
    hidden.final_norm = lastRow('final_norm', 0);
    return hidden;
  }

  /** The tokens that follow, best first always. */
  #goOn() {
    if (this.greedy === 0) return;
    /** @type {number[]} */
    const ids = [];
    for (;;) {
      const logits = this.session.logits();
      let best = 0;
      for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
      ids.push(best);
      if (ids.length >= this.greedy) break;
      this.session.feed(Int32Array.of(best));
    }
    this.out.greedy = ids;
  }
}
