import { addRows, emptyMap, missing, truncate } from './attention-map.js';
import { contextFull, explain, isAbort, refuseFile } from './errors.js';
import { openModel } from './engine.js';

/**
 * @typedef {import('./state.js').Store} Store
 * @typedef {import('./engine.js').Engine} Engine
 * @typedef {import('./types.js').ModelEntry} ModelEntry
 * @typedef {import('./types.js').ChatMessage} ChatMessage
 */

/**
 * What a person can do. Between the engine and the state; no element is touched here.
 * @param {Store} store
 */
export function createApp(store) {
  /** @type {Engine | null} */
  let engine = null;
  /** @type {(() => Promise<void>) | null} opens the last model again */
  let openAgain = null;
  /** @type {AbortController | null} */
  let loading = null;
  /** @type {AbortController | null} */
  let answering = null;
  /** @type {AbortController | null} */
  let filling = null;
  /** @type {() => void} */
  let unwatch = () => {};
  let nextId = 1;

  /** @param {unknown} error */
  function fail(error) {
    if (isAbort(error)) return;
    store.set({ notice: explain(error) });
    if (/** @type {{ code?: string }} */ (error)?.code === 'WORKER_LOST') void lose();
  }

  async function lose() {
    unwatch();
    const lost = engine;
    engine = null;
    store.set({ model: null, picking: true, streaming: false });
    await lost?.dispose().catch(() => {});
  }

  /**
   * @param {import('headlight-wasm').Source} source
   * @param {string} name
   * @param {{ sha256?: string, bytes?: number }} [about]
   */
  async function open(source, name, about = {}) {
    loading?.abort();
    answering?.abort();
    const controller = new AbortController();
    loading = controller;
    openAgain = () => open(source, name, about);
    await lose();
    const total = about.bytes ?? 0;
    store.set({
      notice: null,
      load: { name, stage: 'start', loaded: 0, total, bytesPerSecond: 0, fromStore: false },
    });
    try {
      const opened = await openModel(source, {
        name,
        ...about,
        signal: controller.signal,
        onProgress: (progress) => {
          if (loading === controller)
            store.set({ load: { ...progress, name, total: progress.total || total } });
        },
      });
      if (loading !== controller) return void opened.dispose();
      begin(opened);
    } catch (error) {
      if (loading === controller) fail(error);
    } finally {
      if (loading === controller) {
        loading = null;
        store.set({ load: null });
      }
    }
  }

  /** @param {Engine} opened */
  function begin(opened) {
    engine = opened;
    const { attention, messages } = store.get();
    const layer = Math.min(attention.layer, opened.info.layers - 1);
    const head = Math.min(attention.head, opened.info.heads - 1);
    store.set({ model: opened.info, picking: false, tokens: [], context: { used: 0, limit: opened.limit } });
    store.setAttention({
      layer,
      head,
      map: emptyMap(layer),
      cursor: null,
      pinned: null,
      zoom: 1,
      filling: false,
    });
    store.setCache({ samples: [], plan: opened.plan, type: opened.cacheType, blocks: [] });
    if (messages.some((m) => m.failed)) store.set({ messages: messages.filter((m) => !m.failed) });
    if (opened.warnings.length > 0) {
      store.set({ notice: { kind: 'info', title: 'About this model', text: opened.warnings.join(' ') } });
    }
    watch();
    void askCache();
  }

  function watch() {
    unwatch();
    if (engine) unwatch = engine.watch(store.get().attention.layer, onStep, () => store.set({}));
  }

  /** @param {import('./engine.js').Step} step */
  function onStep(step) {
    const { attention, tokens, context } = store.get();
    const rows = step.attention[attention.layer];
    if (rows) addRows(attention.map, step.position, rows);
    tokens.length = Math.min(tokens.length, step.position);
    tokens.push(...step.tokens);
    store.set({ tokens, context: { ...context, used: step.position + step.tokens.length } });
    store.setAttention({ version: attention.version + 1 });
    lookAt(step.cache);
  }

  /** @param {import('./engine.js').CacheLook} look */
  function lookAt({ positions, used, reserved, type, blockPositions, blocks }) {
    const samples = store.get().cache.samples.filter((sample) => sample.positions < positions);
    samples.push({ positions, used, reserved });
    store.setCache({ samples, type, blockPositions, blocks });
  }

  async function askCache() {
    const asked = engine;
    try {
      const look = await asked?.cache();
      if (look && asked === engine) lookAt(look);
    } catch (error) {
      fail(error);
    }
  }

  /** @param {string} text */
  async function send(text) {
    const { messages, editing, streaming } = store.get();
    if (streaming || !engine || !text.trim()) return;
    const at = editing === null ? messages.length : messages.findIndex((m) => m.id === editing);
    const kept = messages.slice(0, at).filter((m) => !m.failed);
    kept.push({ id: nextId++, role: 'user', content: text.trim() });
    store.set({ messages: kept, editing: null, settingsOpen: false });
    await answer();
  }

  async function regenerate() {
    const { messages, streaming } = store.get();
    const last = messages.findLastIndex((m) => m.role === 'user');
    if (streaming || !engine || last < 0) return;
    store.set({ messages: messages.slice(0, last + 1) });
    await answer();
  }

  async function answer() {
    if (!engine) return;
    filling?.abort();
    const controller = new AbortController();
    answering = controller;
    const asked = engine;
    const { messages, settings } = store.get();
    /** @type {ChatMessage} */
    const reply = { id: nextId++, role: 'assistant', content: '' };
    store.set({ messages: [...messages, reply], streaming: true, notice: null });
    try {
      reply.stats = await asked.answer(messages, settings, controller.signal, (text) => {
        reply.content += text;
        store.set({});
      });
      const { context } = store.get();
      if (reply.stats.finish === 'full') store.set({ notice: contextFull(context.used, context.limit) });
    } catch (error) {
      reply.failed = true;
      fail(error);
    } finally {
      if (answering === controller) answering = null;
      store.set({ streaming: answering !== null });
    }
    if (asked !== engine) return;
    await askCache();
    void fill();
  }

  /** Computes the rows of the chosen layer that were evaluated before it was chosen. */
  async function fill() {
    const { attention, tokens } = store.get();
    const { map } = attention;
    map.rows.length = Math.max(map.rows.length, tokens.length);
    if (!engine || answering || missing(map) === 0) return;
    filling?.abort();
    const controller = new AbortController();
    filling = controller;
    store.setAttention({ filling: true });
    try {
      const ids = tokens.map((token) => token.id);
      const fresh = emptyMap(map.layer);
      await engine.replay(ids, map.layer, controller.signal, (step) => {
        if (filling !== controller) return;
        addRows(fresh, step.position, step.attention[map.layer]);
        store.setAttention({ map: fresh, version: store.get().attention.version + 1 });
      });
    } catch (error) {
      fail(error);
    } finally {
      if (filling === controller) {
        filling = null;
        store.setAttention({ filling: false });
      }
    }
  }

  return {
    /** @param {ModelEntry} entry */
    openEntry(entry) {
      const source = entry.beside ? new URL(`models/${entry.file}`, document.baseURI) : entry.urls[0];
      return open(source, entry.name, { sha256: entry.sha256, bytes: entry.size });
    },

    /** @param {File[]} files  one model: its file, or the parts of a split one, whose names are in their order */
    async openFiles(files) {
      const parts = files.toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const notices = await Promise.all(parts.map((file) => refuseFile(file).catch(explain)));
      const notice = notices.find((one) => one !== null);
      const name = parts[0].name.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '');
      const size = parts.reduce((sum, file) => sum + file.size, 0);
      if (notice) store.set({ notice });
      else await open(parts, name, { bytes: size });
    },

    /** @param {string} text  an address as typed */
    async openUrl(text) {
      const url = URL.canParse(text.trim(), document.baseURI) ? new URL(text.trim(), document.baseURI) : null;
      if (!text.trim() || !url || !/^https?:$/.test(url.protocol)) {
        const title = 'That is not an address';
        store.set({
          notice: {
            kind: 'error',
            title,
            text: 'Give the address of a .gguf file, beginning with https://.',
          },
        });
        return;
      }
      const file = decodeURIComponent(url.pathname.split('/').pop() ?? '');
      const name = file.replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '');
      await open(url, name || url.hostname);
    },

    openAgain: () => openAgain?.(),

    cancelLoad() {
      loading?.abort();
      loading = null;
      store.set({ load: null });
    },

    send,
    regenerate,
    stop: () => answering?.abort(),

    async newChat() {
      answering?.abort();
      filling?.abort();
      const { attention, context } = store.get();
      store.set({ messages: [], editing: null, tokens: [], notice: null, context: { ...context, used: 0 } });
      store.setAttention({ map: emptyMap(attention.layer), version: 0, cursor: null, pinned: null, zoom: 1 });
      store.setCache({ samples: [], blocks: [] });
      try {
        await engine?.clear();
        truncate(store.get().attention.map, 0);
        await askCache();
        store.set({ tokens: [], context: { ...store.get().context, used: 0 } });
      } catch (error) {
        fail(error);
      }
    },

    /** @param {number | null} id */
    edit: (id) => store.set({ editing: id }),

    /** @param {number} layer */
    setLayer(layer) {
      const { attention, model } = store.get();
      const last = (model?.layers ?? 1) - 1;
      const chosen = Math.min(Math.max(0, layer), last);
      if (chosen === attention.layer) return;
      filling?.abort();
      store.setAttention({ layer: chosen, map: emptyMap(chosen), version: 0 });
      watch();
      void fill();
    },

    /** @param {Partial<import('./types.js').State>} patch */
    set: (patch) => store.set(patch),
    /** @param {Partial<import('./types.js').AttentionState>} patch */
    setAttention: (patch) => store.setAttention(patch),
    fail,
  };
}

/** @typedef {ReturnType<typeof createApp>} App */
