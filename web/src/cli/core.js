import { chooseVariant } from '../features.js';
import { openCore } from '../instance.js';
import { checkSizes, loadHeaders, loadInto } from '../loader.js';
import { describeSources, openSources } from '../split.js';
import { findModel } from './models.js';
import { progressBar } from './progress.js';

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
