import { h, skeleton } from './dom.js';

/** @typedef {import('./types.js').Settings} Settings */

/** @type {{ name: 'temperature' | 'topP' | 'maxTokens', label: string, help: string, min: number, max: number, step: number }[]} */
const RANGES = [
  {
    name: 'temperature',
    label: 'Temperature',
    help: 'How freely it chooses. 0 always takes the likeliest token; above 1 it gets wild.',
    min: 0,
    max: 2,
    step: 0.05,
  },
  {
    name: 'topP',
    label: 'Top-p',
    help: 'Only the likeliest tokens that together reach this probability are candidates. 1 leaves all.',
    min: 0.05,
    max: 1,
    step: 0.05,
  },
  {
    name: 'maxTokens',
    label: 'Longest answer',
    help: 'In tokens; a token is about three quarters of an English word.',
    min: 16,
    max: 2048,
    step: 16,
  },
];

const parts = skeleton((element) => {
  element.className = 'settings';
  const system = h('textarea', {
    id: 'system',
    rows: 3,
    'data-testid': 'system',
    placeholder: 'As the model’s maker set it',
    'aria-describedby': 'system-help',
  });
  const ranges = RANGES.map(rangeField);
  const seed = h('input', {
    id: 'seed',
    inputmode: 'numeric',
    pattern: '[0-9]*',
    autocomplete: 'off',
    placeholder: 'new each time',
    'data-testid': 'seed',
    'aria-describedby': 'seed-help',
  });
  const systemHelp = 'Who the model should be. It is put before the conversation.';
  const seedHelp = 'The same seed gives the same answer again. Empty: a new one for each answer.';
  element.append(
    field('system', 'System prompt', system, systemHelp),
    ...ranges.map((range) => range.element),
    field('seed', 'Seed', seed, seedHelp),
  );
  return { system, ranges, seed, wired: false };
});

/**
 * @param {string} id
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string} help
 */
function field(id, label, input, help) {
  const words = h('small', { id: `${id}-help`, text: help });
  return h('div', { class: 'setting' }, h('label', { for: id, text: label }), input, words);
}

/** @param {typeof RANGES[number]} about */
function rangeField({ name, label, help, min, max, step }) {
  const value = h('output', { for: name });
  const input = h('input', {
    type: 'range',
    id: name,
    min,
    max,
    step,
    'data-testid': name,
    'aria-describedby': `${name}-help`,
  });
  const head = h('div', { class: 'range-head' }, h('label', { for: name, text: label }), value);
  const element = h('div', { class: 'setting' }, head, input, h('small', { id: `${name}-help`, text: help }));
  return { name, element, input, value };
}

/**
 * @param {HTMLElement} element
 * @param {{ settings: Settings, open: boolean }} data
 * @param {{ change: (settings: Settings) => void }} on
 */
export function drawSettings(element, { settings, open }, on) {
  const p = parts(element);
  if (!p.wired) wire(p, on);
  element.hidden = !open;
  if (p.system !== document.activeElement) p.system.value = settings.system;
  if (p.seed !== document.activeElement) p.seed.value = settings.seed;
  for (const { name, input, value } of p.ranges) {
    if (input !== document.activeElement) input.value = String(settings[name]);
    value.textContent = String(settings[name]);
  }
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {{ change: (settings: Settings) => void }} on
 */
function wire(p, on) {
  p.wired = true;
  const tell = () => {
    const [temperature, topP, maxTokens] = p.ranges.map(({ input }) => Number(input.value));
    const seed = p.seed.value.replace(/\D/g, '').slice(0, 9);
    on.change({ system: p.system.value, temperature, topP, maxTokens, seed });
  };
  for (const input of [p.system, p.seed, ...p.ranges.map((range) => range.input)])
    input.addEventListener('input', tell);
}
