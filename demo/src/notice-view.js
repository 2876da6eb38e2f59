import { h } from './dom.js';

const ACTION = { reload: 'Load the model again', 'new-chat': 'New chat' };

/** @type {WeakMap<HTMLElement, unknown>} what is shown now */
const shown = new WeakMap();

/**
 * @param {HTMLElement} element
 * @param {{ notice: import('./types.js').State['notice'] }} data
 * @param {{ act: (action: 'reload' | 'new-chat') => void, close: () => void }} on
 */
export function drawNotice(element, { notice }, on) {
  if (shown.get(element) === notice) return;
  shown.set(element, notice);
  element.className = notice ? `notice ${notice.kind}` : 'notice';
  element.dataset.testid = 'notice';
  element.replaceChildren();
  if (!notice) return;
  element.append(h('div', {}, h('b', { text: notice.title }), h('p', { text: notice.text })));
  const { action } = notice;
  if (action) {
    const act = () => on.act(action);
    element.append(
      h('button', { type: 'button', 'data-testid': 'notice-action', text: ACTION[action], onclick: act }),
    );
  }
  const close = {
    type: 'button',
    class: 'icon',
    'aria-label': 'Close this message',
    text: '✕',
    onclick: on.close,
  };
  element.append(h('button', { ...close, 'data-testid': 'notice-close' }));
}
