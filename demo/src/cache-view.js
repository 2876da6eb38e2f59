import { bytesAt, ownLine } from './cache-plan.js';
import { drawChart } from './chart.js';
import { h, setText, skeleton } from './dom.js';
import { bytes, count } from './format.js';

/**
 * @typedef {object} CacheData
 * @property {import('./types.js').CacheState} cache
 * @property {import('./types.js').ModelState | null} model
 * @property {number} width  of the panel's inside, CSS pixels
 */

/** Names of the lines, in the chart's classes. */
const LINES = [
  ['used', 'in use'],
  ['reserved', 'reserved'],
  ['formula', 'the formula'],
];

const parts = skeleton((element) => {
  const figures = h('dl', { class: 'figures' });
  const values = ['In use', 'Reserved', 'A token', 'Type'].map((name, i) => {
    const value = h('dd', {
      'data-testid': ['cache-used', 'cache-reserved', 'cache-token', 'cache-type'][i],
    });
    figures.append(h('div', {}, h('dt', { text: name }), value));
    return value;
  });
  const chart = h('div', { class: 'chart', 'data-testid': 'cache-chart' });
  const key = h('p', { class: 'key' }, ...LINES.map(([name, text]) => h('span', { class: name, text })));
  const formula = h('p', { class: 'formula-text', 'data-testid': 'cache-formula' });
  const bars = h('div', { class: 'bars', 'data-testid': 'cache-shapes' });
  const blocks = h('div', { class: 'blocks', role: 'img', 'data-testid': 'cache-blocks' });
  const blocksTitle = h('h3');
  const blank = h('div', { class: 'blank' });
  blank.append(
    h('div', { class: 'blank-art', 'aria-hidden': 'true' }),
    h('p', {
      text: 'For each token that it has read, a model keeps keys and values, so that the next token costs one row and not all rows again. Here you see how many bytes that takes.',
    }),
  );
  const barsTitle = h('h3', { text: 'The same model with another kind of attention' });
  const body = h(
    'div',
    { class: 'panel-body' },
    figures,
    chart,
    key,
    formula,
    barsTitle,
    bars,
    blocksTitle,
    blocks,
  );
  element.append(h('div', { class: 'panel-head' }, h('h2', { text: 'KV cache' })), blank, body);
  return { values, chart, formula, barsTitle, bars, blocks, blocksTitle, blank, body };
});

/**
 * @param {HTMLElement} element
 * @param {CacheData} data
 */
export function drawCache(element, { cache, model, width }) {
  const p = parts(element);
  p.body.hidden = !model || !cache.plan;
  p.blank.hidden = !p.body.hidden;
  if (!model || !cache.plan) return;
  const { plan, samples, type } = cache;
  const own = ownLine(plan);
  const now = samples.at(-1) ?? { positions: 0, used: 0, reserved: 0 };
  [bytes(now.used), bytes(now.reserved), bytes(own.bytesPerToken), type].forEach((text, i) =>
    setText(p.values[i], text),
  );
  p.values[0].dataset.bytes = String(now.used);
  p.values[1].dataset.bytes = String(now.reserved);
  p.values[0].dataset.positions = String(now.positions);
  drawChart(p.chart, {
    samples,
    formula: own,
    width,
    height: Math.round(Math.min(260, width * 0.5)),
  });
  const total = `${count(bytesAt(own, now.positions))} B`;
  const planned = own.window
    ? `n = ${count(now.positions)}: ${total}`
    : `${count(own.bytesPerToken)} B a token × ${count(now.positions)} = ${total}`;
  p.formula.replaceChildren(h('code', { text: plan.formula }), h('span', { text: planned }));
  drawShapes(p, plan, now.positions);
  drawBlocks(p, cache);
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {import('./types.js').CachePlan} plan
 * @param {number} positions
 */
function drawShapes(p, plan, positions) {
  p.barsTitle.hidden = plan.shapes.length < 2;
  const at = Math.max(1, positions);
  const most = Math.max(1, ...plan.shapes.map((shape) => bytesAt(shape, at)));
  const lines = plan.shapes.map((shape) => {
    const value = bytesAt(shape, at);
    const text = positions > 0 ? bytes(value) : `${bytes(value)} a token`;
    const bar = h('meter', { min: 0, max: most, value, 'aria-label': `${shape.kind}: ${text}` });
    return h(
      'div',
      { class: shape.own ? 'bar own' : 'bar' },
      h('b', { text: shape.kind }),
      bar,
      h('span', { text }),
    );
  });
  p.bars.replaceChildren(...lines);
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {import('./types.js').CacheState} cache
 */
function drawBlocks(p, { blocks, blockPositions }) {
  p.blocksTitle.hidden = blocks.length === 0;
  setText(
    p.blocksTitle,
    `${blocks.length} ${blocks.length === 1 ? 'block' : 'blocks'} of ${blockPositions} positions`,
  );
  p.blocks.setAttribute(
    'aria-label',
    `Blocks of the cache: ${blocks.map((b) => `${b.positions} ${b.state}`).join(', ')}`,
  );
  p.blocks.replaceChildren(
    ...blocks.map(({ positions, state }, i) => {
      const title = `Block ${i}: ${positions} of ${blockPositions} positions, ${state}`;
      return h('progress', {
        class: `block ${state}`,
        max: Math.max(1, blockPositions),
        value: positions,
        title,
      });
    }),
  );
}
