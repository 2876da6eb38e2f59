import { chooseVariant } from '../features.js';
import { openCore } from '../instance.js';
import { loadHeader, loadInto } from '../loader.js';
import { describeSource, openSource } from '../source.js';
import { findModel } from './models.js';

/** The engine in this process, for commands that look at numbers or read only a header. */

/** @returns {AsyncIterable<Uint8Array>} */
function noPump() {
  throw new Error('the command line reads paths and URLs');
}

/**
 * @param {string} model as on the command line
 * @returns {Promise<import('../source.js').ByteSource>}
 */
async function sourceOf(model) {
  return openSource(describeSource(await findModel(model)).spec, noPump);
}

/**
 * Header only: metadata and tokenizer.
 * @param {string} model
 * @returns {Promise<import('../wasm.js').Core>}
 */
export async function openHeader(model) {
  const core = await openCore({ variant: 'single' });
  await loadHeader(core, await sourceOf(model));
  return core;
}

/**
 * The whole model.
 * @param {string} model
 * @param {{ variant?: string, threads?: number, precision?: any }} options
 * @returns {Promise<import('../wasm.js').Core>}
 */
export async function openModel(model, { variant, threads, precision }) {
  const source = await sourceOf(model);
  const core = await openCore({ ...chooseVariant({ variant, threads }), precision });
  await loadInto(core, source, { onHeader: () => core.checkModel(), onProgress: progressBar() });
  return core;
}

/**
 * A bar on a terminal, nothing elsewhere.
 * @returns {(progress: import('../types.js').Progress) => void}
 */
export function progressBar() {
  if (!process.stderr.isTTY) return () => {};
  return ({ stage, loaded, total, bytesPerSecond }) => {
    const part = total ? Math.min(1, loaded / total) : 0;
    const bar = '#'.repeat(Math.round(30 * part)).padEnd(30, '.');
    const mb = (/** @type {number} */ n) => (n / 1e6).toFixed(0);
    const text = `[${bar}] ${mb(loaded)}${total ? ` of ${mb(total)}` : ''} MB, ${mb(bytesPerSecond)} MB/s`;
    process.stderr.write(stage === 'ready' ? '\r\x1b[K' : `\r${text}\x1b[K`);
  };
}
