import { checkInteger, INT32_MAX } from './checks.js';
import { checkOptions, HeadlightError } from './errors.js';

/** Positions that the cache takes at a time, for each layer. */
export const BLOCK_POSITIONS = 64;

/** More than any model has. */
const MAX_LAYERS = 4096;

const SIZES = /** @type {const} */ (['layers', 'kvHeads', 'keyDim', 'valueDim', 'rank', 'ropeDim', 'window']);

/**
 * Bytes of one cached row of n values.
 * @param {number} n
 * @param {import('./types.js').KvType} type
 * @returns {number}
 */
function rowBytes(n, type) {
  if (type === 'f32') return 4 * n;
  if (type === 'f16') return 2 * n;
  if (n % 32 !== 0) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `q8_0 caches rows in blocks of 32 values, and a row here has ${n}: take f16 or f32`,
    );
  }
  return (n / 32) * 34;
}

/**
 * Bytes of one position in one layer: keys and values of every cached head; for MLA the latent and the rope part, once.
 * @param {import('./types.js').KvShape} shape
 * @param {import('./types.js').KvType} type
 * @returns {number}
 */
function positionBytes(shape, type) {
  if (shape.rank) {
    const rope = shape.ropeDim ?? 0;
    if (type === 'q8_0') return rowBytes(shape.rank, type) + 2 * rope;
    return rowBytes(shape.rank + rope, type);
  }
  const { kvHeads, keyDim } = shape;
  return kvHeads * (rowBytes(keyDim, type) + rowBytes(shape.valueDim ?? keyDim, type));
}

/**
 * @param {import('./types.js').KvShape} shape
 * @throws {HeadlightError} BAD_ARGUMENT
 */
function checkShape(shape) {
  checkOptions(shape ?? null, [...SIZES, 'windowed'], 'kvPlan: shape');
  for (const name of SIZES) {
    const needed = name === 'layers' || (!shape.rank && (name === 'kvHeads' || name === 'keyDim'));
    const most = name === 'layers' ? MAX_LAYERS : INT32_MAX;
    if (needed || shape[name] !== undefined) checkInteger(shape[name], `kvPlan: ${name}`, 0, most);
  }
  const { windowed, layers } = shape;
  if (windowed === undefined) return;
  if (
    !Array.isArray(windowed) ||
    windowed.some((w) => typeof w !== 'boolean') ||
    windowed.length !== layers
  ) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `kvPlan: windowed must be a list of true or false, one for each of ${layers} layers`,
    );
  }
}

/**
 * What a KV cache takes: rows in use, without the rounding up to blocks.
 * A layer with a window holds min(positions, window) rows.
 * @param {import('./types.js').KvShape} shape
 * @param {number} positions
 * @param {import('./types.js').KvType} [type] default f16
 * @returns {{ bytesPerToken: number, bytes: number, perLayer: number[] }} bytes; bytesPerToken is one more position in
 *   every layer, before any window is full
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function kvPlan(shape, positions, type = 'f16') {
  if (!['f32', 'f16', 'q8_0'].includes(type)) {
    throw new HeadlightError('BAD_ARGUMENT', `kvPlan: type is "${type}"; there are f32, f16, q8_0`);
  }
  if (!Number.isInteger(positions) || positions < 0) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `kvPlan: positions is ${positions}, must be a whole number, 0 or more`,
    );
  }
  checkShape(shape);
  const row = positionBytes(shape, type);
  const perLayer = Array.from({ length: shape.layers }, (_, layer) => {
    const windowed = shape.window && (shape.windowed?.[layer] ?? true);
    return row * (windowed ? Math.min(positions, /** @type {number} */ (shape.window)) : positions);
  });
  return { bytesPerToken: row * shape.layers, bytes: perLayer.reduce((a, b) => a + b, 0), perLayer };
}
