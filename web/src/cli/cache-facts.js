import { shapeOf } from '../loader.js';
import { kvPlan } from '../plan.js';

/** @typedef {import('../types.js').KvShape} KvShape */
/** @typedef {import('../types.js').KvType} KvType */
/** @typedef {{ bytes_per_token: number, bytes: number }} Bytes of one more position in all layers, and in all */
/** @typedef {{ kind: string, own: boolean } & Record<KvType, Bytes | null>} KindFacts null: the type is refused */

/** Cache types, in the order they are shown. @type {readonly KvType[]} */
export const KV_TYPES = ['f32', 'f16', 'q8_0'];

/**
 * The model's own cache first, then what the same model would take with other kinds of attention.
 * @param {import('../wasm.js').CoreInfo} info
 * @returns {{ kind: string, shape: KvShape }[]}
 */
function kindsOf(info) {
  const shape = shapeOf(info);
  const { nHead, nHeadKv, dHeadK, dHeadV } = info;
  const heads = (/** @type {number} */ n) => `${n === nHead ? 'MHA' : n === 1 ? 'MQA' : 'GQA'} ${nHead}:${n}`;
  if (shape.rank) {
    const expanded = { layers: shape.layers, kvHeads: nHead, keyDim: dHeadK, valueDim: dHeadV };
    return [
      { kind: `MLA ${shape.rank} + ${shape.ropeDim}`, shape },
      { kind: heads(nHead), shape: expanded },
    ];
  }
  const kinds = [...new Set([nHeadKv, nHead, 1])].map((n) => ({
    kind: heads(n),
    shape: { ...shape, kvHeads: n },
  }));
  if (!shape.window) return kinds;
  const whole = { kind: `${heads(nHeadKv)} without windows`, shape: { ...shape, window: undefined } };
  return [kinds[0], whole, ...kinds.slice(1)];
}

/**
 * @param {KvShape} shape
 * @param {number} positions
 * @param {KvType} type
 * @returns {Bytes | null} null where the type is refused
 */
function bytesOf(shape, positions, type) {
  try {
    const { bytesPerToken, bytes } = kvPlan(shape, positions, type);
    return { bytes_per_token: bytesPerToken, bytes };
  } catch {
    return null;
  }
}

/**
 * What a cache of this model takes, by the formula.
 * @param {import('../wasm.js').CoreInfo} info of a model with layers
 * @param {number} positions
 * @returns {{ positions: number, window: number, windowed_layers: number, kinds: KindFacts[] }} the first kind is its own
 */
export function cacheFacts(info, positions) {
  const kinds = kindsOf(info).map(({ kind, shape }, i) => {
    const [f32, f16, q8_0] = KV_TYPES.map((type) => bytesOf(shape, positions, type));
    return { kind, own: i === 0, f32, f16, q8_0 };
  });
  const windowed = info.windowed?.filter(Boolean).length ?? 0;
  return { positions, window: info.slidingWindow, windowed_layers: windowed, kinds };
}

/** @param {Bytes | null} bytes */
const cell = (bytes) =>
  bytes ? `${bytes.bytes_per_token} B, ${(bytes.bytes / 1e6).toFixed(1)} MB` : 'refused';

/**
 * @param {ReturnType<typeof cacheFacts>} cache
 * @returns {string[]} lines
 */
export function cacheLines({ positions, window, windowed_layers, kinds }) {
  const windows = window > 0 ? `; ${windowed_layers} layers keep the last ${window}` : '';
  const width = Math.max(...kinds.map(({ kind }) => kind.length)) + 2;
  const row = (/** @type {string} */ name, /** @type {string[]} */ cells) =>
    `  ${name.padEnd(width)}${cells.map((c) => c.padEnd(24)).join('')}`.trimEnd();
  const refused = kinds[0].q8_0
    ? []
    : ['  q8_0 is refused: it groups 32 values of a head (of the latent, for MLA)'];
  return [
    `cache: bytes a token, and in all at ${positions} positions${windows}`,
    row('', [...KV_TYPES]),
    ...kinds.map((k) =>
      row(
        k.kind,
        KV_TYPES.map((type) => cell(k[type])),
      ),
    ),
    ...refused,
  ];
}
