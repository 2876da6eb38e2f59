import { buildId } from '../dist/build-id.js';
import { shapeOf } from './loader.js';
import { contextWarnings } from './warnings.js';

/**
 * general.file_type, by its number: a recipe that mixes block types, which llama-quantize is told by this name. Numbers
 * that are not here were given up. Source: the GGUF specification, and llama.cpp's llama_ftype for those from 19 on.
 * @type {Record<number, string>}
 */
const FILE_TYPES = Object.fromEntries(
  Object.entries({
    0: 'F32 F16 Q4_0 Q4_1 Q4_1_SOME_F16',
    7: 'Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K',
    19: 'IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16',
    36: 'TQ1_0 TQ2_0 MXFP4_MOE NVFP4',
  }).flatMap(([first, names]) => names.split(' ').map((name, i) => [Number(first) + i, name])),
);

/**
 * What the file says of itself; else the block type that holds most of the weights.
 * @param {import('./wasm.js').Core} core with the headers of all files
 * @returns {string} 'none' where there are no tensors
 */
export function quantizationOf(core) {
  /** @type {Map<string, number>} */
  const bytes = new Map();
  for (const t of core.tensors()) bytes.set(t.type, (bytes.get(t.type) ?? 0) + t.bytes);
  const [most] = [...bytes].sort((a, b) => b[1] - a[1]);
  if (!most) return 'none';
  const fileType = core.meta('general.file_type');
  return (typeof fileType === 'number' ? FILE_TYPES[fileType] : undefined) ?? most[0];
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
  const warnings = [...chosen.reasons, ...contextWarnings(chosen.context, info.nCtxTrain)];
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
