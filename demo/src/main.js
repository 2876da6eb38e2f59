import { createApp } from './app.js';
import { drawAttention } from './attention-view.js';
import { drawCache } from './cache-view.js';
import { drawChat } from './chat-view.js';
import { describeEngine } from './engine.js';
import { isolate } from './isolation.js';
import { drawPicker } from './model-picker.js';
import { readModels } from './models.js';
import { drawNotice } from './notice-view.js';
import { createStore, fromHash, initialState, toHash } from './state.js';
import { drawTabs, shows } from './tabs-view.js';
import { applyTheme, nextTheme, read, savedTheme, seenTheme, write } from './theme.js';
import { drawTopbar } from './topbar-view.js';

/** @typedef {import('./types.js').State} State */

const SETTINGS = 'headlight.settings';
const phone = matchMedia('(max-width: 820px)');
const wide = matchMedia('(min-width: 1560px)');
const dark = matchMedia('(prefers-color-scheme: dark)');

/** @param {string} id */
const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const element = {
  topbar: at('topbar'),
  notice: at('notice'),
  panes: at('panes'),
  tabs: at('tabs'),
  picker: at('model-picker'),
  conversation: at('conversation'),
  chat: at('chat'),
  attention: at('attention'),
  cache: at('cache'),
};

const store = createStore(initialState());
const app = createApp(store);

const on = {
  topbar: {
    pick: () => store.set({ picking: !store.get().picking || !store.get().model }),
    theme: () => setTheme(nextTheme(store.get().theme)),
  },
  notice: { act: onNotice, close: () => store.set({ notice: null }) },
  tabs: { panel: (/** @type {State['panel']} */ panel) => store.set({ panel }) },
  picker: {
    entry: app.openEntry,
    files: app.openFiles,
    url: app.openUrl,
    cancel: app.cancelLoad,
    back: () => store.set({ picking: false }),
  },
  chat: {
    send: app.send,
    stop: app.stop,
    newChat: app.newChat,
    regenerate: app.regenerate,
    edit: app.edit,
    copy,
    settingsOpen: (/** @type {boolean} */ settingsOpen) => store.set({ settingsOpen }),
    settings: (/** @type {State['settings']} */ settings) => {
      store.set({ settings });
      write(SETTINGS, JSON.stringify(settings));
    },
  },
  attention: { layer: app.setLayer, change: app.setAttention },
};

/** @param {'reload' | 'new-chat'} action */
function onNotice(action) {
  store.set({ notice: null });
  if (action === 'reload') void app.openAgain();
  else void app.newChat();
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const why = 'The browser does not let this page write to the clipboard. Select the text and copy it.';
    store.set({ notice: { kind: 'info', title: 'Not copied', text: why } });
  }
}

/** @param {State['theme']} theme */
function setTheme(theme) {
  applyTheme(theme);
  store.set({ theme });
}

/** @param {State} state */
function draw(state) {
  const theme = seenTheme(state.theme);
  document.documentElement.dataset.layout = state.layout;
  drawTopbar(element.topbar, state, on.topbar);
  drawNotice(element.notice, state, on.notice);
  drawTabs(element.tabs, state, on.tabs);
  drawPicker(element.picker, state, on.picker);
  for (const panel of /** @type {const} */ (['chat', 'attention', 'cache'])) {
    element[panel].hidden = !shows(state, panel);
    const alone = state.layout === 'three' || (state.layout === 'two' && panel === 'chat');
    element[panel].setAttribute('role', alone ? 'region' : 'tabpanel');
  }
  if (shows(state, 'chat')) drawChat(element.conversation, state, on.chat);
  if (shows(state, 'attention')) {
    drawAttention(element.attention, { ...state, theme, ...inside(element.attention) }, on.attention);
  }
  if (shows(state, 'cache')) drawCache(element.cache, { ...state, ...inside(element.cache) });
  const hash = `#${toHash(state)}`;
  if (location.hash !== hash) history.replaceState(null, '', hash);
}

/**
 * @param {HTMLElement} pane
 * @returns {{ width: number, height: number }} CSS pixels between its paddings
 */
function inside(pane) {
  const { paddingLeft, paddingRight, paddingTop, paddingBottom } = getComputedStyle(pane);
  const width = Math.floor(pane.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
  return {
    width,
    height: Math.floor(pane.clientHeight - parseFloat(paddingTop) - parseFloat(paddingBottom)),
  };
}

function readHash() {
  const { panel, layer, head, view } = fromHash(location.hash);
  const { attention, model } = store.get();
  if (panel) store.set({ panel });
  store.setAttention({ head: head ?? attention.head, view: view ?? attention.view });
  if (layer === undefined) return;
  if (model) app.setLayer(layer);
  else store.setAttention({ layer });
}

/** @returns {Partial<State>} */
function savedSettings() {
  try {
    const saved = JSON.parse(read(SETTINGS) ?? '{}');
    return { settings: { ...store.get().settings, ...saved } };
  } catch {
    return {};
  }
}

function followWindow() {
  const layout = phone.matches ? 'phone' : wide.matches ? 'three' : 'two';
  store.set({ layout });
}

function takeDrops() {
  document.addEventListener('dragover', (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    document.body.classList.add('dropping');
  });
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) document.body.classList.remove('dropping');
  });
  document.addEventListener('drop', (event) => {
    document.body.classList.remove('dropping');
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    void app.openFiles(files);
  });
}

async function start() {
  store.subscribe(draw);
  store.set(savedSettings());
  setTheme(savedTheme());
  followWindow();
  readHash();
  phone.addEventListener('change', followWindow);
  wide.addEventListener('change', followWindow);
  dark.addEventListener('change', () => store.set({}));
  addEventListener('resize', () => store.set({}));
  addEventListener('hashchange', readHash);
  takeDrops();
  if (await isolate()) return;
  try {
    const [models, engine] = await Promise.all([readModels(), describeEngine()]);
    store.set({ models, engine });
  } catch (error) {
    app.fail(error);
  }
}

void start();
