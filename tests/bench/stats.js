// Medians and their intervals.

/** @param {number[]} values @returns {number} NaN when there are none */
export function median(values) {
  return quantile(values, 0.5);
}

/**
 * The q-quantile, between two values on the line that joins them.
 * @param {number[]} values @param {number} q 0 to 1 @returns {number}
 */
export function quantile(values, q) {
  if (values.length === 0) return NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const at = q * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

/**
 * Random numbers in [0, 1) that are the same in every run. Source: mulberry32, public domain, by Tommy Ettinger.
 * @param {number} seed
 */
function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), 1 | state);
    z = (z + Math.imul(z ^ (z >>> 7), 61 | z)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * @typedef {object} Estimate
 * @property {number} median
 * @property {number} low
 * @property {number} high
 *
 * The median with its 95 % interval by the percentile bootstrap (Efron 1979).
 * @param {number[]} values @param {number} [resamples] @returns {Estimate}
 */
export function estimate(values, resamples = 4000) {
  const random = randomFrom(1);
  const medians = Array.from({ length: resamples }, () =>
    median(values.map(() => values[Math.floor(random() * values.length)])),
  );
  return { median: median(values), low: quantile(medians, 0.025), high: quantile(medians, 0.975) };
}

/**
 * The median of a[i] / b[i]: rounds that ran side by side are divided, so that what slows both cancels.
 * @param {number[]} a @param {number[]} b @returns {Estimate}
 */
export function estimateRatio(a, b) {
  return estimate(a.slice(0, b.length).map((value, i) => value / b[i]));
}
