import { rowOf } from './attention-map.js';
import { h } from './dom.js';
import { visible, weight } from './format.js';

/**
 * The cursor's row of the map as a table: what one token takes from each token before it.
 * @param {HTMLElement} element
 * @param {import('./attention-view.js').AttentionData} data
 */
export function drawTable(element, { attention, tokens }) {
  const { map, head, hideSink, cursor, pinned, version } = attention;
  const row = Math.min(pinned ?? cursor?.row ?? tokens.length - 1, tokens.length - 1);
  const key = [map.layer, head, hideSink, row, version, tokens[row]?.text].join();
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  const weights = rowOf(map, head, row, hideSink);
  const who = head < 0 ? 'mean of the heads' : `head ${head}`;
  const title = `What token ${row} “${visible(tokens[row]?.text ?? '')}” attends to: layer ${map.layer}, ${who}`;
  const columns = h(
    'tr',
    {},
    ...['Position', 'Token', 'Weight'].map((text) => h('th', { scope: 'col', text })),
  );
  const lines = [...(weights ?? [])].map((w, k) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row', text: String(k) }),
      h('td', { text: visible(tokens[k]?.text ?? '') }),
      h('td', { text: weight(w) }),
    ),
  );
  const body = h('tbody', {}, ...lines);
  const table = h(
    'table',
    { 'data-testid': 'attention-table' },
    h('caption', { text: title }),
    h('thead', {}, columns),
    body,
  );
  element.replaceChildren(table);
}
