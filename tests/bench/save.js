// Where a run's numbers go: the results folder and the documents when they may be quoted, build/bench when not.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { drawChart } from './chart.js';
import { machineName } from './machine.js';
import { markdownTable } from './report.js';

/** @typedef {import('./report.js').Figure} Figure */

/** Figures of the README's picture. */
const charted = [
  'chromium/smollm2-q4_1/decode',
  'chromium/smollm2-q4_1/prefill',
  'node/smollm2-q4_1/decode',
  'node/smollm2-q4_1/prefill',
];

const [begin, end] = ['<!-- bench: begin -->', '<!-- bench: end -->'];

/**
 * @typedef {object} Result
 * @property {string} date
 * @property {boolean} quick
 * @property {boolean} quotable
 * @property {string[]} reasons
 * @property {import('./machine.js').Machine} machine
 * @property {Record<string, string>} versions
 * @property {Figure[]} figures
 * @property {import('./report.js').Table[]} tables
 */

/** One sentence on where and when. @param {Result} result */
function origin({ machine, date, versions, quotable }) {
  const loaded = quotable ? '' : ' NOT QUOTABLE: the machine was loaded.';
  return `${machine.cpu}, ${machine.cores} cores, Chromium ${versions.chromium}, Node ${versions.node}, ${date}.${loaded}`;
}

/** @param {Result} result */
function chartOf(result) {
  const figures = result.figures.filter(({ id }) => charted.includes(id));
  return figures.length ? drawChart(figures, origin(result)) : undefined;
}

/** Replaces what lies between the two marks of a document. @param {string} text @param {string} table */
export function replaceTable(text, table) {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the document has no ${begin} ... ${end}`);
  return `${text.slice(0, from + begin.length)}\n${table}\n${text.slice(to)}`;
}

/**
 * Writes result, chart and table.
 * @param {Result} result
 * @param {string} root of the repository
 * @param {boolean} whole whether the run was a full one: others do not change documents
 * @returns {string[]} files written
 */
export function saveResult(result, root, whole) {
  const official = result.quotable && whole;
  const folder = official ? `${root}tests/bench/results` : `${root}build/bench`;
  mkdirSync(folder, { recursive: true });
  const name = machineName(result.machine) + (result.quick ? '-quick' : '');
  /** @type {string[]} */
  const written = [];
  const write = (/** @type {string} */ path, /** @type {string} */ text) => {
    writeFileSync(path, text);
    written.push(path.replace(root, ''));
  };
  write(`${folder}/${name}.json`, `${JSON.stringify(result, null, 1)}\n`);
  const chart = chartOf(result);
  if (chart) {
    if (official) mkdirSync(`${root}docs/images`, { recursive: true });
    write(official ? `${root}docs/images/bench.svg` : `${folder}/bench.svg`, chart);
  }
  const about = `${origin(result)} CPU flags: ${result.machine.flags.join(' ')}. Build ${result.versions.buildId}.`;
  const table = `${about}\n\n${markdownTable(result.figures, result.tables)}\n`;
  const document = `${root}docs/performance.md`;
  if (official && existsSync(document)) write(document, replaceTable(readFileSync(document, 'utf8'), table));
  else write(`${folder}/bench.md`, table);
  return written;
}
