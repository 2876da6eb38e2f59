import { HeadlightError } from './errors.js';

/** Numbers from outside: none wraps on its way into the core. */

export const INT32_MAX = 2 ** 31 - 1;
/** Positions of a session at most, as hl_session_new has it. */
export const MAX_CONTEXT = 2 ** 24;
/** Levels of a message or variable: more is a mistake, and templates have no use for it. */
const MAX_DEPTH = 100;

/**
 * @param {unknown} signal
 * @param {string} where the call, for the message
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkSignal(signal, where) {
  if (signal === undefined) return;
  const { aborted, addEventListener } = Object(signal);
  if (typeof aborted === 'boolean' && typeof addEventListener === 'function') return;
  throw new HeadlightError('BAD_ARGUMENT', `${where}: signal must be an AbortSignal`);
}

/**
 * Data as JSON has it: what a template can read.
 * @param {unknown} value
 * @param {string} name for the message
 * @param {number} [depth] levels above it
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkPlain(value, name, depth = 0) {
  if (value === null || ['string', 'number', 'boolean', 'undefined'].includes(typeof value)) return;
  if (depth >= MAX_DEPTH) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `${name} goes on for more than ${MAX_DEPTH} levels: is it in itself?`,
    );
  }
  if (Array.isArray(value)) {
    value.forEach((element, i) => checkPlain(element, depth < 3 ? `${name}[${i}]` : name, depth + 1));
    return;
  }
  if (typeof value !== 'object' || ![Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    const what = typeof value === 'object' ? value.constructor?.name : typeof value;
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `${name} is of type ${what}: give text, numbers, lists and plain objects`,
    );
  }
  for (const [key, inner] of Object.entries(value))
    checkPlain(inner, depth < 3 ? `${name}.${key}` : name, depth + 1);
}

/**
 * @param {unknown} value
 * @param {string} name for the message
 * @param {number} min
 * @param {number} max
 * @returns {asserts value is number}
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkInteger(value, name, min, max) {
  if (Number.isInteger(value) && Number(value) >= min && Number(value) <= max) return;
  throw new HeadlightError(
    'BAD_ARGUMENT',
    `${name} is ${show(value)}, must be a whole number from ${min} to ${max}`,
  );
}

/**
 * @param {unknown} value
 * @param {string} name for the message
 * @param {number} min
 * @param {number} [max] none: any finite number from min on
 */
function checkNumber(value, name, min, max = Infinity) {
  if (typeof value === 'number' && Number.isFinite(value) && value >= min && value <= max) return;
  const lower = min === -Infinity ? '' : max === Infinity ? `, ${min} or more` : ` from ${min} to ${max}`;
  throw new HeadlightError('BAD_ARGUMENT', `${name} is ${show(value)}, must be a number${lower}`);
}

/** @param {unknown} value */
function show(value) {
  return typeof value === 'string' ? JSON.stringify(value) : Array.isArray(value) ? 'a list' : String(value);
}

/**
 * @param {import('./types.js').SamplerParams} p
 * @param {number} nVocab logits there are
 * @param {(name: string) => string} [nameOf] a parameter's name where the caller is
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkSampler(p, nVocab, nameOf = (name) => name) {
  checkNumber(p.temperature, nameOf('temperature'), 0);
  for (const name of /** @type {const} */ (['topP', 'typicalP'])) checkNumber(p[name], nameOf(name), 0, 1);
  // Above 1 it leaves the best token.
  checkNumber(p.minP, nameOf('minP'), 0);
  checkNumber(p.repeatPenalty, nameOf('repeatPenalty'), 0);
  checkNumber(p.frequencyPenalty, nameOf('frequencyPenalty'), -Infinity);
  checkNumber(p.presencePenalty, nameOf('presencePenalty'), -Infinity);
  checkInteger(p.topK, nameOf('topK'), -1, INT32_MAX);
  checkInteger(p.repeatLastN, nameOf('repeatLastN'), -1, INT32_MAX);
  checkInteger(p.seed, nameOf('seed'), 0, 2 ** 32 - 1);
  checkBias(p.logitBias, nVocab, nameOf('logitBias'));
}

/**
 * @param {unknown} bias
 * @param {number} nVocab
 * @param {string} name
 */
export function checkBias(bias, nVocab, name) {
  const proto = bias !== null && typeof bias === 'object' ? Object.getPrototypeOf(bias) : undefined;
  if (proto !== null && proto?.constructor?.name !== 'Object') {
    throw new HeadlightError('BAD_ARGUMENT', `${name} must be an object { token id: number }`);
  }
  for (const [id, value] of Object.entries(/** @type {object} */ (bias))) {
    if (!/^(0|[1-9]\d*)$/.test(id) || Number(id) >= nVocab) {
      throw new HeadlightError(
        'BAD_ARGUMENT',
        `${name}: "${id}" is no token id; there are 0 to ${nVocab - 1}`,
      );
    }
    if (value !== -Infinity) checkNumber(value, `${name} of token ${id}`, -Infinity);
  }
}
