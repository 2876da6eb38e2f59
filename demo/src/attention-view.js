import { missing, rowOf } from './attention-map.js';
import { drawTokenText } from './attention-text.js';
import { drawTable } from './attention-table.js';
import { logFloor } from './colour.js';
import { h, segmented, setChosen, setText, skeleton, arrowStep } from './dom.js';
import { visible, weight } from './format.js';
import { cellAt, drawCursor, drawHeatmap, drawLegend, drawThumbnail } from './heatmap.js';

/** @typedef {import('./types.js').AttentionState} AttentionState */
/** @typedef {import('./types.js').Cell} Cell */

/**
 * @typedef {object} AttentionData
 * @property {AttentionState} attention
 * @property {import('./types.js').Token[]} tokens
 * @property {import('./types.js').ModelState | null} model
 * @property {'light' | 'dark'} theme
 * @property {boolean} streaming
 * @property {number} width   of the panel's inside, CSS pixels
 * @property {number} height  of the panel's inside
 *
 * @typedef {object} AttentionActions
 * @property {(layer: number) => void} layer
 * @property {(patch: Partial<AttentionState>) => void} change
 */

const THUMB = 40;
/** While text streams the small pictures are drawn this often, in milliseconds: nine of them cost more than one map. */
const THUMBS_EVERY = 400;
/** While text streams, a map that took t to draw is drawn again after so many t at the earliest. */
const MAP_REST = 8;
const MAX_ZOOM = 64;
/** Heights in the style sheet: between the panel's rows, and of the row of options. */
const GAP = 12;
const OPTIONS = 34;

const parts = skeleton((element) => {
  const layer = h('select', { id: 'layer', 'data-testid': 'layer' });
  const button = { type: 'button', class: 'icon' };
  const down = h('button', {
    ...button,
    'aria-label': 'Previous layer',
    'data-testid': 'layer-down',
    text: '‹',
  });
  const up = h('button', { ...button, 'aria-label': 'Next layer', 'data-testid': 'layer-up', text: '›' });
  const pick = h('div', { class: 'stepper' }, h('label', { for: 'layer', text: 'Layer' }), down, layer, up);
  const state = h('p', { class: 'filling', role: 'status', 'data-testid': 'attention-status' });
  const heads = h('div', {
    class: 'heads',
    role: 'radiogroup',
    'aria-label': 'Head',
    'data-testid': 'heads',
  });
  const plot = makePlot();
  const text = h('div', { class: 'token-text', hidden: true });
  const readout = h('p', { class: 'readout', 'data-testid': 'readout' });
  const live = h('div', { class: 'unseen', 'aria-live': 'polite', 'data-testid': 'attention-live' });
  const table = h('div', { class: 'table', hidden: true });
  const blank = h('div', { class: 'blank' });
  const head = h('div', { class: 'panel-head' }, h('h2', { text: 'Attention' }), state, pick);
  const body = h('div', { class: 'panel-body' }, heads, plot.element, text, readout);
  element.append(head, blank, body, live);
  const drawn = { heads: 0, layers: 0, base: '', thumbs: 0, thumbsKey: '', next: 0, spoken: '' };
  return {
    head,
    layer,
    down,
    up,
    state,
    heads,
    plot,
    text,
    readout,
    live,
    table,
    blank,
    body,
    drawn,
    wired: false,
  };
});

function makePlot() {
  const base = h('canvas', { class: 'map' });
  const over = h('canvas', {
    class: 'over',
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'heat map',
    'data-testid': 'heatmap',
  });
  const element = h('div', { class: 'plot' }, base, over);
  return { element, base, over, layout: /** @type {import('./heatmap.js').Layout | null} */ (null) };
}

/** @typedef {ReturnType<typeof parts>} Parts */
/** @type {WeakMap<HTMLElement, { data: AttentionData, options: ReturnType<typeof makeOptions> }>} */
const live = new WeakMap();

/**
 * @param {HTMLElement} element
 * @param {AttentionData} data
 * @param {AttentionActions} on
 */
export function drawAttention(element, data, on) {
  const p = parts(element);
  if (!p.wired) wire(element, p, on);
  const kept = /** @type {NonNullable<ReturnType<typeof live.get>>} */ (live.get(element));
  kept.data = data;
  const { attention, tokens, model } = data;
  const any = model !== null && tokens.length > 0;
  p.body.hidden = !any;
  p.blank.hidden = any;
  p.head.classList.toggle('off', model === null);
  if (!model) return;
  drawPickers(p, data, on);
  if (!any) return;
  const onText = attention.view === 'text';
  p.plot.element.hidden = onText;
  p.text.hidden = !onText;
  if (onText) drawTokenText(p.text, data, on);
  else drawPlot(p, data);
  kept.options.draw(data, p.plot.layout);
  const words = readoutWords(data);
  setText(p.readout, words);
  // What a key asked for may become known later: a token's text, a row that is being computed.
  if (p.drawn.spoken && p.drawn.spoken === placeOf(attention)) setText(p.live, words);
  p.table.hidden = !attention.table;
  if (attention.table) drawTable(p.table, data);
}

/**
 * @param {HTMLElement} element
 * @param {Parts} p
 * @param {AttentionActions} actions
 */
function wire(element, p, actions) {
  p.wired = true;
  // What is asked for is seen by the next key at once, not only when it has been drawn.
  const on = {
    ...actions,
    change: (/** @type {Partial<AttentionState>} */ patch) => {
      const kept = /** @type {NonNullable<ReturnType<typeof live.get>>} */ (live.get(element));
      kept.data = { ...kept.data, attention: { ...kept.data.attention, ...patch } };
      actions.change(patch);
    },
  };
  const options = makeOptions(on);
  p.head.append(options.views.element);
  p.body.append(options.element, p.table);
  p.plot.element.append(options.zoom);
  live.set(element, { data: /** @type {any} */ (null), options });
  const data = () => /** @type {NonNullable<ReturnType<typeof live.get>>} */ (live.get(element)).data;
  p.layer.addEventListener('change', () => on.layer(Number(p.layer.value)));
  p.down.addEventListener('click', () => on.layer(data().attention.layer - 1));
  p.up.addEventListener('click', () => on.layer(data().attention.layer + 1));
  const explain = [
    'Send a message: each token that the model reads or writes adds a row here.',
    'A row is one token asking; the stronger a cell, the more of that earlier token it takes in. Every head of every layer looks for something else.',
  ];
  p.blank.append(
    h('div', { class: 'blank-art', 'aria-hidden': 'true' }),
    ...explain.map((text) => h('p', { text })),
  );
  wirePlot(p, data, on);
}

/**
 * @param {Parts} p
 * @param {() => AttentionData} data
 * @param {AttentionActions} on
 */
function wirePlot(p, data, on) {
  const { over } = p.plot;
  const move = (/** @type {PointerEvent} */ event) => {
    const cell = p.plot.layout && cellAt(p.plot.layout, event.offsetX, event.offsetY);
    if (cell) on.change({ cursor: cell });
  };
  over.addEventListener('pointermove', (event) => data().attention.zoom === 1 && move(event));
  over.addEventListener('pointerdown', move);
  over.addEventListener('keydown', (event) => {
    const patch = keyPatch(event.key, data());
    if (!patch) return;
    event.preventDefault();
    on.change(patch);
    setText(p.live, readoutWords(data()));
    p.drawn.spoken = placeOf(data().attention);
  });
}

/** @param {AttentionState} attention @returns {string} the cell that the cursor is on */
const placeOf = ({ cursor }) => (cursor ? `${cursor.row},${cursor.col}` : '');

/**
 * @param {string} key
 * @param {AttentionData} data
 * @returns {Partial<AttentionState> | null} what a key changes
 */
function keyPatch(key, { attention, tokens }) {
  const last = tokens.length - 1;
  const { row, col } = attention.cursor ?? { row: last, col: last };
  const zoom = { '+': attention.zoom * 2, '=': attention.zoom * 2, '-': attention.zoom / 2, 0: 1 }[key];
  if (zoom !== undefined) return { zoom: clampZoom(zoom), cursor: { row, col } };
  /** @type {Record<string, Cell>} */
  const moves = {
    ArrowUp: { row: row - 1, col },
    ArrowDown: { row: row + 1, col },
    ArrowLeft: { row, col: col - 1 },
    ArrowRight: { row, col: col + 1 },
    Home: { row, col: 0 },
    End: { row, col: row },
    PageUp: { row: row - 10, col },
    PageDown: { row: row + 10, col },
  };
  const to = moves[key];
  if (!to) return null;
  const r = Math.min(last, Math.max(0, to.row));
  return { cursor: attention.cursor ? { row: r, col: Math.min(r, Math.max(0, to.col)) } : { row, col } };
}

/** @param {number} zoom */
function clampZoom(zoom) {
  return Math.min(MAX_ZOOM, Math.max(1, zoom));
}

/**
 * @param {Parts} p
 * @param {AttentionData} data
 * @param {AttentionActions} on
 */
function drawPickers(p, data, on) {
  const { attention, model, tokens } = data;
  if (!model) return;
  if (p.drawn.layers !== model.layers) {
    p.drawn.layers = model.layers;
    const all = Array.from({ length: model.layers }, (_, i) => h('option', { value: i, text: `${i}` }));
    p.layer.replaceChildren(...all);
  }
  p.layer.value = String(attention.layer);
  p.layer.title = `Layer ${attention.layer} of 0 to ${model.layers - 1}`;
  p.down.disabled = attention.layer === 0;
  p.up.disabled = attention.layer === model.layers - 1;
  const gone = missing(attention.map);
  const wait = attention.filling ? 'Computing the earlier rows…' : '';
  setText(
    p.state,
    wait || (gone > 0 && !data.streaming ? `${gone} of ${tokens.length} rows are not computed.` : ''),
  );
  if (tokens.length > 0) drawHeads(p, data, on);
}

/**
 * One small picture for each head, in the groups that share cached keys and values, and one for their mean.
 * @param {Parts} p
 * @param {AttentionData} data
 * @param {AttentionActions} on
 */
function drawHeads(p, data, on) {
  const { attention, model } = data;
  if (!model) return;
  const shape = model.heads * 10000 + model.kvHeads;
  if (p.drawn.heads !== shape) {
    p.drawn.heads = shape;
    p.drawn.thumbsKey = '';
    p.heads.replaceChildren(...headGroups(model.heads, model.kvHeads, on));
    p.heads.onkeydown = (event) => {
      const step = arrowStep(event.key);
      const radios = [...p.heads.querySelectorAll('button')];
      const at = radios.indexOf(/** @type {HTMLButtonElement} */ (event.target));
      if (!step || at < 0) return;
      event.preventDefault();
      const next = radios[(at + step + radios.length) % radios.length];
      next.focus();
      next.click();
    };
  }
  for (const radio of p.heads.querySelectorAll('button')) {
    setChosen(radio, Number(radio.dataset.head) === attention.head);
  }
  drawThumbs(p, data);
}

/**
 * @param {number} heads
 * @param {number} kvHeads
 * @param {AttentionActions} on
 */
function headGroups(heads, kvHeads, on) {
  const button = (/** @type {number} */ head) =>
    h(
      'button',
      {
        type: 'button',
        role: 'radio',
        class: 'head',
        'data-head': head,
        'data-testid': head < 0 ? 'head-mean' : `head-${head}`,
        'aria-label': head < 0 ? 'Mean of the heads' : `Head ${head}`,
        onclick: () => on.change({ head }),
      },
      h('canvas'),
      h('span', { text: head < 0 ? 'mean' : String(head) }),
    );
  const ratio = kvHeads > 0 ? Math.max(1, Math.round(heads / kvHeads)) : heads;
  const groups = [h('div', { class: 'group' }, button(-1))];
  for (let first = 0; first < heads; first += ratio) {
    const members = Array.from({ length: Math.min(ratio, heads - first) }, (_, i) => button(first + i));
    const title = ratio > 1 ? `These heads share the cached keys and values of KV head ${first / ratio}` : '';
    groups.push(h('div', { class: 'group shared', title: title || null }, ...members));
  }
  return groups;
}

/**
 * @param {Parts} p
 * @param {AttentionData} data
 */
function drawThumbs(p, { attention, theme, tokens, streaming }) {
  const { map, version, hideSink, scale } = attention;
  const key = [map.layer, version, hideSink, scale, theme, tokens.length].join();
  const now = performance.now();
  if (key === p.drawn.thumbsKey || (streaming && now - p.drawn.thumbs < THUMBS_EVERY)) return;
  p.drawn.thumbsKey = key;
  p.drawn.thumbs = now;
  for (const radio of p.heads.querySelectorAll('button')) {
    const canvas = /** @type {HTMLCanvasElement} */ (radio.firstElementChild);
    const head = Number(radio.dataset.head);
    drawThumbnail(canvas, { map, head, hideSink, scale, theme, size: THUMB, positions: tokens.length });
  }
}

/**
 * @param {Parts} p
 * @param {AttentionData} data
 */
function drawPlot(p, { attention, tokens, theme, streaming, width, height: room }) {
  const { map, version, head, hideSink, scale, zoom, cursor } = attention;
  const others = p.head.offsetHeight + p.heads.offsetHeight + p.readout.offsetHeight + 4 * GAP + OPTIONS;
  const height = Math.max(Math.min(width, 330), Math.min(width, room - others));
  const view = { map, head, hideSink, scale, theme, tokens, cursor, zoom, width, height };
  const named = tokens.reduce((n, token) => n + token.text.length, 0);
  const place = zoom > 1 && cursor ? `${cursor.row},${cursor.col}` : '';
  const key = [
    map.layer,
    version,
    head,
    hideSink,
    scale,
    theme,
    tokens.length,
    named,
    zoom,
    width,
    height,
    place,
  ].join();
  const start = performance.now();
  const wait = streaming && start < p.drawn.next;
  if (key !== p.drawn.base && !wait) {
    p.drawn.base = key;
    p.plot.layout = drawHeatmap(p.plot.base, view);
    p.drawn.next = performance.now() + MAP_REST * (performance.now() - start);
  }
  if (p.plot.layout) drawCursor(p.plot.over, view, p.plot.layout);
  const who = head < 0 ? 'mean of the heads' : `head ${head}`;
  const label = `Attention of layer ${map.layer}, ${who}: ${tokens.length} query tokens down, key tokens across. Arrow keys move, plus and minus zoom.`;
  p.plot.over.setAttribute('aria-label', label);
}

/**
 * @param {AttentionData} data
 * @returns {string} the exact weight at the cursor
 */
export function readoutWords({ attention, tokens }) {
  const { cursor, pinned, view, map, head, hideSink } = attention;
  const row = view === 'text' ? (pinned ?? cursor?.row) : cursor?.row;
  if (row === undefined || row >= tokens.length || !cursor) {
    return view === 'text' ? 'Point at a token.' : 'Point at a cell or tap it; arrow keys move.';
  }
  const quote = (/** @type {number} */ p) => `${p} “${visible(tokens[p]?.text ?? '')}”`;
  const weights = rowOf(map, head, row, hideSink);
  const col = Math.min(cursor.col, row);
  const value = weights ? weight(weights[col]) : 'not computed';
  return `${quote(row)} → ${quote(col)}: ${value}`;
}

/**
 * @param {AttentionActions} on
 */
function makeOptions(on) {
  const views = segmented(
    'View',
    [
      ['map', 'Map'],
      ['text', 'On the text'],
    ],
    (view) => {
      on.change({ view: /** @type {'map' | 'text'} */ (view), pinned: null });
    },
    'view',
  );
  const scale = segmented(
    'Colour scale',
    [
      ['linear', 'Linear'],
      ['log', 'Log'],
    ],
    (value) => {
      on.change({ scale: /** @type {'linear' | 'log'} */ (value) });
    },
    'scale',
  );
  const sink = h('input', { type: 'checkbox', 'data-testid': 'hide-sink' });
  sink.addEventListener('change', () => on.change({ hideSink: sink.checked }));
  const sinkTitle =
    'Most heads rest on the first token when they have nothing to say. Hides it and scales the rest to a sum of 1.';
  const table = h('input', { type: 'checkbox', 'data-testid': 'as-table' });
  table.addEventListener('change', () => on.change({ table: table.checked }));
  const zoomOut = h('button', {
    type: 'button',
    class: 'icon',
    'aria-label': 'Zoom out',
    'data-testid': 'zoom-out',
    text: '−',
  });
  const zoomIn = h('button', {
    type: 'button',
    class: 'icon',
    'aria-label': 'Zoom in',
    'data-testid': 'zoom-in',
    text: '+',
  });
  let zoom = 1;
  zoomOut.addEventListener('click', () => on.change({ zoom: clampZoom(zoom / 2) }));
  zoomIn.addEventListener('click', () => on.change({ zoom: clampZoom(zoom * 2) }));
  const legend = h('canvas', { 'aria-hidden': 'true' });
  const low = h('span');
  const high = h('span');
  const element = h(
    'div',
    { class: 'options' },
    h('div', { class: 'legend' }, low, legend, high),
    scale.element,
    h('label', { class: 'check', title: sinkTitle }, sink, 'Hide first token'),
    h('label', { class: 'check' }, table, 'Table'),
  );
  let drawnLegend = '';

  /**
   * @param {AttentionData} data
   * @param {import('./heatmap.js').Layout | null} layout
   */
  function draw({ attention, theme }, layout) {
    zoom = attention.zoom;
    views.set(attention.view);
    scale.set(attention.scale);
    sink.checked = attention.hideSink;
    table.checked = attention.table;
    zoomOut.disabled = zoom <= 1;
    zoomIn.disabled = zoom >= MAX_ZOOM;
    setText(low, attention.scale === 'log' ? String(logFloor) : '0');
    setText(high, layout && layout.max > 0 ? layout.max.toPrecision(2) : '1');
    if (drawnLegend !== theme) drawLegend(legend, theme);
    drawnLegend = theme;
  }

  return { element, views, zoom: h('div', { class: 'zoom' }, zoomOut, zoomIn), draw };
}
