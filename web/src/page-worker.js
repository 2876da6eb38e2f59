// Where a worker of a page begins. It shares no code with anyone: WebKit evaluates the first module of a worker once more
// when another module imports it, as a bundler's chunks do with the one that holds what they share.

/** Messages that arrive while the engine's own module is on its way. @type {MessageEvent[]} */
const early = [];
globalThis.onmessage = (/** @type {MessageEvent} */ event) => void early.push(event);

import('./worker.js').then(
  ({ receive }) => {
    globalThis.onmessage = (/** @type {MessageEvent} */ event) => receive(event.data);
    for (const event of early) receive(event.data);
  },
  (error) => {
    // Thrown outside of the promise, it reaches the page's onerror.
    setTimeout(() => {
      throw error;
    });
  },
);
