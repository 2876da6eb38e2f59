import { chooseVariant } from '../features.js';
import { openCore } from '../instance.js';
import { checkSizes, loadHeaders, loadInto } from '../loader.js';
import { describeSources, openSources } from '../split.js';
import { findModel } from './models.js';

/** The engine in this process, for commands that look at numbers or read only a header. */

/** @returns {AsyncIterable<Uint8Array>} */
function noPump() {
  throw new Error('the command line reads paths and URLs');
}

/**
 * @param {string} model as on the command line
 * @returns {Promise<import('../source.js').SourceSpec[]>}
 */
async function specsOf(model) {
  return describeSources(await findModel(model)).specs;
}

/**
 * Headers only: metadata and tokenizer, which are in the first file; or the tensors of all.
 * @param {string} model
 * @param {{ all?: boolean, check?: boolean, pretokenizer?: string }} [options] all: of each part of a split model; check,
 *   with all: refuses what cannot be run
 * @returns {Promise<import('../wasm.js').Core>}
 */
export async function openHeader(model, { all = false, check = false, pretokenizer } = {}) {
  const specs = await specsOf(model);
  const core = await openCore({ variant: 'single', pretokenizer });
  const sources = await openSources(all ? specs : specs.slice(0, 1), noPump);
  await loadHeaders(core, sources);
  if (check) {
    core.checkModel();
    checkSizes(core, sources);
  }
  return core;
}

/**
 * The whole model.
 * @param {string} model
 * @param {{ variant?: string, threads?: number, precision?: any, pretokenizer?: string }} options
 * @returns {Promise<import('../wasm.js').Core>}
 */
export async function openModel(model, { variant, threads, precision, pretokenizer }) {
  const specs = await specsOf(model);
  const sources = await openSources(specs, noPump);
  const core = await openCore({ ...chooseVariant({ variant, threads }), precision, pretokenizer });
  await loadInto(core, sources, { onHeader: () => core.checkModel(), onProgress: progressBar(model) });
  return core;
}

/** Files that are read in less, in ms, need no bar. */
const QUICK_MS = 700;

/**
 * A bar on a terminal, nothing elsewhere.
 * @param {string} model a path, a URL, or a name that stands for a file
 * @param {{ isTTY?: boolean, write: (text: string) => unknown }} [terminal]
 * @returns {(progress: import('../types.js').Progress) => void}
 */
export function progressBar(model, terminal = process.stderr) {
  if (!terminal.isTTY) return () => {};
  const remote = /^https?:/i.test(model);
  const begun = performance.now();
  return ({ stage, loaded, total, bytesPerSecond }) => {
    if (!remote && performance.now() - begun < QUICK_MS) return;
    const part = total ? Math.min(1, loaded / total) : 0;
    const bar = '#'.repeat(Math.round(30 * part)).padEnd(30, '.');
    const mb = (/** @type {number} */ n) => (n / 1e6).toFixed(0);
    const bytes = `${mb(loaded)}${total ? ` of ${mb(total)}` : ''} MB`;
    const text = `${remote ? 'fetching' : 'reading'} [${bar}] ${bytes}, ${mb(bytesPerSecond)} MB/s`;
    terminal.write(stage === 'ready' ? '\r\x1b[K' : `\r${text}\x1b[K`);
  };
}
