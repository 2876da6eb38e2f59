import { max } from 'd3-array';
import { scaleLinear } from 'd3-scale';
import { curveStepBefore, line } from 'd3-shape';
import { bytesAt } from './cache-plan.js';
import { s } from './dom.js';
import { bytes, count } from './format.js';

/** @typedef {import('./types.js').CacheSample} CacheSample */

const MARGIN = { top: 10, right: 14, bottom: 34, left: 62 };
/** The horizontal axis begins with this many positions, so that a short chat fills it. */
const LEAST_POSITIONS = 64;

/**
 * Bytes of the cache against positions: measured in use, measured reserved, and the formula's line.
 * @param {Element} element
 * @param {{ samples: CacheSample[], formula: import('./types.js').CacheLine, width: number, height: number }} data
 */
export function drawChart(element, { samples, formula, width, height }) {
  const last = samples.at(-1)?.positions ?? 0;
  const x = scaleLinear(
    [0, Math.max(LEAST_POSITIONS, last * 1.08)],
    [MARGIN.left, width - MARGIN.right],
  ).nice(6);
  const end = x.domain()[1];
  const top = Math.max(bytesAt(formula, end), max(samples, (d) => d.reserved) ?? 0);
  const y = scaleLinear([0, top || 1], [height - MARGIN.bottom, MARGIN.top]).nice(4);
  const svg = s('svg', {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: 'img',
    'aria-label': label(samples),
  });
  svg.append(axisX(x, height, width), axisY(y, width));
  // It bends where the windows are full.
  const bends = [0, Math.min(formula.window, end), end];
  svg.append(
    s('path', {
      class: 'formula',
      d: line(
        (/** @type {number} */ p) => x(p),
        (/** @type {number} */ p) => y(bytesAt(formula, p)),
      )(bends),
    }),
  );
  const reserved = line(
    at((d) => x(d.positions)),
    at((d) => y(d.reserved)),
  ).curve(curveStepBefore);
  svg.append(s('path', { class: 'reserved', d: reserved(pairs(samples)) }));
  svg.append(
    s('path', {
      class: 'used',
      d: line(
        at((d) => x(d.positions)),
        at((d) => y(d.used)),
      )(pairs(samples)),
    }),
  );
  const now = samples.at(-1);
  if (now) svg.append(s('circle', { class: 'used', cx: x(now.positions), cy: y(now.used), r: 4 }));
  element.replaceChildren(svg);
}

/**
 * d3's line takes pairs; the sample rides in the first place.
 * @param {CacheSample[]} samples
 * @returns {any[]}
 */
function pairs(samples) {
  return samples;
}

/**
 * @param {(sample: CacheSample) => number} get
 * @returns {(sample: any) => number}
 */
function at(get) {
  return get;
}

/** @param {CacheSample[]} samples */
function label(samples) {
  const now = samples.at(-1);
  if (!now) return 'Bytes of the cache against positions; nothing is cached yet';
  return `Bytes of the cache against positions: at ${now.positions} positions ${bytes(now.used)} in use, ${bytes(now.reserved)} reserved`;
}

/**
 * @param {import('d3-scale').ScaleLinear<number, number>} x
 * @param {number} height
 * @param {number} width
 */
function axisX(x, height, width) {
  const group = s('g', { class: 'axis' });
  const bottom = height - MARGIN.bottom;
  group.append(s('line', { x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
  for (const tick of x.ticks(6)) {
    group.append(s('text', { x: x(tick), y: bottom + 15, 'text-anchor': 'middle', text: count(tick) }));
  }
  group.append(
    s('text', {
      class: 'title',
      x: width - MARGIN.right,
      y: height - 3,
      'text-anchor': 'end',
      text: 'positions',
    }),
  );
  return group;
}

/**
 * @param {import('d3-scale').ScaleLinear<number, number>} y
 * @param {number} width
 */
function axisY(y, width) {
  const group = s('g', { class: 'axis' });
  for (const tick of y.ticks(4)) {
    group.append(
      s('line', { class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
    );
    group.append(s('text', { x: MARGIN.left - 8, y: y(tick) + 4, 'text-anchor': 'end', text: bytes(tick) }));
  }
  return group;
}
