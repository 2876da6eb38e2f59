/** Arithmetic of a context's tokens: what two have in common, and what goes when one is full. */

/**
 * Positions at the beginning that always stay: attention rests on them whatever they say.
 * Source: Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks", arXiv 2309.17453.
 */
export const SINKS = 4;

/**
 * @param {Int32Array} a
 * @param {Int32Array} b
 * @param {number} [most]
 * @returns {number} tokens that are the same from the beginning on
 */
export function commonPrefix(a, b, most = Infinity) {
  const end = Math.min(a.length, b.length, most);
  let n = 0;
  while (n < end && a[n] === b[n]) n++;
  return n;
}

/**
 * @param {Int32Array} tokens
 * @param {number} from
 * @param {number} n
 * @returns {Int32Array} without the n tokens from there on
 */
export function without(tokens, from, n) {
  if (n === 0) return tokens.slice();
  const rest = new Int32Array(tokens.length - n);
  rest.set(tokens.subarray(0, from));
  rest.set(tokens.subarray(from + n), from);
  return rest;
}

/**
 * @param {number} length positions that are used
 * @param {number} keep of them, from the beginning on, that stay
 * @returns {number} positions behind those that go: the older half; 0 when nothing can
 */
export function slideBy(length, keep) {
  return Math.max(0, Math.floor((length - keep) / 2));
}

/**
 * @param {number} wanted tokens of the system message
 * @param {number} context positions
 * @returns {number} first positions that stay: so many, SINKS at least, half of the context at most
 */
export function keepOf(wanted, context) {
  return Math.min(Math.max(SINKS, wanted), Math.floor(context / 2));
}

/**
 * What of a prompt goes so that it fits: as much as a full context gives up, or as much as went before, when what is
 * left of the prompt is mostly what the cache holds.
 * @param {Int32Array} prompt
 * @param {Int32Array} held tokens in the cache
 * @param {object} room
 * @param {number} room.context positions
 * @param {number} room.keep first positions that stay
 * @param {number} room.dropped tokens that had to go from behind them before
 * @returns {number} tokens behind the first `keep` that go; 0 when the prompt fits
 */
export function dropOf(prompt, held, { context, keep, dropped }) {
  if (prompt.length <= context) return 0;
  const left = prompt.length - dropped;
  if (left > keep && left <= context) {
    if (2 * commonPrefix(held, without(prompt, keep, dropped)) >= left) return dropped;
  }
  return prompt.length - (context - slideBy(context, keep));
}
