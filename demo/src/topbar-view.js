import { h, setText, skeleton } from './dom.js';
import { bytes } from './format.js';

/** @typedef {import('./types.js').State} State */

const THEME = { system: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' };
const THEME_MARK = { system: '◐', light: '☀', dark: '☾' };

const parts = skeleton((element) => {
  const model = h('button', {
    type: 'button',
    class: 'pill model',
    id: 'model-pill',
    'data-testid': 'model-pill',
  });
  const engine = h('p', { class: 'engine', id: 'engine-status', 'data-testid': 'engine-status' });
  const theme = h('button', { type: 'button', class: 'icon', id: 'theme', 'data-testid': 'theme' });
  const mark = h('img', { src: './favicon.svg', alt: '', width: 28, height: 28 });
  const brand = h('h1', { class: 'brand' }, mark, h('span', { text: 'Headlight' }));
  element.append(brand, model, engine, theme);
  return { model, engine, theme, wired: false };
});

/**
 * @param {HTMLElement} element
 * @param {Pick<State, 'model' | 'engine' | 'theme' | 'picking'>} data
 * @param {{ pick: () => void, theme: () => void }} on
 */
export function drawTopbar(element, data, on) {
  const p = parts(element);
  if (!p.wired) {
    p.model.addEventListener('click', on.pick);
    p.theme.addEventListener('click', on.theme);
    p.wired = true;
  }
  drawModel(p.model, data);
  drawEngine(p.engine, data.engine);
  setText(p.theme, THEME_MARK[data.theme]);
  p.theme.setAttribute('aria-label', THEME[data.theme]);
  p.theme.title = THEME[data.theme];
}

/**
 * @param {HTMLElement} button
 * @param {Pick<State, 'model' | 'picking'>} data
 */
function drawModel(button, { model, picking }) {
  button.hidden = !model;
  if (!model) return;
  button.setAttribute('aria-expanded', String(picking));
  const heads = `${model.kind} ${model.heads}:${model.kvHeads}`;
  const words = [heads, model.quantization, model.bytes ? bytes(model.bytes) : ''].filter(Boolean);
  button.replaceChildren(h('b', { text: model.name }), h('span', { text: words.join(' · ') }));
  button.title = `${model.name}: ${model.architecture}, ${model.layers} layers, ${words.join(', ')}. Choose another model.`;
}

/**
 * @param {HTMLElement} element
 * @param {State['engine']} engine
 */
function drawEngine(element, engine) {
  if (!engine) return;
  const threads = engine.threads === 1 ? '1 thread' : `${engine.threads} threads`;
  const words = [threads, engine.variant, engine.isolated ? '' : 'not isolated'];
  setText(element, words.filter(Boolean).join(' · '));
  element.title = engine.why || 'The page is isolated, so threads can share memory.';
  element.classList.toggle('limited', engine.why !== '');
}
