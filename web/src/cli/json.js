import { createInterface } from 'node:readline';
import { HeadlightError, toPlain } from '../errors.js';

/**
 * Reads one JSON object a line from stdin and writes one a line to stdout, in order. A line that fails answers
 * { error: { code, message } }, and the next goes on.
 * @param {(input: any) => any} answer
 * @returns {Promise<number>} exit code
 */
export async function serveLines(answer) {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    let out;
    try {
      out = await answer(readObject(line));
    } catch (error) {
      const { code, message } = toPlain(error);
      out = { error: { code, message } };
    }
    await write(`${JSON.stringify(out)}\n`);
  }
  return 0;
}

/** @param {string} line */
function readObject(line) {
  let input;
  try {
    input = JSON.parse(line);
  } catch (cause) {
    throw new HeadlightError('BAD_ARGUMENT', `the line is no JSON: ${/** @type {Error} */ (cause).message}`);
  }
  if (input === null || typeof input !== 'object' || Array.isArray(input)) {
    throw new HeadlightError('BAD_ARGUMENT', 'the line must be a JSON object');
  }
  return input;
}

/**
 * Refuses fields that do not exist, by name: a typing mistake is not ignored.
 * @param {object} input a line
 * @param {readonly string[]} known
 * @param {string} command
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkFields(input, known, command) {
  const odd = Object.keys(input).find((name) => !known.includes(name));
  if (odd === undefined) return;
  throw new HeadlightError('BAD_ARGUMENT', `${command}: unknown "${odd}"; there are ${known.join(', ')}`);
}

/**
 * @param {unknown} value of a field
 * @param {string} name
 * @returns {boolean} false where the field is not given
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function readFlag(value, name) {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw new HeadlightError('BAD_ARGUMENT', `${name} is true or false, not ${JSON.stringify(value)}`);
}

/**
 * Waits while stdout takes no more.
 * @param {string} text
 * @returns {Promise<void>}
 */
export function write(text) {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/**
 * A float32 with as few digits as bring it back, and what JSON has no number for as text.
 * @param {number} x
 * @returns {number | string}
 */
export function f32(x) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'nan' : x > 0 ? 'inf' : '-inf';
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(x.toPrecision(digits));
    if (Math.fround(short) === x) return short;
  }
  return Number(x.toPrecision(9));
}

/**
 * @param {ArrayLike<number>} floats
 * @returns {(number | string)[]}
 */
export function f32s(floats) {
  return Array.from(floats, f32);
}

/**
 * @param {unknown} value a number, or "inf", "-inf", "nan"
 * @param {string} name for the message
 * @returns {number}
 */
export function readFloat(value, name) {
  if (typeof value === 'number') return value;
  const text = typeof value === 'string' ? value.toLowerCase() : '';
  if (text === 'inf' || text === '+inf' || text === 'infinity') return Infinity;
  if (text === '-inf' || text === '-infinity') return -Infinity;
  if (text === 'nan') return NaN;
  throw new HeadlightError('BAD_ARGUMENT', `${name}: ${JSON.stringify(value)} is no number`);
}

/**
 * @param {unknown} ids
 * @param {string} name
 * @returns {Int32Array}
 */
export function readIds(ids, name) {
  if (!Array.isArray(ids) || ids.some((id) => !Number.isInteger(id) || Math.abs(id) >= 2 ** 31)) {
    throw new HeadlightError('BAD_ARGUMENT', `${name} must be a list of whole numbers`);
  }
  return Int32Array.from(ids);
}
