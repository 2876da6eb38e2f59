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
 * @param {number} [more] bytes of packed weights that the core does not know of yet
 * @throws {HeadlightError} NO_MEMORY, with what would fit
 */
export function planMemory(core, context, kv, more = 0) {
  const info = core.info();
  const packed = info.packedBytes + more;
  const use = core.memoryUse();
  const cacheOf = (/** @type {number} */ positions) => kvPlan(shapeOf(info), positions, kv).bytes;
  const cache = cacheOf(context);
  const weights = Math.max(0, packed - use.weights);
  // What a tensor takes while it is packed is free again before the cache grows. A first piece that goes past the header
  // has taken it already, with the weights.
  const held = use.weights > 0 ? info.stagingBytes : 0;
  const rest = (/** @type {number} */ bytes) => Math.max(info.stagingBytes, bytes) - held + MARGIN;
  if (core.reserve(weights + rest(cache))) return;
  const need = packed + held + rest(cache);
  let fits = context;
  do fits = Math.floor(fits / 2);
  while (fits >= 256 && !core.reserve(weights + rest(cacheOf(fits))));
  const advice =
    fits >= 256
      ? `a context of ${fits} positions would fit`
      : 'close other pages, or take a smaller model or a stronger quantization';
  throw new HeadlightError(
    'NO_MEMORY',
    `The model needs ${mb(need)} (weights ${mb(packed)}, cache ${mb(cache)} for ${context} positions), ` +
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
 * Bytes of the files from number `from` on; undefined when one does not say.
 * @param {import('./source.js').ByteSource[]} sources
 * @param {number} from
 * @returns {number | undefined}
 */
function sizeFrom(sources, from) {
  return sources.slice(from).reduce((sum, { size }) => sum + (size ?? NaN), 0) || undefined;
}

/**
 * Packed bytes of the files whose headers have not arrived: as many for each byte as of those that have.
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource[]} sources
 */
function packedToCome(core, sources) {
  if (core.parts() === sources.length) return 0;
  const here = core.tensors().reduce((sum, tensor) => sum + tensor.bytes, 0);
  const ratio = here > 0 ? core.info().packedBytes / here : 1;
  return ratio * (sizeFrom(sources, core.parts()) ?? 0);
}

/**
 * @param {import('./wasm.js').Core} core with the first file's header
 * @param {import('./source.js').ByteSource[]} sources
 * @throws {HeadlightError} BAD_ARGUMENT before the weights of a set that is not whole are fetched
 */
function checkCount(core, sources) {
  const { nParts } = core.info();
  const [{ name }, { length }] = [sources[0], sources];
  if (nParts === length) return;
  const what = nParts === 1 ? 'is a whole model' : `is a part of a model that is split into ${nParts} files`;
  throw new HeadlightError(
    'BAD_ARGUMENT',
    `${name}: the file ${what}, and ${length} ${length === 1 ? 'was' : 'were'} given: ` +
      (nParts === 1 ? 'give it alone' : 'give all of them as a list, in their order'),
  );
}

/**
 * @param {import('./source.js').ByteSource[]} sources
 * @param {number} i
 * @returns {string} what a message calls the file: bytes and blobs have no name of their own
 */
function labelOf(sources, i) {
  const { name } = sources[i];
  return sources.length > 1 ? `${name} (part ${i + 1} of ${sources.length})` : name;
}

/**
 * Takes a model into the core, file after file.
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource[]} sources
 * @param {object} options
 * @param {(info: import('./wasm.js').CoreInfo, rest: number) => void} options.onHeader after each file's header; may
 *   refuse by throwing. rest: about how many bytes of packed weights the files that follow have
 * @param {(progress: import('./types.js').Progress) => void} [options.onProgress]
 * @param {string[]} [options.sha256] hex, of each file
 * @returns {Promise<void>}
 * @throws {HeadlightError} what the sources, the core or onHeader throws; CHECKSUM, BAD_ARGUMENT
 */
export async function loadInto(core, sources, { onHeader, onProgress = () => {}, sha256 = [] }) {
  const meter = new Meter(onProgress, sizeFrom(sources, 0));
  const onPart = (/** @type {number} */ i) => {
    if (i === 0) checkCount(core, sources);
    onHeader(core.info(), packedToCome(core, sources));
    if (i === sources.length - 1) meter.total ??= core.info().fileBytes;
  };
  for (const [i, source] of sources.entries()) {
    const digest = await loadFile(core, source, i, onPart, meter, sha256[i] !== undefined);
    if (i < sources.length - 1) core.nextPart();
    else core.finish();
    if (digest !== sha256[i]?.toLowerCase()) {
      throw new HeadlightError(
        'CHECKSUM',
        `${labelOf(sources, i)}: sha256 is ${digest}, not ${sha256[i]}: the file is another one or damaged`,
      );
    }
  }
  meter.report('ready');
}

/**
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource} source
 * @param {number} i number of the file
 * @param {(i: number) => void} onHeader
 * @param {Meter} meter
 * @param {boolean} hashed
 * @returns {Promise<string | undefined>} the sha256 in hex
 */
async function loadFile(core, source, i, onHeader, meter, hashed) {
  const hash = hashed ? await (await import('hash-wasm')).createSHA256() : undefined;
  let header = false;
  let wanted = true;
  for await (const piece of source.chunks()) {
    hash?.update(piece);
    if (wanted) wanted = core.push(piece);
    if (!header && core.parts() > i) {
      header = true;
      onHeader(i);
    }
    meter.add(piece.byteLength);
    if (!wanted && !hash) break;
  }
  return hash?.digest('hex');
}

/**
 * Takes only headers: of the first file, enough for the tokenizer and hyperparameters, or of all, for the tensors.
 * @param {import('./wasm.js').Core} core
 * @param {import('./source.js').ByteSource[]} sources
 * @returns {Promise<void>}
 */
export async function loadHeaders(core, sources) {
  for (const [i, source] of sources.entries()) {
    if (i > 0) core.nextPart(true);
    for await (const piece of source.chunks()) {
      if (!core.push(piece, i + 1) || core.parts() > i) break;
    }
    if (core.parts() <= i) core.finish();
  }
}

/**
 * Whether the files are as long as their headers say. A file of unknown size is not looked at.
 * @param {import('./wasm.js').Core} core with the headers of all files
 * @param {import('./source.js').ByteSource[]} sources
 * @throws {HeadlightError} TRUNCATED, with the first tensor that is not whole
 */
export function checkSizes(core, sources) {
  const cut = core
    .tensors()
    .map(({ name, bytes }, i) => ({ name, bytes, ...core.tensorPlace(i) }))
    .filter(({ part, start, bytes }) => start + bytes > (sources[part].size ?? Infinity))
    .sort((a, b) => a.part - b.part || a.start - b.start);
  if (cut.length === 0) return;
  const [{ name, bytes, part, start }] = cut;
  const { size = 0 } = sources[part];
  throw new HeadlightError(
    'TRUNCATED',
    `${labelOf(sources, part)}: the file is cut short: it has ${size} bytes, and tensor '${name}' takes ${bytes} from byte ${start} on, ` +
      `of which ${Math.max(0, size - start)} are there: download it again`,
  );
}
