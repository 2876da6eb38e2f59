const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/**
 * @param {number} n  bytes
 * @returns {string}  SI units, three figures: "98.4 MB"
 */
export function bytes(n) {
  let unit = 0;
  let value = n;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/**
 * @param {number} n
 * @returns {string} with commas between thousands
 */
export function count(n) {
  return Math.round(n).toLocaleString('en-US');
}

/**
 * @param {number} n  seconds
 * @returns {string}  "40 s", "3 min 20 s"
 */
export function seconds(n) {
  const whole = Math.max(0, Math.ceil(n));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/**
 * @param {number} n  tokens per second
 * @returns {string}
 */
export function rate(n) {
  if (!Number.isFinite(n) || n <= 0) return '–';
  return n < 10 ? n.toFixed(1) : count(n);
}

/**
 * @param {number} n  parameters of a model
 * @returns {string}  "135 M"
 */
export function parameters(n) {
  if (n >= 1e9) return `${(n / 1e9).toFixed(1)} B`;
  return `${Math.round(n / 1e6)} M`;
}

/**
 * @param {number} w  attention weight in [0, 1]
 * @returns {string}  four decimals, or a power of ten when that would show only zeros
 */
export function weight(w) {
  if (Number.isNaN(w)) return 'hidden';
  if (w !== 0 && w < 0.00005) return w.toExponential(1).replace('e-', ' × 10⁻').replace(/\d+$/, superscript);
  return w.toFixed(4);
}

/** @param {string} digits */
function superscript(digits) {
  return [...digits].map((d) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[Number(d)]).join('');
}

/**
 * A token's text with what cannot be seen made visible.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
  if (text === '') return '∅';
  return text.replace(/ /g, '·').replace(/\r?\n/g, '↵').replace(/\t/g, '⇥');
}
