import { emptyMap } from './attention-map.js';

/** @typedef {import('./types.js').State} State */

/**
 * @returns {State}
 */
export function initialState() {
  return {
    layout: 'two',
    panel: 'chat',
    theme: 'system',
    engine: null,
    models: [],
    picking: true,
    load: null,
    model: null,
    notice: null,
    messages: [],
    streaming: false,
    editing: null,
    settingsOpen: false,
    settings: defaultSettings(),
    context: { used: 0, limit: 0 },
    tokens: [],
    attention: {
      layer: 0,
      head: -1,
      view: 'map',
      scale: 'linear',
      hideSink: true,
      table: false,
      cursor: null,
      pinned: null,
      zoom: 1,
      map: emptyMap(0),
      version: 0,
      filling: false,
    },
    cache: { samples: [], plan: null, type: 'f16', blockPositions: 0, blocks: [] },
  };
}

/**
 * Temperature and top-p as SmolLM2's makers use them.
 * @returns {import('./types.js').Settings}
 */
export function defaultSettings() {
  return { system: '', temperature: 0.2, topP: 0.9, seed: '', maxTokens: 512 };
}

/** Between two drawings while text streams, in milliseconds: the page shares its cores with the engine. */
const STREAM_FRAME = 45;

/**
 * Holds the state and tells who listens, once a frame, however many changes there were; less often while text streams.
 * @param {State} state
 */
export function createStore(state) {
  /** @type {((state: State) => void)[]} */
  const listeners = [];
  let due = false;
  let told = 0;

  /** @param {number} now  milliseconds */
  function tell(now) {
    if (state.streaming && now - told < STREAM_FRAME) return void requestAnimationFrame(tell);
    told = now;
    due = false;
    for (const listener of listeners) listener(state);
  }

  return {
    /** @returns {State} */
    get: () => state,

    /** @param {Partial<State>} patch */
    set(patch) {
      Object.assign(state, patch);
      if (due) return;
      due = true;
      requestAnimationFrame(tell);
    },

    /** @param {Partial<State['attention']>} patch */
    setAttention(patch) {
      this.set({ attention: { ...state.attention, ...patch } });
    },

    /** @param {Partial<State['cache']>} patch */
    setCache(patch) {
      this.set({ cache: { ...state.cache, ...patch } });
    },

    /** @param {(state: State) => void} listener */
    subscribe(listener) {
      listeners.push(listener);
    },
  };
}

/** @typedef {ReturnType<typeof createStore>} Store */

const PANELS = ['chat', 'attention', 'cache'];

/**
 * What of the state is in the address, so that a view can be sent to somebody.
 * @param {State} state
 * @returns {string} without the #
 */
export function toHash({ panel, attention }) {
  const words = new URLSearchParams({ panel, layer: String(attention.layer) });
  words.set('head', attention.head < 0 ? 'mean' : String(attention.head));
  if (attention.view !== 'map') words.set('view', attention.view);
  return words.toString();
}

/**
 * @param {string} hash  location.hash
 * @returns {{ panel?: State['panel'], layer?: number, head?: number, view?: 'map' | 'text' }} what it says and makes sense
 */
export function fromHash(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, ''));
  /** @type {ReturnType<typeof fromHash>} */
  const found = {};
  const panel = words.get('panel') ?? '';
  if (PANELS.includes(panel)) found.panel = /** @type {State['panel']} */ (panel);
  const layer = words.get('layer') ?? '';
  if (/^\d{1,4}$/.test(layer)) found.layer = Number(layer);
  const head = words.get('head') ?? '';
  if (head === 'mean') found.head = -1;
  else if (/^\d{1,4}$/.test(head)) found.head = Number(head);
  if (words.get('view') === 'text') found.view = 'text';
  return found;
}
