import { bytes } from './format.js';

/** @typedef {import('./types.js').Notice} Notice */

/**
 * A title and what to do, by the code of a HeadlightError; what happened is in its message.
 * @type {Record<string, { title: string, advice: string, action?: Notice['action'] }>}
 */
const KNOWN = {
  BAD_FORMAT: { title: 'This is not a GGUF file', advice: 'Choose a file whose name ends in .gguf.' },
  TRUNCATED: { title: 'The file ends too early', advice: 'A part is missing: download it again.' },
  UNSUPPORTED: { title: 'This model does not run here', advice: 'Choose another one from the list.' },
  NO_MEMORY: { title: 'Not enough memory', advice: 'Closing other tabs may help.' },
  CONTEXT_FULL: {
    title: 'The context is full',
    advice: 'Starting a new chat makes room.',
    action: 'new-chat',
  },
  NETWORK: {
    title: 'The download failed',
    advice:
      'Check the connection and the address, and whether that server lets other pages read its files (CORS).',
  },
  NOT_FOUND: { title: 'There is no such file', advice: '' },
  CHECKSUM: { title: 'The file is not the expected one', advice: 'It may be damaged: download it again.' },
  WORKER_LOST: {
    title: 'The engine stopped',
    advice: 'Your conversation is kept.',
    action: 'reload',
  },
  DISPOSED: { title: 'The model is no longer loaded', advice: 'Load it again.', action: 'reload' },
  BUILD_MISMATCH: { title: 'The page is half updated', advice: '' },
};

/**
 * Words for the page: what happened and what to do.
 * @param {unknown} error
 * @returns {Notice}
 */
export function explain(error) {
  const { code, message } = /** @type {{ code?: unknown, message?: unknown }} */ (error ?? {});
  const known = KNOWN[String(code)];
  const said = sentence(typeof message === 'string' ? message : String(error));
  if (!known) return { kind: 'error', title: 'That did not work', text: said };
  return { kind: 'error', title: known.title, text: `${said} ${known.advice}`.trim(), action: known.action };
}

/** @param {string} text */
function sentence(text) {
  const trimmed = text.trim();
  if (!trimmed) return '';
  const named = /^\w+:/.test(trimmed);
  const first = named ? trimmed : trimmed[0].toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/**
 * @param {unknown} error
 * @returns {boolean} true when somebody asked for the end
 */
export function isAbort(error) {
  return error instanceof Error && error.name === 'AbortError';
}

/**
 * @param {number} used   positions
 * @param {number} limit  positions
 * @returns {Notice}
 */
export function contextFull(used, limit) {
  return {
    kind: 'info',
    title: 'The context is full',
    text: `All ${limit} positions are in use (${used} by this conversation), so the answer ends here. Start a new chat to go on.`,
    action: 'new-chat',
  };
}

/**
 * Looks at a file's first bytes, so that a slip of the hand does not cost the model that is loaded.
 * @param {File} file
 * @returns {Promise<Notice | null>} when it is surely not a model
 */
export async function refuseFile(file) {
  const start = await file.slice(0, 4).text();
  if (start === 'GGUF') return null;
  const text = `${file.name} (${bytes(file.size)}) does not begin with GGUF. Choose a file whose name ends in .gguf.`;
  return { kind: 'error', title: 'This is not a GGUF file', text };
}
