// A neighbour that wants a whole core: a process that spins, at the usual priority, pinned to nothing.
import { spawn } from 'node:child_process';

/** @returns {{ stop: () => Promise<void> }} */
export function startSpinner() {
  const child = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return {
    async stop() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
