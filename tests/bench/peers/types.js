/**
 * What the bench asks of an engine, the same in a page and in a Node process. Times are milliseconds.
 *
 * @typedef {object} OpenOptions
 * @property {string | Blob} model URL or Blob in a page, path in Node
 * @property {number} threads
 * @property {number} context positions
 * @property {Record<string, any>} settings the engine's own
 * @property {string} [sha256] of the file, for engines that check it
 *
 * @typedef {object} RunOptions
 * @property {number[]} ids the prompt, which is the whole context
 * @property {string} text the same, for engines that take no ids
 * @property {number} tokens to make, end-of-text ignored
 * @property {boolean} [reuse] keep what is cached of the prompt from the run before
 * @property {number} [limitMs] stop making tokens when so much time has passed since the first
 *
 * @typedef {object} Timing
 * @property {number} evaluated prompt tokens that were evaluated, without the cached ones
 * @property {number} promptMs from the request to the first new token
 * @property {number} decoded tokens made after the first
 * @property {number} decodeMs from the first new token to the last
 * @property {number[] | undefined} tokens made, where the engine tells their ids
 *
 * @typedef {object} Engine
 * @property {(options: OpenOptions) => Promise<Record<string, unknown>>} open resolves with what the engine says of itself
 * @property {(text: string) => Promise<number[]>} [tokenize] control markers are text
 * @property {(options: RunOptions) => Promise<Timing>} run
 * @property {() => Promise<Record<string, number>>} [memory] bytes
 * @property {(layer: number | null) => Promise<void>} [watch] attention of a layer in the runs to come; null: off
 * @property {() => Promise<void>} close
 */

/**
 * Times tokens as they come: `tick` at each, `timing` at the end.
 * @param {number} [limitMs]
 */
export function stopwatch(limitMs = Infinity) {
  const start = performance.now();
  let [first, last, count] = [0, 0, 0];
  return {
    /** @returns {boolean} whether to go on */
    tick() {
      last = performance.now();
      if (count++ === 0) first = last;
      return last - first < limitMs;
    },
    /**
     * @param {number} evaluated @param {number[]} [tokens] @param {number} [made] where tokens did not come one by one
     * @returns {Timing}
     */
    timing(evaluated, tokens, made = count) {
      return { evaluated, promptMs: first - start, decoded: made - 1, decodeMs: last - first, tokens };
    },
  };
}

/** Positions that two contexts have in common from the start.
 * @param {number[]} a @param {number[]} b @returns {number} */
export function commonPrefix(a, b) {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}
