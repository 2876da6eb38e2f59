// What was measured, as tables of text and Markdown.
import { estimate, estimateRatio, median } from './stats.js';

/**
 * @typedef {object} Series values of one engine, one for each round
 * @property {string} name
 * @property {boolean} ours
 * @property {number[]} values
 *
 * @typedef {object} Asked what specification asks of one of our series
 * @property {string} series its name
 * @property {number} [ratio] times the better peer, at least
 * @property {number} [least] of the value itself
 * @property {number} [most]
 *
 * @typedef {object} Figure
 * @property {string} id
 * @property {string} title
 * @property {'tok/s' | 'ms' | 'bytes' | '%' | 'x' | 'nats'} unit
 * @property {boolean} higher whether more is better
 * @property {Series[]} series
 * @property {Asked[]} [asked]
 *
 * @typedef {object} Table numbers without a bar
 * @property {string} title
 * @property {string[]} heads
 * @property {string[][]} rows
 *
 * @typedef {object} Row one of our series in a figure
 * @property {string} title
 * @property {string} name
 * @property {string} value
 * @property {string} peer name and value of the better peer, '' when there is none
 * @property {string} ratio with its interval
 * @property {string} asked
 * @property {boolean | undefined} met undefined where nothing is asked
 */

/**
 * How often ours is better than a peer: rates divided by rates, or times by times the other way round.
 * @param {Figure} figure @param {Series} ours @param {Series} peer
 */
export function advantage(figure, ours, peer) {
  return figure.higher ? estimateRatio(ours.values, peer.values) : estimateRatio(peer.values, ours.values);
}

/** The peer that is hardest to beat. @param {Figure} figure @returns {Series | undefined} */
export function betterPeer(figure) {
  const sign = figure.higher ? -1 : 1;
  const peers = figure.series.filter(({ ours, values }) => !ours && values.length);
  return peers.sort((a, b) => sign * (median(a.values) - median(b.values)))[0];
}

/** @param {number} value @param {Figure['unit']} unit */
export function formatValue(value, unit) {
  if (unit === 'bytes')
    return value < 1e6 ? `${(value / 1e3).toFixed(0)} KB` : `${(value / 1e6).toFixed(1)} MB`;
  if (unit === 'nats') return value.toFixed(4);
  if (unit === 'x') return `${value.toFixed(3)} x`;
  return `${value.toFixed(value < 100 ? 1 : 0)} ${unit}`;
}

/** @param {Figure} figure @returns {Row[]} */
export function rowsOf(figure) {
  const peer = betterPeer(figure);
  return figure.series
    .filter(({ ours, values }) => ours && values.length)
    .map((ours) => {
      const ratio = peer && advantage(figure, ours, peer);
      const asked = figure.asked?.find(({ series }) => series === ours.name);
      const value = median(ours.values);
      const { low, high } = estimate(ours.values);
      const spread = peer || ours.values.length < 2 ? '' : ` (${low.toFixed(2)} - ${high.toFixed(2)})`;
      return {
        title: figure.title,
        name: ours.name,
        value: formatValue(value, figure.unit) + spread,
        peer: peer ? `${peer.name} ${formatValue(median(peer.values), figure.unit)}` : '',
        ratio:
          ratio && Number.isFinite(ratio.median)
            ? `${ratio.median.toFixed(2)} x (${ratio.low.toFixed(2)} - ${ratio.high.toFixed(2)})`
            : '',
        ...verdict(asked, value, ratio?.median, figure.unit),
      };
    });
}

/** @param {Asked | undefined} asked @param {number} value @param {number | undefined} ratio @param {Figure['unit']} unit */
function verdict(asked, value, ratio, unit) {
  if (!asked) return { asked: '', met: undefined };
  const { ratio: times, least, most } = asked;
  if (times !== undefined) return { asked: `>= ${times} x`, met: ratio !== undefined && ratio >= times };
  if (least !== undefined) return { asked: `>= ${formatValue(least, unit)}`, met: value >= least };
  return { asked: `<= ${formatValue(Number(most), unit)}`, met: value <= Number(most) };
}

const heads = ['', 'Headlight', '', 'better peer', 'ratio (95 %)', 'asked', ''];

/** @param {Figure[]} figures @returns {string[][]} cells, one line for each row */
function cells(figures) {
  return figures.flatMap((figure) =>
    rowsOf(figure).map((row, i) => [
      i === 0 ? row.title : '',
      row.name.replace(/^Headlight /, ''),
      row.value,
      row.peer,
      row.ratio,
      row.asked,
      row.met === undefined ? '' : row.met ? 'yes' : 'NO',
    ]),
  );
}

/** @param {string[][]} lines of cells @returns {string} aligned columns */
function align(lines) {
  const widths = lines[0].map((_, c) => Math.max(...lines.map((line) => line[c].length)));
  return lines
    .map((line) =>
      line
        .map((cell, c) => cell.padEnd(widths[c]))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** @param {string[][]} lines of cells, the heads first @returns {string} */
function markdown([first, ...rest]) {
  const line = (/** @type {string[]} */ row) => `| ${row.join(' | ')} |`;
  return [line(first), line(first.map(() => '---')), ...rest.map(line)].join('\n');
}

/** @param {Figure[]} figures @param {Table[]} [tables] @returns {string} aligned columns */
export function textTable(figures, tables = []) {
  const more = tables.map(({ title, heads, rows }) => `${title}\n${align([heads, ...rows])}`);
  return [align([heads, ...cells(figures)]), ...more].join('\n\n');
}

/** @param {Figure[]} figures @param {Table[]} [tables] @returns {string} */
export function markdownTable(figures, tables = []) {
  const more = tables.map(({ title, heads, rows }) => `${upper(title)}:\n\n${markdown([heads, ...rows])}`);
  return [markdown([heads, ...cells(figures)]), ...more].join('\n\n');
}

/** @param {string} text */
const upper = (text) => text[0].toUpperCase() + text.slice(1);

/**
 * Why numbers of this run must not be quoted: the machine was not ours alone.
 * @param {{ loadBefore: number, pauses: number[], steal: number, cores: number }} watch loadBefore: busy share of the
 *   cores before the run; pauses: the same between rounds; steal: share over the run
 * @returns {string[]} empty when they may be
 */
export function reasonsNotToQuote({ loadBefore, pauses, steal, cores }) {
  const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(1)} %`;
  const busy = median(pauses);
  const reasons = [];
  if (loadBefore > 0.05) reasons.push(`${percent(loadBefore)} of ${cores} cores were busy before the run`);
  if (busy > 0.05) reasons.push(`${percent(busy)} of ${cores} cores were busy between rounds (median)`);
  if (steal > 0.02) reasons.push(`${percent(steal)} of the time was stolen by other machines of the host`);
  return reasons;
}
