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
