/** @typedef {import('./types.js').ModelEntry} ModelEntry */

/** Architectures that the engine runs, as files name them; others in the manifest are not offered. */
export const ARCHITECTURES = [
  'llama',
  'qwen2',
  'qwen2moe',
  'qwen3',
  'qwen3moe',
  'gemma2',
  'gemma3',
  'phi3',
  'granite',
  'olmo2',
  'smollm3',
  'deepseek2',
  'minicpm3',
  'plm',
];

/**
 * The model list that lies beside the page. Without one the page still opens files and addresses.
 * @returns {Promise<ModelEntry[]>}
 */
export async function readModels() {
  const response = await fetch('models/manifest.json').catch(() => null);
  if (!response?.ok || !isJson(response)) return [];
  const { models } = /** @type {{ models: ModelEntry[] }} */ (await response.json());
  return models.filter(
    ({ architecture, beside, urls }) => ARCHITECTURES.includes(architecture) && (beside || urls.length > 0),
  );
}

/** @param {Response} response */
function isJson(response) {
  return response.headers.get('content-type')?.includes('json') === true;
}
