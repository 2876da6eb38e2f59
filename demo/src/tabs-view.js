import { arrowStep, h, skeleton } from './dom.js';

/** @typedef {import('./types.js').State} State */

/** @type {[State['panel'], string, string][]} panel, name, mark */
const TABS = [
  ['chat', 'Chat', '✎'],
  ['attention', 'Attention', '▦'],
  ['cache', 'KV cache', '▤'],
];

const parts = skeleton((element) => {
  const list = h('div', { role: 'tablist', 'aria-label': 'Panels' });
  const tabs = TABS.map(([panel, name, mark]) => {
    const icon = h('span', { class: 'mark', 'aria-hidden': 'true', text: mark });
    const about = { role: 'tab', type: 'button', id: `tab-${panel}`, 'aria-controls': panel };
    return h('button', { ...about, 'data-testid': `tab-${panel}` }, icon, h('span', { text: name }));
  });
  list.append(...tabs);
  element.append(list);
  return { tabs, wired: false };
});

/**
 * @param {HTMLElement} element
 * @param {Pick<State, 'panel' | 'layout'>} data
 * @param {{ panel: (panel: State['panel']) => void }} on
 */
export function drawTabs(element, { panel, layout }, on) {
  const p = parts(element);
  if (!p.wired) wire(p, on);
  element.hidden = layout === 'three';
  p.tabs.forEach((tab, i) => {
    const name = TABS[i][0];
    const chosen = shows({ panel, layout }, name) && (layout === 'phone' || name !== 'chat');
    tab.hidden = layout !== 'phone' && name === 'chat';
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  });
}

/**
 * @param {ReturnType<typeof parts>} p
 * @param {{ panel: (panel: State['panel']) => void }} on
 */
function wire(p, on) {
  p.wired = true;
  p.tabs.forEach((tab, i) => tab.addEventListener('click', () => on.panel(TABS[i][0])));
  p.tabs[0].parentElement?.addEventListener('keydown', (event) => {
    const step = arrowStep(event.key);
    if (!step) return;
    event.preventDefault();
    const seen = p.tabs.filter((tab) => !tab.hidden);
    const at = seen.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const next = seen[(at + step + seen.length) % seen.length];
    next.focus();
    next.click();
  });
}

/**
 * @param {Pick<State, 'panel' | 'layout'>} data
 * @param {State['panel']} name
 * @returns {boolean} whether a panel is on the screen
 */
export function shows({ panel, layout }, name) {
  if (layout === 'three') return true;
  if (layout === 'phone') return panel === name;
  return name === 'chat' || name === (panel === 'cache' ? 'cache' : 'attention');
}
