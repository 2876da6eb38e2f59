import { readFileSync } from 'node:fs';
import { Chat } from '../chat.js';
import { checkBias, checkSampler } from '../checks.js';
import { HeadlightError } from '../errors.js';
import { openCore } from '../instance.js';
import { ChatTemplate } from '../template.js';
import { BOS, SPECIAL } from '../wasm.js';
import { oneModel, parseArgs, UsageError } from './args.js';
import { openHeader } from './core.js';
import { checkFields, f32s, readFlag, readFloat, readIds, serveLines } from './json.js';

/** The commands that need no weights. */

/**
 * @param {string[]} argv
 * @param {string} name
 */
async function modelWithJson(argv, name) {
  const { options, rest } = parseArgs(argv, { json: 'flag', pretokenizer: 'text' });
  const model = oneModel(rest, name);
  if (!options.json) throw new UsageError(`${name} reads and writes JSON lines: give --json`);
  return openHeader(model, { pretokenizer: options.pretokenizer });
}

/** @param {string[]} argv */
export async function tokenizeCommand(argv) {
  const core = await modelWithJson(argv, 'tokenize');
  return serveLines((input) => {
    checkFields(input, ['text', 'special', 'bos'], 'tokenize');
    const { text, special, bos } = input;
    if (typeof text !== 'string') throw new HeadlightError('BAD_ARGUMENT', 'tokenize needs "text", a string');
    const flags = (readFlag(special, 'special') ? SPECIAL : 0) | (readFlag(bos, 'bos') ? BOS : 0);
    return { ids: Array.from(core.tokenize(text, flags)) };
  });
}

/** @param {string[]} argv */
export async function detokenizeCommand(argv) {
  const core = await modelWithJson(argv, 'detokenize');
  return serveLines((input) => {
    checkFields(input, ['ids', 'special'], 'detokenize');
    const { ids, special } = input;
    const detokenizer = core.detokenizer(readFlag(special, 'special') ? SPECIAL : 0);
    try {
      let text = '';
      for (const id of readIds(ids, 'ids')) text += detokenizer.push(id);
      return { text: text + detokenizer.flush() };
    } finally {
      detokenizer.free();
    }
  });
}

/**
 * @param {string} path
 * @returns {ChatTemplate}
 * @throws {HeadlightError} NOT_FOUND, TEMPLATE, with the file's name
 */
export function readTemplate(path) {
  let source;
  try {
    source = readFileSync(path, 'utf8');
  } catch (cause) {
    const why = /** @type {any} */ (cause).code;
    throw new HeadlightError('NOT_FOUND', `${path}: the template cannot be read (${why})`, { cause });
  }
  return new ChatTemplate(source, path);
}

/** @param {string[]} argv */
export async function templateCommand(argv) {
  const { options, rest } = parseArgs(argv, { json: 'flag', template: 'text', pretokenizer: 'text' });
  if (!options.json) throw new UsageError('template reads and writes JSON lines: give --json');
  /** @type {Record<string, unknown>} */
  const known = {};
  let template;
  if (options.template !== undefined) {
    if (rest.length > 0) throw new UsageError('template takes a MODEL or --template FILE, not both');
    template = readTemplate(options.template);
  } else {
    const core = await openHeader(oneModel(rest, 'template'), { pretokenizer: options.pretokenizer });
    const chat = new Chat(core, undefined);
    if (chat.warning) process.stderr.write(`${chat.warning}\n`);
    template = await chat.template();
    const { bos, eos } = core.info();
    if (bos >= 0) known.bos_token = core.tokenText(bos);
    if (eos >= 0) known.eos_token = core.tokenText(eos);
  }
  return serveLines((variables) => ({ text: template.render({ ...known, ...variables }) }));
}

/** Names of sampling parameters on the command line, and the values that switch them off. @type {Record<string, [string, number]>} */
const PARAMS = {
  temperature: ['temperature', 1],
  top_k: ['topK', 0],
  top_p: ['topP', 1],
  min_p: ['minP', 0],
  typical_p: ['typicalP', 1],
  repeat_penalty: ['repeatPenalty', 1],
  repeat_last_n: ['repeatLastN', -1],
  frequency_penalty: ['frequencyPenalty', 0],
  presence_penalty: ['presencePenalty', 0],
};

/**
 * @param {any} given
 * @param {number} nVocab
 * @returns {import('../types.js').SamplerParams}
 */
function readParams(given, nVocab) {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    throw new HeadlightError('BAD_ARGUMENT', 'params must be an object');
  }
  const odd = Object.keys(given).find(
    (name) => !(name in PARAMS) && name !== 'seed' && name !== 'logit_bias',
  );
  if (odd !== undefined) {
    const known = [...Object.keys(PARAMS), 'logit_bias', 'seed'].join(', ');
    throw new HeadlightError('BAD_ARGUMENT', `params: unknown "${odd}"; there are ${known}`);
  }
  /** @type {any} */
  const params = { seed: given.seed ?? crypto.getRandomValues(new Uint32Array(1))[0], logitBias: {} };
  for (const [name, [field, off]] of Object.entries(PARAMS))
    params[field] = readFloat(given[name] ?? off, name);
  const bias = given.logit_bias ?? {};
  if (typeof bias !== 'object' || Array.isArray(bias)) checkBias(bias, nVocab, 'logit_bias');
  for (const [id, value] of Object.entries(bias)) params.logitBias[id] = readFloat(value, 'logit_bias');
  checkSampler(params, nVocab, (name) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`));
  return params;
}

const SAMPLE_INPUTS = ['logits', 'params', 'history', 'draws'];

/** @param {string[]} argv */
export async function sampleCommand(argv) {
  const { options, rest } = parseArgs(argv, { json: 'flag' });
  if (rest.length > 0) throw new UsageError('sample takes no MODEL');
  if (!options.json) throw new UsageError('sample reads and writes JSON lines: give --json');
  const core = await openCore({ variant: 'single' });
  return serveLines((input) => {
    checkFields(input, SAMPLE_INPUTS, 'sample');
    const { logits, params = {}, history = [], draws = 0 } = input;
    if (!Array.isArray(logits) || logits.length === 0) {
      throw new HeadlightError('BAD_ARGUMENT', 'sample needs "logits", a list with at least one number');
    }
    if (!Number.isInteger(draws) || draws < 0) {
      throw new HeadlightError('BAD_ARGUMENT', 'draws must be a whole number, 0 or more');
    }
    const sampler = core.sampler(readParams(params, logits.length), logits.length);
    try {
      for (const id of readIds(history, 'history')) sampler.accept(id);
      const values = Float32Array.from(logits, (x) => readFloat(x, 'logits'));
      const { probs, tokens } = sampler.distribution(values, draws);
      return { probs: f32s(probs), tokens };
    } finally {
      sampler.free();
    }
  });
}
