/**
 * The attention weights of one layer, row by row as positions are evaluated. Plain data: no engine, no page.
 *
 * @typedef {object} AttentionMap
 * @property {number} layer
 * @property {number} heads
 * @property {(Float32Array | undefined)[]} rows  by query position p: [heads][p + 1]
 * @property {number} floats                      held in all rows
 * @property {number} first                       rows before it were dropped to bound memory
 */

/** 128 MB of weights: about 2600 positions of nine heads. */
const MAX_FLOATS = 32 * 1024 * 1024;
/** The first rows have few keys and so large weights, which say nothing: the colour scale leaves them out. */
const CHOICE = 8;

/**
 * @param {number} layer
 * @returns {AttentionMap}
 */
export function emptyMap(layer) {
  return { layer, heads: 0, rows: [], floats: 0, first: 0 };
}

/**
 * Adds the rows of one evaluated chunk; rows at and after its position are replaced.
 * @param {AttentionMap} map
 * @param {number} position  of the first row
 * @param {{ heads: number, rows: number, cols: number, data: Float32Array }} step  data: [heads][rows][cols]
 */
export function addRows(map, position, step) {
  truncate(map, position);
  map.heads = step.heads;
  for (let r = 0; r < step.rows; r++) {
    const n = position + r + 1;
    const row = new Float32Array(step.heads * n);
    for (let head = 0; head < step.heads; head++) {
      const from = (head * step.rows + r) * step.cols;
      row.set(step.data.subarray(from, from + Math.min(n, step.cols)), head * n);
    }
    map.rows[position + r] = row;
    map.floats += row.length;
  }
  while (map.floats > MAX_FLOATS && map.first < map.rows.length - 1) drop(map, map.first++);
}

/**
 * Forgets rows at and after a position.
 * @param {AttentionMap} map
 * @param {number} length  rows to keep
 */
export function truncate(map, length) {
  for (let p = length; p < map.rows.length; p++) drop(map, p);
  if (map.rows.length > length) map.rows.length = length;
  map.first = Math.min(map.first, length);
}

/**
 * @param {AttentionMap} map
 * @param {number} p
 */
function drop(map, p) {
  map.floats -= map.rows[p]?.length ?? 0;
  map.rows[p] = undefined;
}

/**
 * @param {AttentionMap} map
 * @returns {number} positions from the first one kept that have no row yet
 */
export function missing(map) {
  let n = 0;
  for (let p = map.first; p < map.rows.length; p++) if (!map.rows[p]) n++;
  return n;
}

/**
 * What one query position gives to each key position.
 * @param {AttentionMap} map
 * @param {number} head       -1 is the mean over the heads
 * @param {number} q          query position
 * @param {boolean} hideSink  leave out key 0 and divide by what is left; key 0 is then NaN
 * @returns {Float32Array | null}  [q + 1], or null when the row is not held
 */
export function rowOf(map, head, q, hideSink) {
  const row = map.rows[q];
  if (!row) return null;
  const n = q + 1;
  const out = head < 0 ? meanRow(row, map.heads, n) : row.slice(head * n, (head + 1) * n);
  if (hideSink) {
    const rest = 1 - out[0];
    for (let k = 1; k < n; k++) out[k] = rest > 1e-6 ? out[k] / rest : 0;
    out[0] = NaN;
  }
  return out;
}

/**
 * @param {Float32Array} row  [heads][n]
 * @param {number} heads
 * @param {number} n
 */
function meanRow(row, heads, n) {
  const out = new Float32Array(n);
  for (let head = 0; head < heads; head++) for (let k = 0; k < n; k++) out[k] += row[head * n + k];
  for (let k = 0; k < n; k++) out[k] /= heads;
  return out;
}

/**
 * The weights of a rectangle of the map as a picture of at most `height` x `width` bins. Where a bin holds several cells the
 * largest counts, so that a single strong cell is seen at any zoom.
 * @param {AttentionMap} map
 * @param {{ head: number, hideSink: boolean, from: Cell, to: Cell, height: number, width: number }} view
 *   from is inside, to is outside
 * @returns {{ height: number, width: number, top: number, data: Float32Array }}
 *   data: [height][width], NaN where there is no weight; top is the largest of the rows that have a choice
 * @typedef {{ row: number, col: number }} Cell
 */
export function picture(map, { head, hideSink, from, to, height, width }) {
  const rows = Math.max(1, to.row - from.row);
  const cols = Math.max(1, to.col - from.col);
  const h = Math.min(height, rows);
  const w = Math.min(width, cols);
  const data = new Float32Array(h * w).fill(NaN);
  let top = 0;
  for (let q = from.row; q < to.row; q++) {
    const row = rowOf(map, head, q, hideSink);
    if (!row) continue;
    const y = Math.floor(((q - from.row) * h) / rows);
    for (let k = from.col; k < Math.min(to.col, q + 1); k++) {
      const at = y * w + Math.floor(((k - from.col) * w) / cols);
      const v = row[k];
      if (!(v <= data[at])) data[at] = Number.isNaN(v) ? data[at] : v;
      if (v > top && q >= Math.min(CHOICE, to.row - 1)) top = v;
    }
  }
  return { height: h, width: w, top, data };
}
