import { INT32_MAX } from '../checks.js';

/** Wrong usage of the command line: exit code 2. */
export class UsageError extends Error {}

/**
 * count is a whole number that the core takes, size one that is not 0, seed one of 32 bits.
 * @typedef {'flag' | 'text' | 'number' | 'count' | 'size' | 'seed'} Kind
 * @typedef {Record<string, Kind>} Spec options of a command, by name without dashes
 */

/**
 * @param {string} name
 * @param {Kind} kind
 * @param {string} text
 */
function valueOf(name, kind, text) {
  if (kind === 'text') return text;
  const value = Number(text);
  if (text.trim() === '' || Number.isNaN(value))
    throw new UsageError(`--${name} needs a number, not "${text}"`);
  if (kind !== 'number' && (!Number.isInteger(value) || value < 0)) {
    throw new UsageError(`--${name} needs a whole number, 0 or more, not "${text}"`);
  }
  if (kind === 'size' && value === 0) throw new UsageError(`--${name} is at least 1`);
  const max = kind === 'seed' ? 2 ** 32 - 1 : INT32_MAX;
  if (kind !== 'number' && value > max) throw new UsageError(`--${name} is at most ${max}, not ${text}`);
  return value;
}

/**
 * @param {string[]} argv after the command
 * @param {Spec} spec
 * @returns {{ options: Record<string, any>, rest: string[] }} options by name; what is no option
 * @throws {UsageError}
 */
export function parseArgs(argv, spec) {
  /** @type {Record<string, any>} */
  const options = {};
  /** @type {string[]} */
  const rest = [];
  for (let i = 0; i < argv.length; i++) {
    const arg = argv[i];
    if (!arg.startsWith('--') || arg === '--') {
      if (arg !== '--') rest.push(arg);
      continue;
    }
    const [name, inline] = splitOnce(arg.slice(2));
    const kind = spec[name];
    if (!kind) {
      const known = Object.keys(spec).map((n) => `--${n}`);
      throw new UsageError(`unknown option --${name}; there are ${known.join(' ') || 'none'}`);
    }
    if (kind === 'flag') {
      if (inline !== undefined) throw new UsageError(`--${name} takes no value`);
      options[name] = true;
      continue;
    }
    const text = inline ?? argv[++i];
    if (text === undefined) throw new UsageError(`--${name} needs a value`);
    options[name] = valueOf(name, kind, text);
  }
  return { options, rest };
}

/** @param {string} text @returns {[string, string | undefined]} */
function splitOnce(text) {
  const at = text.indexOf('=');
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/**
 * @param {string | undefined} value of an option
 * @param {readonly string[]} known
 * @param {string} name of the option
 * @throws {UsageError}
 */
export function checkChoice(value, known, name) {
  if (value !== undefined && !known.includes(value)) {
    throw new UsageError(`--${name} is one of ${known.join(', ')}, not "${value}"`);
  }
}

/**
 * @param {string[]} rest
 * @param {string} name of the command
 * @returns {string} the one MODEL argument
 */
export function oneModel(rest, name) {
  if (rest.length !== 1) {
    const what = rest.length === 0 ? 'needs a MODEL' : `takes one MODEL, not ${rest.length} arguments`;
    throw new UsageError(`${name} ${what}: a path, a URL, or a name of models/manifest.json`);
  }
  return rest[0];
}
