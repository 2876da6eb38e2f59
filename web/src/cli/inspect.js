import { quantizationOf } from '../describe.js';
import { oneModel, parseArgs } from './args.js';
import { cacheFacts, cacheLines, KV_TYPES } from './cache-facts.js';
import { openHeader } from './core.js';
import { write } from './json.js';

/** Elements of an array that are shown. */
const SHOWN = 8;

/**
 * @param {import('../wasm.js').Core} core
 * @returns {Record<string, any>}
 */
function metadata(core) {
  /** @type {Record<string, any>} */
  const out = {};
  for (let i = 0; i < core.metaCount(); i++) {
    const length = core.metaLength(i);
    const shown = Array.from({ length: Math.min(length < 0 ? 1 : length, SHOWN) }, (_, j) =>
      core.metaValue(i, j),
    );
    out[core.metaKey(i)] = length < 0 ? shown[0] : length <= SHOWN ? shown : { length, first: shown };
  }
  return out;
}

/** Positions of the cache that is shown where a file does not say for how many it was made. */
const POSITIONS = 4096;

/**
 * @param {import('../wasm.js').Core} core
 * @param {number | undefined} positions of the cache; default the model's
 * @returns {Record<string, any>}
 */
function facts(core, positions) {
  const info = core.info();
  // A vocabulary has no layers.
  const cache = info.nLayer > 0 ? cacheFacts(info, positions ?? (info.nCtxTrain || POSITIONS)) : null;
  return {
    architecture: core.architecture(),
    kind: info.nLayer > 0 ? core.kind() : null,
    hyperparameters: {
      n_layer: info.nLayer,
      n_head: info.nHead,
      n_head_kv: info.nHeadKv,
      n_embd: info.nEmbd,
      n_ff: info.nFf,
      n_vocab: info.nVocab,
      n_ctx_train: info.nCtxTrain,
      d_head_k: info.dHeadK,
      d_head_v: info.dHeadV,
      kv_lora_rank: info.kvLoraRank,
      d_rope: info.dRope,
      n_expert: info.nExpert,
      n_expert_used: info.nExpertUsed,
      sliding_window: info.slidingWindow,
    },
    tokens: { bos: info.bos, eos: info.eos, eot: info.eot, unk: info.unk, pad: info.pad },
    quantization: quantizationOf(core),
    parameters: info.nParams,
    files: info.nParts,
    file_bytes: info.fileBytes,
    packed_bytes: info.packedBytes,
    cache_bytes_per_token: Object.fromEntries(
      KV_TYPES.map((type) => [type, cache ? (cache.kinds[0][type]?.bytes_per_token ?? null) : 0]),
    ),
    cache,
  };
}

/** @param {number} n */
const mb = (n) => `${(n / 1e6).toFixed(1)} MB`;

/**
 * @param {Record<string, any>} all
 * @returns {string}
 */
function asText(all) {
  const isModel = all.kind !== null;
  const lines = [
    `architecture  ${all.architecture || 'none'}${isModel ? `, ${all.kind}` : ': tokens only, no model that runs'}`,
    `quantization  ${all.quantization}`,
    `parameters    ${(all.parameters / 1e6).toFixed(1)} M`,
    `file          ${mb(all.file_bytes)}${all.files > 1 ? ` in ${all.files} parts` : ''}`,
    `packed        ${mb(all.packed_bytes)} in memory`,
    '',
    ...(all.cache ? [...cacheLines(all.cache), ''] : []),
    ...(isModel ? Object.entries(all.hyperparameters).map(([k, v]) => `${k.padEnd(14)} ${v}`) : []),
    '',
    ...Object.entries(all.metadata).map(([k, v]) => `${k} = ${cut(JSON.stringify(v))}`),
    '',
    ...all.tensors.map(
      (/** @type {any} */ t) =>
        `${t.name.padEnd(36)} ${t.type.padEnd(6)} [${t.dims.join(', ')}]  ${t.bytes} bytes`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

/** @param {string} text */
const cut = (text) => (text.length > 200 ? `${text.slice(0, 200)}..` : text);

/**
 * headlight inspect
 * @param {string[]} argv
 * @returns {Promise<number>} exit code
 */
export async function inspectCommand(argv) {
  const { options, rest } = parseArgs(argv, {
    json: 'flag',
    check: 'flag',
    ctx: 'size',
    pretokenizer: 'text',
  });
  const { check, pretokenizer } = options;
  const core = await openHeader(oneModel(rest, 'inspect'), { all: true, check, pretokenizer });
  const all = { ...facts(core, options.ctx), metadata: metadata(core), tensors: core.tensors() };
  await write(options.json ? `${JSON.stringify(all)}\n` : asText(all));
  return 0;
}
