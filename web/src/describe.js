import { buildId } from '../dist/build-id.js';
import { shapeOf } from './loader.js';

/**
 * The block type that holds most of the weights.
 * @param {import('./wasm.js').Core} core
 */
function quantizationOf(core) {
  /** @type {Map<string, number>} */
  const bytes = new Map();
  for (const t of core.tensors()) bytes.set(t.type, (bytes.get(t.type) ?? 0) + t.bytes);
  return [...bytes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 'none';
}

/**
 * @param {import('./wasm.js').Core} core with a header
 * @param {import('./chat.js').Chat} chat
 * @param {{ context: number, kv: any, precision: any, variant: any, threads: number, reasons: string[] }} chosen
 * @returns {import('./types.js').ModelInfo}
 */
export function describeModel(core, chat, chosen) {
  const info = core.info();
  const text = (/** @type {string} */ key) => {
    const value = core.meta(key);
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const warnings = [...chosen.reasons];
  if (chat.warning) warnings.push(chat.warning);
  return {
    name: text('general.name') ?? text('general.basename') ?? core.architecture(),
    architecture: core.architecture(),
    parameters: info.nParams,
    layers: info.nLayer,
    heads: info.nHead,
    kvHeads: info.nHeadKv,
    kind: core.kind(),
    embedding: info.nEmbd,
    feedForward: info.nFf,
    vocabulary: info.nVocab,
    context: chosen.context,
    trainedContext: info.nCtxTrain,
    shape: shapeOf(info),
    quantization: quantizationOf(core),
    licence: text('general.license'),
    fileBytes: info.fileBytes,
    packedBytes: info.packedBytes,
    tokens: { bos: info.bos, eos: info.eos, eot: info.eot },
    template: chat.from,
    kv: chosen.kv,
    precision: chosen.precision,
    variant: chosen.variant,
    threads: chosen.threads,
    buildId,
    warnings,
  };
}
