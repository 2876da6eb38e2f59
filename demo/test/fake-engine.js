/*
 * A stand-in for headlight-wasm with the same shape, to work on the page without weights:
 *   HEADLIGHT_ENGINE=$PWD/test/fake-engine.js npm run dev
 * It answers every message with the same words and makes attention up.
 */
export { kvPlan } from '../../web/src/plan.js';
export { HeadlightError } from '../../web/src/errors.js';

const WORDS =
  'The capital of France is **Paris**. It lies on the Seine.\n\n- one\n- two\n\n`code` and <b>html</b>. '
    .repeat(3)
    .match(/\s*\S+|\s+$/g) ?? [];
const HEADS = 9;
const LAYERS = 30;
const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function features() {
  const isolated = globalThis.crossOriginIsolated;
  const reasons = isolated ? [] : ['One thread only: the page is not cross-origin isolated.'];
  return {
    isolated,
    defaultThreads: isolated ? 2 : 1,
    relaxed: true,
    variant: isolated ? 'relaxed' : 'single',
    reasons,
  };
}

/**
 * @param {unknown} source
 * @param {any} options
 */
export async function load(source, options) {
  const total = 98362432;
  for (let loaded = 0; loaded < total; loaded += 12e6) {
    if (options.signal?.aborted) throw new DOMException('stopped', 'AbortError');
    options.onProgress?.({ stage: 'weights', loaded, total, bytesPerSecond: 50e6, fromStore: false });
    await sleep(100);
  }
  return new Model();
}

class Model {
  texts = ['<|im_start|>', 'user', '\n'];
  info = {
    name: 'Fake',
    architecture: 'llama',
    kind: 'GQA',
    quantization: 'Q4_1',
    layers: LAYERS,
    heads: HEADS,
    kvHeads: 3,
    parameters: 134515008,
    context: 2048,
    fileBytes: 98362432,
    warnings: [],
    shape: { layers: LAYERS, kvHeads: 3, keyDim: 64, valueDim: 64 },
  };

  async session() {
    return new Session();
  }

  /** @param {string} word */
  id(word) {
    if (!this.texts.includes(word)) this.texts.push(word);
    return this.texts.indexOf(word);
  }

  /** @param {number[]} ids */
  async detokenize([id]) {
    return this.texts[id];
  }

  /**
   * @param {any[]} messages
   * @param {any} options
   */
  chat(messages, { session, signal, maxTokens }) {
    const model = this;
    /** @type {number[]} */
    const tokens = [];
    async function* run() {
      const prompt = messages.flatMap((m) => [
        '<|im_start|>',
        m.role,
        '\n',
        ...m.content.match(/\s*\S+/g),
        '<|im_end|>',
        '\n',
      ]);
      await session.feed(prompt.map((word) => model.id(word)));
      for (const word of WORDS.slice(0, maxTokens)) {
        await sleep(25);
        if (signal.aborted) throw new DOMException('stopped', 'AbortError');
        tokens.push(model.id(word));
        await session.feed([model.id(word)]);
        yield { text: word, token: model.id(word), position: session.length };
      }
    }
    const result = () => ({
      text: '',
      tokens,
      finishReason: signal.aborted ? 'abort' : 'stop',
      usage: { promptTokens: 40, cachedTokens: 12, completionTokens: tokens.length },
      timings: { promptPerSecond: 250, decodePerSecond: 61.3 },
    });
    return { [Symbol.asyncIterator]: run, then: (/** @type {any} */ ok) => ok(result()) };
  }

  async dispose() {}
}

class Session {
  length = 0;
  /** @type {Set<any>} */
  watchers = new Set();

  /**
   * @param {any} what
   * @param {any} listener
   */
  watch(what, listener) {
    const watcher = { what, listener };
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** @param {number[]} ids */
  async feed(ids) {
    const position = this.length;
    this.length += ids.length;
    for (const { what, listener } of this.watchers) {
      const attention = Object.fromEntries(
        what.attention.map((/** @type {number} */ l) => [l, rows(l, position, ids.length)]),
      );
      listener({ position, tokens: Int32Array.from(ids), attention, cache: this.stats() });
    }
  }

  /** @param {number} n */
  async rewind(n) {
    this.length = n;
  }

  stats() {
    const n = this.length;
    const reserved = 23040 * 64 * Math.ceil(n / 64);
    return {
      type: 'f16',
      positions: n,
      used: 23040 * n,
      reserved,
      shared: 0,
      perLayer: [],
      blockPositions: 64,
    };
  }

  async cache() {
    return this.stats();
  }

  async dispose() {}
}

/**
 * Attention that looks like some: a sink, the previous token, and a few that go back.
 * @param {number} layer
 * @param {number} position
 * @param {number} n
 */
function rows(layer, position, n) {
  const cols = position + n;
  const data = new Float32Array(HEADS * n * cols);
  for (let head = 0; head < HEADS; head++) {
    for (let r = 0; r < n; r++) {
      const q = position + r;
      const at = (head * n + r) * cols;
      let sum = 0;
      for (let k = 0; k <= q; k++) {
        const near = Math.exp(-(q - k) / (1 + ((head * 3 + layer) % 11)));
        const jump = (q - k) % (5 + head) === 0 ? 0.4 : 0.02;
        data[at + k] = (k === 0 ? 3 : 0) + near + jump * Math.abs(Math.sin(k * 7.3 + head));
        sum += data[at + k];
      }
      for (let k = 0; k <= q; k++) data[at + k] /= sum;
    }
  }
  return { heads: HEADS, rows: n, cols, data };
}
