import { h, setText, skeleton } from './dom.js';
import { bytes, seconds } from './format.js';
import { ARCHITECTURES } from './models.js';

/** @typedef {import('./types.js').State} State */
/** @typedef {import('./types.js').ModelEntry} ModelEntry */

/**
 * @typedef {object} PickerActions
 * @property {(entry: ModelEntry) => void} entry
 * @property {(files: File[]) => void} files one model: its file, or all parts of a split one
 * @property {(url: string) => void} url
 * @property {() => void} cancel
 * @property {() => void} back
 */

const parts = skeleton((element) => {
  element.className = 'picker';
  const list = h('ul', { class: 'models', 'aria-label': 'Models' });
  const file = h('input', {
    type: 'file',
    id: 'file',
    class: 'unseen',
    accept: '.gguf',
    multiple: true,
    'data-testid': 'file',
  });
  const open = h('label', { for: 'file', class: 'button', text: 'Open a .gguf file' });
  const drop = h(
    'div',
    { class: 'drop' },
    file,
    open,
    h('p', { text: 'or drop one anywhere on this page; all parts of a split model together' }),
  );
  const url = h('input', {
    type: 'url',
    id: 'url',
    placeholder: 'https://…/model.gguf',
    autocomplete: 'off',
    spellcheck: 'false',
    'data-testid': 'url',
  });
  const go = h('button', { type: 'submit', text: 'Fetch', 'data-testid': 'url-open' });
  const field = h('div', { class: 'field' }, url, go);
  const form = h(
    'form',
    { class: 'url', novalidate: true },
    h('label', { for: 'url', text: 'From an address' }),
    field,
  );
  const kinds = h('p', {
    class: 'kinds',
    text: `Files of these architectures run: ${ARCHITECTURES.join(', ')}.`,
  });
  const back = h('button', {
    type: 'button',
    class: 'quiet',
    'data-testid': 'picker-back',
    text: '← Back to the chat',
  });
  const choose = h('div', { class: 'choose' }, list, h('div', { class: 'own' }, drop, form, kinds), back);
  const bar = loadingBar();
  const why = h('p', { class: 'why', 'data-testid': 'engine-why' });
  element.append(hero(), bar.element, choose, why);
  return { list, why, file, form, url, back, choose, bar, wired: false, drawn: '' };
});

function hero() {
  const title = h('h2', {}, 'A language model,', h('br'), 'running in this page.');
  const lead =
    'Chat with it, and look inside: which tokens each attention head reads, and how its memory grows. ' +
    'Nothing you type leaves this machine.';
  return h('div', { class: 'hero' }, title, h('p', { text: lead }));
}

function loadingBar() {
  const title = h('b', { class: 'load-title' });
  const progress = h('progress', {
    id: 'load-bar',
    'data-testid': 'load-bar',
    'aria-label': 'Loading the model',
  });
  const text = h('p', { class: 'load-text', 'data-testid': 'load-text' });
  const cancel = h('button', { type: 'button', 'data-testid': 'load-cancel', text: 'Cancel' });
  const element = h('div', { class: 'loading', hidden: true }, title, progress, text, cancel);
  return { element, title, progress, text, cancel };
}

/**
 * @param {HTMLElement} element
 * @param {Pick<State, 'models' | 'load' | 'model' | 'picking' | 'engine'>} data
 * @param {PickerActions} on
 */
export function drawPicker(element, data, on) {
  const p = parts(element);
  if (!p.wired) wire(p, on);
  element.hidden = !data.picking;
  p.choose.hidden = data.load !== null;
  p.bar.element.hidden = data.load === null;
  p.back.hidden = data.model === null;
  setText(p.why, data.engine?.why ?? '');
  if (data.load) drawLoad(p.bar, data.load);
  const key = JSON.stringify(data.models);
  if (key === p.drawn) return;
  p.drawn = key;
  p.list.replaceChildren(...data.models.map((entry) => card(entry, on)));
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {PickerActions} on
 */
function wire(p, on) {
  p.wired = true;
  p.file.addEventListener('change', () => {
    const files = [...(p.file.files ?? [])];
    p.file.value = '';
    if (files.length > 0) on.files(files);
  });
  p.form.addEventListener('submit', (event) => {
    event.preventDefault();
    on.url(p.url.value);
  });
  p.bar.cancel.addEventListener('click', on.cancel);
  p.back.addEventListener('click', on.back);
}

/**
 * @param {ModelEntry} entry
 * @param {PickerActions} on
 */
function card(entry, on) {
  const action = entry.beside ? 'Load' : `Download ${bytes(entry.size)}`;
  const facts = [bytes(entry.size), entry.architecture, entry.licence].filter(Boolean).join(' · ');
  const about = h(
    'div',
    {},
    h('h3', { text: entry.name }),
    h('p', { text: entry.note }),
    h('small', { text: facts }),
  );
  const load = h('button', {
    type: 'button',
    class: 'primary',
    'data-testid': `load-${entry.id}`,
    'aria-label': `${action}: ${entry.name}`,
    text: action,
    onclick: () => on.entry(entry),
  });
  return h('li', {}, about, load);
}

/**
 * @param {ReturnType<typeof loadingBar>} bar
 * @param {NonNullable<State['load']>} load
 */
function drawLoad(bar, load) {
  setText(bar.title, `Loading ${load.name}`);
  if (load.total > 0) {
    bar.progress.max = load.total;
    bar.progress.value = load.loaded;
  } else {
    bar.progress.removeAttribute('value');
  }
  setText(bar.text, loadWords(load));
}

/**
 * @param {NonNullable<State['load']>} load
 * @returns {string}
 */
export function loadWords({ loaded, total, bytesPerSecond, fromStore }) {
  const words = [total > 0 ? `${bytes(loaded)} of ${bytes(total)}` : bytes(loaded)];
  if (fromStore) words.push('from this browser’s store');
  if (bytesPerSecond > 0) words.push(`${bytes(bytesPerSecond)}/s`);
  if (bytesPerSecond > 0 && total > loaded) words.push(`${seconds((total - loaded) / bytesPerSecond)} left`);
  return words.join(' · ');
}
