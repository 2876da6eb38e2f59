import { rowOf } from './attention-map.js';
import { css, palette, share } from './colour.js';
import { h, skeleton } from './dom.js';
import { visible } from './format.js';

/**
 * @typedef {import('./attention-view.js').AttentionData} AttentionData
 * @typedef {import('./attention-view.js').AttentionActions} AttentionActions
 */

const parts = skeleton((element) => {
  const list = h('p', { class: 'tokens', 'data-testid': 'token-text', tabindex: 0 });
  list.setAttribute('role', 'application');
  list.setAttribute('aria-roledescription', 'text with shaded tokens');
  list.setAttribute('aria-label', 'Tokens. Left and right choose a token, Enter pins it.');
  element.append(list);
  return {
    list,
    spans: /** @type {HTMLElement[]} */ ([]),
    data: /** @type {AttentionData | null} */ (null),
    wired: false,
  };
});

/**
 * The text with the tokens shaded that the chosen one attends to.
 * @param {HTMLElement} element
 * @param {AttentionData} data
 * @param {AttentionActions} on
 */
export function drawTokenText(element, data, on) {
  const p = parts(element);
  p.data = data;
  if (!p.wired) wire(p, on);
  const { tokens, attention } = data;
  while (p.spans.length > tokens.length) removeLast(p);
  tokens.forEach((token, i) => drawToken(p, token, i));
  const chosen = attention.pinned ?? attention.cursor?.row ?? null;
  shade(p.spans, data, chosen === null || chosen >= tokens.length ? null : chosen);
}

/** @param {ReturnType<typeof parts>} p */
function removeLast(p) {
  const span = p.spans.pop();
  if (span?.nextSibling) span.nextSibling.remove();
  span?.remove();
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {import('./types.js').Token} token
 * @param {number} i
 */
function drawToken(p, token, i) {
  const old = p.spans[i];
  if (old?.dataset.text === token.text) return;
  const span = old ?? h('span', { 'data-p': i });
  span.dataset.text = token.text;
  span.textContent = /^\s*$/.test(token.text) ? visible(token.text) : token.text.replace(/\n/g, '↵');
  span.classList.toggle('control', /^<\|.*\|>$/.test(token.text));
  if (old?.nextSibling instanceof HTMLBRElement) old.nextSibling.remove();
  if (!old) {
    p.spans[i] = span;
    p.list.append(span);
  }
  if (token.text.includes('\n')) span.after(h('br'));
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {AttentionActions} on
 */
function wire(p, on) {
  p.wired = true;
  const at = (/** @type {Event} */ event) => {
    const span = /** @type {HTMLElement} */ (event.target).closest('span');
    return span ? Number(span.dataset.p) : null;
  };
  p.list.addEventListener('pointermove', (event) => {
    const row = at(event);
    const { attention } = /** @type {AttentionData} */ (p.data);
    if (row === null) return;
    const { pinned } = attention;
    on.change({
      cursor:
        pinned === null ? { row, col: strongest(p.data, row) } : { row: pinned, col: Math.min(row, pinned) },
    });
  });
  p.list.addEventListener('click', (event) => {
    const row = at(event);
    if (row !== null) pin(p.data, row, on);
  });
  const tell = (/** @type {Partial<import('./types.js').AttentionState>} */ patch) => {
    if (p.data) p.data = { ...p.data, attention: { ...p.data.attention, ...patch } };
    on.change(patch);
  };
  p.list.addEventListener('keydown', (event) => {
    const { attention, tokens } = /** @type {AttentionData} */ (p.data);
    const row = attention.pinned ?? attention.cursor?.row ?? tokens.length - 1;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
    if (event.key === 'Enter' || event.key === ' ') pin(p.data, row, on);
    else if (step) {
      const next = Math.min(tokens.length - 1, Math.max(0, row + step));
      tell({ pinned: null, cursor: { row: next, col: strongest(p.data, next) } });
    } else return;
    event.preventDefault();
  });
}

/**
 * @param {AttentionData | null} data
 * @param {number} row
 * @param {AttentionActions} on
 */
function pin(data, row, on) {
  const same = data?.attention.pinned === row;
  on.change({ pinned: same ? null : row, cursor: { row, col: strongest(data, row) } });
}

/**
 * @param {AttentionData | null} data
 * @param {number} row
 * @returns {number} the key position with the largest weight
 */
function strongest(data, row) {
  const weights = data && rowOf(data.attention.map, data.attention.head, row, data.attention.hideSink);
  let best = 0;
  weights?.forEach((w, k) => {
    if (!(w <= weights[best])) best = Number.isNaN(w) ? best : k;
  });
  return best;
}

/**
 * @param {HTMLElement[]} spans
 * @param {AttentionData} data
 * @param {number | null} chosen  query position
 */
function shade(spans, { attention, theme }, chosen) {
  const { map, head, hideSink, scale, pinned } = attention;
  const weights = chosen === null ? null : rowOf(map, head, chosen, hideSink);
  const top = weights?.reduce((m, w) => (w > m ? w : m), 0) ?? 0;
  const colours = palette(theme);
  spans.forEach((span, k) => {
    const w = weights?.[k];
    const x = w === undefined ? 0 : share(w, top, scale);
    const { css: colour, light } = css(colours, x);
    span.style.backgroundColor = x > 0.02 ? colour : '';
    span.style.color = x > 0.02 ? (light ? '#10141c' : '#f6f4ee') : '';
    span.classList.toggle('chosen', k === chosen);
    span.classList.toggle('pinned', k === pinned);
    span.classList.toggle('later', chosen !== null && k > chosen);
  });
}
