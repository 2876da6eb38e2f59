import { picture } from './attention-map.js';
import { css, palette, pixel, share } from './colour.js';
import { h } from './dom.js';
import { visible } from './format.js';

/**
 * @typedef {import('./types.js').Cell} Cell
 *
 * @typedef {object} HeatmapData
 * @property {import('./attention-map.js').AttentionMap} map
 * @property {number} head
 * @property {boolean} hideSink
 * @property {'linear' | 'log'} scale
 * @property {'light' | 'dark'} theme
 * @property {import('./types.js').Token[]} tokens
 * @property {Cell | null} cursor
 * @property {number} zoom
 * @property {number} width     of the whole drawing in CSS pixels
 * @property {number} height
 *
 * @typedef {{ from: Cell, to: Cell, left: number, top: number, cellW: number, cellH: number, max: number }} Layout
 *   Where the cells lie, in CSS pixels; max is the weight at the upper end of the colour scale.
 */

const FONT = '11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace';
const LABEL = 12;
const GUTTER = { left: 86, top: 66, edge: 6 };
/** A label is cut to so many characters, so that it fits the gutter. */
const LABEL_CHARS = 11;

/**
 * The part of the map that is seen at a zoom: a window of both axes that holds the cursor.
 * @param {number} n      positions
 * @param {number} zoom   1 shows all
 * @param {Cell | null} cursor
 * @returns {{ from: Cell, to: Cell }} from is inside, to is outside
 */
export function windowOf(n, zoom, cursor) {
  const span = Math.max(Math.min(n, 8), Math.ceil(n / zoom));
  const start = (/** @type {number} */ at) => Math.max(0, Math.min(n - span, Math.round(at - span / 2)));
  const from = { row: start(cursor ? cursor.row : n), col: start(cursor ? cursor.col : n) };
  return { from, to: { row: from.row + span, col: from.col + span } };
}

/**
 * Draws the map and its labels.
 * @param {HTMLCanvasElement} canvas
 * @param {HeatmapData} data
 * @returns {Layout}
 */
export function drawHeatmap(canvas, data) {
  const pen = prepare(canvas, data.width, data.height);
  const { from, to } = windowOf(data.tokens.length, data.zoom, data.cursor);
  const width = data.width - GUTTER.edge - GUTTER.left;
  const height = data.height - GUTTER.edge - GUTTER.top;
  const cellW = Math.min(34, width / Math.max(1, to.col - from.col));
  const cellH = Math.min(34, height / Math.max(1, to.row - from.row));
  const scale = devicePixelRatio || 1;
  const view = { head: data.head, hideSink: data.hideSink, from, to };
  const cells = picture(data.map, {
    ...view,
    height: Math.ceil(height * scale),
    width: Math.ceil(width * scale),
  });
  const layout = { from, to, left: GUTTER.left, top: GUTTER.top, cellW, cellH, max: cells.top };
  paint(pen, cells, data, layout);
  drawLabels(pen, data, layout);
  return layout;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width   CSS pixels
 * @param {number} height  CSS pixels
 */
function prepare(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  pen.scale(scale, scale);
  return pen;
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {ReturnType<typeof picture>} cells
 * @param {Pick<HeatmapData, 'theme' | 'scale'>} data
 * @param {Layout} at
 */
function paint(pen, cells, { theme, scale }, at) {
  const image = new ImageData(cells.width, cells.height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = palette(theme);
  for (let i = 0; i < pixels.length; i++) {
    const v = cells.data[i];
    if (!Number.isNaN(v)) pixels[i] = pixel(colours, share(v, cells.top, scale));
  }
  const small = h('canvas', { width: cells.width, height: cells.height });
  /** @type {CanvasRenderingContext2D} */ (small.getContext('2d')).putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = false;
  const width = at.cellW * (at.to.col - at.from.col);
  const height = at.cellH * (at.to.row - at.from.row);
  pen.drawImage(small, at.left, at.top, width, height);
}

/**
 * Token text along both axes; where cells are narrow, only every n-th.
 * @param {CanvasRenderingContext2D} pen
 * @param {HeatmapData} data
 * @param {Layout} at
 */
function drawLabels(pen, { tokens }, at) {
  pen.font = FONT;
  pen.fillStyle = inkOf(pen.canvas);
  pen.textBaseline = 'middle';
  const stepRow = Math.ceil(LABEL / at.cellH);
  for (let q = at.from.row; q < at.to.row; q += stepRow) rowLabel(pen, tokens[q]?.text ?? '', q, at);
  const stepCol = Math.ceil(LABEL / at.cellW);
  for (let k = at.from.col; k < at.to.col; k += stepCol) colLabel(pen, tokens[k]?.text ?? '', k, at);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {number} q
 * @param {Layout} at
 */
function rowLabel(pen, text, q, at) {
  pen.textAlign = 'right';
  pen.fillText(cut(text), at.left - 6, at.top + (q - at.from.row + 0.5) * at.cellH);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {string} text
 * @param {number} k
 * @param {Layout} at
 */
function colLabel(pen, text, k, at) {
  pen.save();
  pen.translate(at.left + (k - at.from.col + 0.5) * at.cellW, at.top - 6);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = 'left';
  pen.fillText(cut(text).slice(0, 9), 0, 0);
  pen.restore();
}

/** @param {string} text */
function cut(text) {
  const seen = [...visible(text)];
  return seen.length > LABEL_CHARS ? `${seen.slice(0, LABEL_CHARS - 1).join('')}…` : seen.join('');
}

/** @param {HTMLCanvasElement} canvas */
function inkOf(canvas) {
  return getComputedStyle(canvas).color;
}

/**
 * Draws the cross-hair at the cursor on a canvas that lies above the map.
 * @param {HTMLCanvasElement} canvas
 * @param {HeatmapData} data
 * @param {Layout} at
 */
export function drawCursor(canvas, { cursor, width, height, tokens }, at) {
  const pen = prepare(canvas, width, height);
  if (!cursor || cursor.row >= tokens.length) return;
  const style = getComputedStyle(canvas);
  const x = at.left + (cursor.col - at.from.col) * at.cellW;
  const y = at.top + (cursor.row - at.from.row) * at.cellH;
  if (x < at.left || y < at.top || x > width || y > height) return;
  pen.strokeStyle = style.color;
  pen.globalAlpha = 0.45;
  const midX = x + at.cellW / 2;
  const midY = y + at.cellH / 2;
  line(pen, at.left, midY, x, midY);
  line(pen, midX, at.top, midX, y);
  pen.globalAlpha = 1;
  pen.lineWidth = 2;
  pen.strokeStyle = style.outlineColor;
  pen.strokeRect(x - 1, y - 1, Math.max(4, at.cellW + 2), Math.max(4, at.cellH + 2));
  drawCursorLabels(pen, tokens, cursor, at, style);
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {import('./types.js').Token[]} tokens
 * @param {Cell} cursor
 * @param {Layout} at
 * @param {CSSStyleDeclaration} style
 */
function drawCursorLabels(pen, tokens, cursor, at, style) {
  pen.font = `600 ${FONT}`;
  pen.textBaseline = 'middle';
  const y = at.top + (cursor.row - at.from.row + 0.5) * at.cellH;
  const x = at.left + (cursor.col - at.from.col + 0.5) * at.cellW;
  pen.fillStyle = style.getPropertyValue('--surface');
  for (const dy of near(cursor.row - at.from.row, at.cellH)) {
    pen.fillRect(0, y + dy - LABEL / 2, at.left - 3, LABEL);
  }
  for (const dx of near(cursor.col - at.from.col, at.cellW)) {
    pen.fillRect(x + dx - LABEL / 2, 0, LABEL, at.top - 3);
  }
  pen.fillStyle = style.outlineColor;
  rowLabel(pen, tokens[cursor.row].text, cursor.row, at);
  colLabel(pen, tokens[cursor.col]?.text ?? '', cursor.col, at);
}

/**
 * Where the labels lie that a label at the cursor would half cover: they go whole.
 * @param {number} index  of the cursor's row or column among those that are drawn
 * @param {number} cell   CSS pixels
 * @returns {number[]} CSS pixels from the cursor's own, which is one of them
 */
function near(index, cell) {
  const step = Math.ceil(LABEL / cell);
  const last = Math.floor(index / step) * step;
  const others = [last, last + step].map((label) => (label - index) * cell);
  return [0, ...others.filter((away) => Math.abs(away) < LABEL)];
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} x0
 * @param {number} y0
 * @param {number} x1
 * @param {number} y1
 */
function line(pen, x0, y0, x1, y1) {
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.lineTo(x1, y1);
  pen.stroke();
}

/**
 * @param {Layout} at
 * @param {number} x  CSS pixels in the drawing
 * @param {number} y
 * @returns {Cell | null} the cell under a point, null where there is none
 */
export function cellAt(at, x, y) {
  const col = at.from.col + Math.floor((x - at.left) / at.cellW);
  const row = at.from.row + Math.floor((y - at.top) / at.cellH);
  if (x < at.left || y < at.top || row >= at.to.row || col > row) return null;
  return { row, col };
}

/**
 * A small picture of one head.
 * @param {HTMLCanvasElement} canvas
 * @param {Omit<HeatmapData, 'cursor' | 'zoom' | 'tokens' | 'width' | 'height'> & { positions: number, size: number }} data
 */
export function drawThumbnail(canvas, data) {
  const pen = prepare(canvas, data.size, data.size);
  const from = { row: 0, col: 0 };
  const to = { row: data.positions, col: data.positions };
  const side = Math.round(data.size * (devicePixelRatio || 1));
  const cells = picture(data.map, {
    head: data.head,
    hideSink: data.hideSink,
    from,
    to,
    height: side,
    width: side,
  });
  const cell = data.size / Math.max(1, data.positions);
  paint(pen, cells, data, {
    from,
    to,
    left: 0,
    top: 0,
    cellW: cell,
    cellH: cell,
    max: cells.top,
  });
}

/**
 * Draws the colour scale, least to most from left to right.
 * @param {HTMLCanvasElement} canvas
 * @param {'light' | 'dark'} theme
 */
export function drawLegend(canvas, theme) {
  const width = 90;
  const pen = prepare(canvas, width, 8);
  const colours = palette(theme);
  for (let x = 0; x < width; x++) {
    pen.fillStyle = css(colours, x / (width - 1)).css;
    pen.fillRect(x, 0, 2, 8);
  }
}
