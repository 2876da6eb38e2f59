/** @typedef {import('./types.js').ModelEntry} ModelEntry */

/** Architectures that the engine runs; others in the manifest are not offered. */
const RUNS = ['llama'];

/**
 * The model list that lies beside the page. Without one the page still opens files and addresses.
 * @returns {Promise<ModelEntry[]>}
 */
export async function readModels() {
  const response = await fetch('models/manifest.json').catch(() => null);
  if (!response?.ok || !isJson(response)) return [];
  const { models } = /** @type {{ models: ModelEntry[] }} */ (await response.json());
  return models.filter(
    ({ architecture, beside, urls }) => RUNS.includes(architecture) && (beside || urls.length > 0),
  );
}

/** @param {Response} response */
function isJson(response) {
  return response.headers.get('content-type')?.includes('json') === true;
}
