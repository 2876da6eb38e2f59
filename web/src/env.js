/** Where the code runs: a page, a worker, or Node. */

const proc = /** @type {NodeJS.Process | undefined} */ (/** @type {any} */ (globalThis).process);

/** True in Node (and what claims to be it); false in pages and their workers. */
export const isNode = typeof proc?.versions?.node === 'string' && typeof proc.getBuiltinModule === 'function';

/**
 * A module of Node itself, without an import that bundlers for pages would follow.
 * @template {keyof import('./types.js').NodeModules} K
 * @param {K} name
 * @returns {import('./types.js').NodeModules[K]}
 */
export function nodeModule(name) {
  return /** @type {any} */ (proc?.getBuiltinModule(`node:${name}`));
}

/** @type {(() => void)[]} */
const waiting = [];
/** @type {MessagePort | undefined} */
let bell;

function nextTask() {
  waiting.shift()?.();
}

/**
 * Lets messages that have arrived be handled, then goes on; several callers take turns. setTimeout would take 4 ms.
 * @returns {Promise<void>}
 */
export function yieldTurn() {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') {
      setImmediate(resolve);
      return;
    }
    if (!bell) {
      const channel = new MessageChannel();
      channel.port1.onmessage = nextTask;
      bell = channel.port2;
    }
    waiting.push(resolve);
    bell.postMessage(0);
  });
}
