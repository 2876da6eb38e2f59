import { kvPlan } from 'headlight-wasm';

/**
 * @typedef {import('./types.js').CachePlan} CachePlan
 * @typedef {import('./types.js').CacheLine} CacheLine
 * @typedef {import('headlight-wasm').KvShape} KvShape
 * @typedef {import('headlight-wasm').KvType} KvType
 */

const SIZES = { f32: '4 bytes', f16: '2 bytes', q8_0: '34/32 bytes' };

/**
 * The formula of a model's cache, and what the same model would take with other kinds of attention.
 * @param {Pick<import('headlight-wasm').ModelInfo, 'kind' | 'layers' | 'heads' | 'kvHeads' | 'shape'>} info
 * @param {KvType} type
 * @returns {CachePlan}
 */
export function planOf({ kind, layers, heads, kvHeads, shape }, type) {
  const name = (/** @type {number} */ n) => `${n === heads ? 'MHA' : n === 1 ? 'MQA' : 'GQA'} ${heads}:${n}`;
  if (kind === 'MLA') {
    const { rank, ropeDim, keyDim, valueDim } = shape;
    const expanded = { layers, kvHeads: heads, keyDim, valueDim };
    const formula = `${layers} layers × (${rank} + ${ropeDim}) × ${SIZES[type]}`;
    const shapes = [
      lineOf(kind, shape, type, true),
      lineOf(`${name(heads)}, expanded`, expanded, type, false),
    ];
    return { kind, formula, shapes };
  }
  const shapes = [...new Set([heads, kvHeads, 1])].map((n) =>
    lineOf(name(n), { ...shape, kvHeads: n }, type, n === kvHeads),
  );
  if (shape.window) {
    const whole = { ...shape, window: undefined, windowed: undefined };
    shapes.push(lineOf(`${name(kvHeads)}, no window`, whole, type, false));
  }
  return { kind, formula: formulaOf(shape, type), shapes };
}

/**
 * @param {string} kind
 * @param {KvShape} shape
 * @param {KvType} type
 * @param {boolean} own
 * @returns {CacheLine}
 */
function lineOf(kind, shape, type, own) {
  const { bytesPerToken } = kvPlan(shape, 1, type);
  const window = shape.window ?? 0;
  if (window === 0) return { kind, own, bytesPerToken, laterBytesPerToken: bytesPerToken, window };
  const laterBytesPerToken = kvPlan(shape, window + 1, type).bytes - kvPlan(shape, window, type).bytes;
  return { kind, own, bytesPerToken, laterBytesPerToken, window };
}

/**
 * @param {KvShape} shape without a latent
 * @param {KvType} type
 * @returns {string}
 */
function formulaOf({ layers, kvHeads, keyDim, window, windowed }, type) {
  const local = window ? (windowed ? windowed.filter(Boolean).length : layers) : 0;
  const grows = local < layers ? [`${layers - local} layers × n`] : [];
  const rows = window
    ? `(${[...grows, `${local} layers × min(n, ${window})`].join(' + ')})`
    : `${layers} layers`;
  return `2 × ${rows} × ${kvHeads} KV heads × ${keyDim} × ${SIZES[type]}`;
}

/**
 * Bytes of a cache with so many positions: all layers grow until the window is full, then those without one.
 * @param {CacheLine} line
 * @param {number} positions
 * @returns {number}
 */
export function bytesAt({ bytesPerToken, laterBytesPerToken, window }, positions) {
  const early = window > 0 ? Math.min(positions, window) : positions;
  return early * bytesPerToken + (positions - early) * laterBytesPerToken;
}

/**
 * @param {CachePlan} plan
 * @returns {CacheLine} of the model as it is
 */
export function ownLine(plan) {
  return plan.shapes.find((line) => line.own) ?? plan.shapes[0];
}
