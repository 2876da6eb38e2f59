import { HeadlightError } from './errors.js';
import { kvPlan } from './plan.js';

/** Memory beside weights and cache: scratch of the decoder, logits, a session's tables. */
const MARGIN = 4 << 20;
const PROGRESS_MS = 100;

/**
 * Shape of the cache, for kvPlan().
 * @param {import('./wasm.js').CoreInfo} info
 * @returns {import('./types.js').KvShape}
 */
export function shapeOf(info) {
  /** @type {import('./types.js').KvShape} */
  const shape = {
    layers: info.nLayer,
    kvHeads: info.nHeadKv,
    keyDim: info.dHeadK,
    valueDim: info.dHeadV,
  };
  if (info.kvLoraRank > 0) Object.assign(shape, { rank: info.kvLoraRank, ropeDim: info.dRope });
  if (info.slidingWindow > 0) Object.assign(shape, { window: info.slidingWindow, windowed: info.windowed });
  return shape;
}

/**
 * Positions a session of this model has when nothing is said.
 * @param {import('./wasm.js').CoreInfo} info
 * @param {number | undefined} asked
 */
export function contextOf(info, asked) {
  return asked ?? Math.min(info.nCtxTrain > 0 ? info.nCtxTrain : 4096, 4096);
}

/** @param {number} bytes */
const mb = (bytes) => `${Math.ceil(bytes / 1e6)} MB`;

/**
 * Takes the memory that the model will need, so that too little is known before the download goes on.
 * @param {import('./wasm.js').Core} core with a header
 * @param {number} context positions
 * @param {import('./types.js').KvType} kv
 * @throws {HeadlightError} NO_MEMORY, with what would fit
 */
export function planMemory(core, context, kv) {
  const info = core.info();
  const use = core.memoryUse();
  const cacheOf = (/** @type {number} */ positions) => kvPlan(shapeOf(info), positions, kv).bytes;
  const cache = cacheOf(context);
  const weights = Math.max(0, info.packedBytes - use.weights);
  // What a tensor takes while it is packed is free again before the cache grows.
  const rest = (/** @type {number} */ bytes) => Math.max(info.stagingBytes, bytes) + MARGIN;
  if (core.reserve(weights + rest(cache))) return;
  const need = info.packedBytes + rest(cache);
  let fits = context;
  do fits = Math.floor(fits / 2);
  while (fits >= 256 && !core.reserve(weights + rest(cacheOf(fits))));
  const advice =
    fits >= 256
      ? `a context of ${fits} positions would fit`
      : 'close other pages, or take a smaller model or a stronger quantization';
  throw new HeadlightError(
    'NO_MEMORY',
    `The model needs ${mb(need)} (weights ${mb(info.packedBytes)}, cache ${mb(cache)} for ${context} positions), ` +
      `more than there is: ${advice}`,
  );
}

/** Bytes so far, told at most every PROGRESS_MS. */
class Meter {
  /**
   * @param {(progress: import('./types.js').Progress) => void} tell
   * @param {number | undefined} total
   */
  constructor(tell, total) {
    this.tell = tell;
    this.total = total;
    this.loaded = 0;
    this.begun = performance.now();
    this.told = 0;
  }

  /** @param {number} n bytes more */
  add(n) {
    this.loaded += n;
    const now = performance.now();
    if (now - this.told >= PROGRESS_MS) this.report('load', now);
  }

  /**
   * @param {'load' | 'ready'} stage
   * @param {number} [now]
   */
  report(stage, now = performance.now()) {
    this.told = now;
    const seconds = (now - this.begun) / 1000;
    const bytesPerSecond = seconds > 0 ? this.loaded / seconds : 0;
    this.tell({ stage, loaded: this.loaded, total: this.total, bytesPerSecond, fromStore: false });
  }
}

/**
 * Takes a file into the core.
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource} source
 * @param {object} options
 * @param {(info: import('./wasm.js').CoreInfo) => void} options.onHeader may refuse by throwing
 * @param {(progress: import('./types.js').Progress) => void} [options.onProgress]
 * @param {string} [options.sha256] hex
 * @returns {Promise<void>}
 * @throws {HeadlightError} what the source, the core or onHeader throws; CHECKSUM
 */
export async function loadInto(core, source, { onHeader, onProgress = () => {}, sha256 }) {
  const hash = sha256 === undefined ? undefined : await (await import('hash-wasm')).createSHA256();
  const meter = new Meter(onProgress, source.size);
  let header = false;
  let wanted = true;
  for await (const piece of source.chunks()) {
    hash?.update(piece);
    if (wanted) wanted = core.push(piece);
    if (!header && core.hasHeader()) {
      header = true;
      onHeader(core.info());
      meter.total ??= core.info().fileBytes;
    }
    meter.add(piece.byteLength);
    if (!wanted && !hash) break;
  }
  core.finish();
  const digest = hash?.digest('hex');
  if (digest !== sha256?.toLowerCase()) {
    throw new HeadlightError(
      'CHECKSUM',
      `${source.name}: sha256 is ${digest}, not ${sha256}: the file is another one or damaged`,
    );
  }
  meter.report('ready');
}

/**
 * Takes only the header: enough for the tokenizer and all facts.
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource} source
 * @returns {Promise<void>}
 */
export async function loadHeader(core, source) {
  for await (const piece of source.chunks()) {
    if (!core.push(piece) || core.hasHeader()) break;
  }
  if (!core.hasHeader()) core.finish();
}
