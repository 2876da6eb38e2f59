import { h, setText, skeleton } from './dom.js';
import { count, rate } from './format.js';
import { renderMarkdown } from './markdown.js';
import { drawSettings } from './settings-view.js';

/** @typedef {import('./types.js').State} State */
/** @typedef {import('./types.js').ChatMessage} ChatMessage */

/**
 * @typedef {Pick<State, 'messages' | 'streaming' | 'editing' | 'settings' | 'settingsOpen' | 'context' | 'picking' | 'model'>} ChatData
 *
 * @typedef {object} ChatActions
 * @property {(text: string) => void} send
 * @property {() => void} stop
 * @property {() => void} newChat
 * @property {() => void} regenerate
 * @property {(id: number | null) => void} edit
 * @property {(text: string) => void} copy
 * @property {(open: boolean) => void} settingsOpen
 * @property {(settings: import('./types.js').Settings) => void} settings
 */

const SUGGESTIONS = [
  'What is the capital of France?',
  'Explain gravity to a child.',
  'Write a short poem about headlights in fog.',
];

/** A scrolled distance from the end, in pixels, below which new text keeps the end in sight. */
const NEAR_END = 80;

const parts = skeleton((element) => {
  element.className = 'conversation';
  const empty = h('div', { class: 'empty' });
  const list = h('div', { class: 'messages', 'data-testid': 'messages' });
  const log = h(
    'div',
    { class: 'log', role: 'region', 'aria-label': 'Conversation', tabindex: 0 },
    empty,
    list,
  );
  const live = h('div', { class: 'unseen', 'aria-live': 'polite', 'data-testid': 'chat-live' });
  const composer = makeComposer();
  const settings = h('div', { id: 'settings' });
  element.append(log, live, settings, composer.form);
  /** @type {Map<number, ReturnType<typeof makeMessage>>} */
  const drawn = new Map();
  return {
    empty,
    list,
    log,
    live,
    settings,
    ...composer,
    drawn,
    editing: /** @type {number | null} */ (null),
    picking: true,
    wired: false,
  };
});

function makeComposer() {
  const prompt = h('textarea', {
    id: 'prompt',
    rows: 1,
    placeholder: 'Ask something…',
    'aria-label': 'Message',
    'data-testid': 'prompt',
  });
  const send = h('button', { type: 'submit', class: 'primary send', 'data-testid': 'send', text: 'Send' });
  const stop = h('button', { type: 'button', class: 'primary send', 'data-testid': 'stop', text: 'Stop' });
  const open = h('button', {
    type: 'button',
    class: 'quiet',
    'data-testid': 'settings-toggle',
    'aria-controls': 'settings',
    text: 'Settings',
  });
  const fresh = h('button', { type: 'button', class: 'quiet', 'data-testid': 'new-chat', text: 'New chat' });
  const editing = h('button', {
    type: 'button',
    class: 'quiet',
    'data-testid': 'edit-cancel',
    text: 'Cancel the edit',
  });
  const bar = h('meter', { min: 0, 'data-testid': 'context-meter', 'aria-label': 'Context in use' });
  const meter = h('span', { class: 'context-text', 'data-testid': 'context-text' });
  const foot = h('div', { class: 'foot' }, open, fresh, editing, h('span', { class: 'context' }, meter, bar));
  const box = h('div', { class: 'box' }, prompt, send, stop);
  const form = h('form', { class: 'composer' }, box, foot);
  return { form, prompt, send, stop, open, fresh, cancelEdit: editing, bar, meter };
}

/**
 * @param {HTMLElement} element
 * @param {ChatData} data
 * @param {ChatActions} on
 */
export function drawChat(element, data, on) {
  const p = parts(element);
  if (!p.wired) wire(p, on);
  element.hidden = data.picking;
  drawSettings(p.settings, { settings: data.settings, open: data.settingsOpen }, { change: on.settings });
  drawComposer(p, data);
  if (p.picking && !data.picking && document.activeElement === document.body) p.prompt.focus();
  p.picking = data.picking;
  const atEnd = p.log.scrollHeight - p.log.scrollTop - p.log.clientHeight < NEAR_END;
  drawMessages(p, data, on);
  if (atEnd) p.log.scrollTop = p.log.scrollHeight;
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {ChatActions} on
 */
function wire(p, on) {
  p.wired = true;
  const submit = () => {
    const text = p.prompt.value;
    if (!text.trim() || p.send.disabled || p.send.hidden) return;
    p.prompt.value = '';
    fit(p.prompt);
    p.log.scrollTop = p.log.scrollHeight;
    on.send(text);
  };
  p.form.addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  p.prompt.addEventListener('input', () => fit(p.prompt));
  p.prompt.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  p.stop.addEventListener('click', () => {
    on.stop();
    p.prompt.focus();
  });
  p.fresh.addEventListener('click', () => {
    on.newChat();
    p.prompt.focus();
  });
  p.cancelEdit.addEventListener('click', () => on.edit(null));
  p.open.addEventListener('click', () => on.settingsOpen(p.settings.hidden !== false));
  p.settings.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    on.settingsOpen(false);
    p.open.focus();
  });
  const buttons = SUGGESTIONS.map((text) =>
    h('button', { type: 'button', class: 'suggestion', text, onclick: () => on.send(text) }),
  );
  p.empty.append(h('p', { text: 'Ready. Ask anything, or begin with one of these:' }), ...buttons);
}

/**
 * Makes a text field as high as its text, where the style sheet cannot.
 * @param {HTMLTextAreaElement} field
 */
function fit(field) {
  if (CSS.supports('field-sizing', 'content')) return;
  field.style.height = 'auto';
  field.style.height = `${field.scrollHeight}px`;
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {ChatData} data
 */
function drawComposer(p, { streaming, editing, settingsOpen, context, messages, model }) {
  p.send.hidden = streaming;
  p.stop.hidden = !streaming;
  p.send.disabled = !model;
  p.open.setAttribute('aria-expanded', String(settingsOpen));
  p.fresh.disabled = messages.length === 0;
  p.cancelEdit.hidden = editing === null;
  if (p.editing !== editing) {
    p.editing = editing;
    p.prompt.value = messages.find((m) => m.id === editing)?.content ?? '';
    p.prompt.focus();
  }
  const { used, limit } = context;
  p.bar.max = Math.max(1, limit);
  p.bar.high = 0.85 * limit;
  p.bar.optimum = 0;
  p.bar.value = used;
  p.bar.title = `${count(used)} of ${count(limit)} positions of the context are in use`;
  setText(p.meter, `${count(used)} / ${count(limit)}`);
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {ChatData} data
 * @param {ChatActions} on
 */
function drawMessages(p, { messages, streaming, editing }, on) {
  p.empty.hidden = messages.length > 0;
  const ids = new Set(messages.map((m) => m.id));
  for (const [id, old] of p.drawn) {
    if (ids.has(id)) continue;
    old.element.remove();
    p.drawn.delete(id);
  }
  messages.forEach((message, i) => {
    let drawn = p.drawn.get(message.id);
    if (!drawn) {
      drawn = makeMessage(message, on);
      p.drawn.set(message.id, drawn);
      p.list.append(drawn.element);
    }
    const last = i === messages.length - 1;
    drawMessage(drawn, message, { streaming: streaming && last, last, editing: editing === message.id });
    if (message.role === 'assistant' && last) announce(p.live, drawn, message, streaming);
  });
}

/**
 * @param {ChatMessage} message
 * @param {ChatActions} on
 */
function makeMessage(message, on) {
  const mine = message.role === 'user';
  const body = h('div', { class: 'body' });
  const stats = h('span', { class: 'stats', 'data-testid': 'stats' });
  const button = { type: 'button', class: 'quiet small' };
  const again = h('button', {
    ...button,
    text: 'Regenerate',
    'data-testid': 'regenerate',
    onclick: on.regenerate,
  });
  const copy = h('button', {
    ...button,
    text: 'Copy',
    'data-testid': 'copy',
    onclick: () => on.copy(message.content),
  });
  const edit = h('button', {
    ...button,
    text: 'Edit',
    'data-testid': 'edit',
    onclick: () => on.edit(message.id),
  });
  const foot = mine ? h('footer', {}, copy, edit) : h('footer', {}, copy, again, stats);
  const element = h(
    'article',
    { class: `message ${message.role}`, 'data-testid': `message-${message.role}` },
    h('h3', { class: 'unseen', text: mine ? 'You' : 'Model' }),
    body,
    foot,
  );
  return { element, body, stats, again, foot, text: /** @type {string | null} */ (null), announced: 0 };
}

/**
 * @param {ReturnType<typeof makeMessage>} drawn
 * @param {ChatMessage} message
 * @param {{ streaming: boolean, last: boolean, editing: boolean }} now
 */
function drawMessage(drawn, message, { streaming, last, editing }) {
  drawn.element.classList.toggle('streaming', streaming);
  drawn.element.classList.toggle('waiting', streaming && message.content === '');
  drawn.element.classList.toggle('editing', editing);
  drawn.element.setAttribute('aria-busy', String(streaming));
  drawn.foot.classList.toggle('off', streaming);
  drawn.again.hidden = !last;
  if (drawn.text !== message.content) {
    drawn.text = message.content;
    if (message.role === 'user') drawn.body.textContent = message.content;
    else drawn.body.replaceChildren(renderMarkdown(message.content));
  }
  setText(drawn.stats, message.stats ? statsWords(message.stats) : message.failed ? 'Not finished' : '');
}

/**
 * @param {import('./types.js').AnswerStats} stats
 * @returns {string}
 */
export function statsWords(stats) {
  const answer = `${count(stats.answerTokens)} tokens at ${rate(stats.answerRate)}/s`;
  const reused = stats.cachedTokens > 0 ? `, ${count(stats.cachedTokens)} reused` : '';
  const prompt = `prompt ${count(stats.promptTokens)} at ${rate(stats.promptRate)}/s${reused}`;
  const end = { abort: 'stopped', length: 'longest answer reached', full: 'context full' }[stats.finish];
  return [answer, prompt, `seed ${stats.seed}`, end].filter(Boolean).join(' · ');
}

/**
 * Reads streamed text out by sentences: a live region that changes with every token cannot be followed.
 * @param {HTMLElement} live
 * @param {ReturnType<typeof makeMessage>} drawn
 * @param {ChatMessage} message
 * @param {boolean} streaming
 */
function announce(live, drawn, message, streaming) {
  const rest = message.content.slice(drawn.announced);
  const end = streaming ? rest.search(/[.!?:]\s(?![\s\S]*[.!?:]\s)/) + 1 : rest.length;
  if (end <= 0) return;
  drawn.announced += end;
  live.textContent = rest.slice(0, end).trim();
}
