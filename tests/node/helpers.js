import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @param {string} path from the project's folder */
export const inProject = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/** A Node with relaxed SIMD: this one, or the npm package's. undefined when there is none. */
export const newerNode =
  Number(process.versions.node.split('.')[0]) >= 24
    ? process.execPath
    : [`node_modules/node-${process.platform}-${process.arch}/bin/node`]
        .map(inProject)
        .find((p) => existsSync(p));

/** @param {string} name @returns {string} path of a small fixture */
export const fixture = (name) => inProject(`tests/golden/models/${name}.gguf`);

/** @param {string} name */
export const golden = (name) =>
  JSON.parse(readFileSync(inProject(`tests/golden/models/${name}.golden.json`), 'utf8'));

/** @type {{ models: any[] }} */
export const manifest = JSON.parse(readFileSync(inProject('tests/golden/MANIFEST.json'), 'utf8'));

/**
 * A model file, or why the tests that need it do not run. With CI=true they run, and fail.
 * @param {string} file below models/cache
 * @param {string} how it gets there
 * @returns {{ path: string, skip: string | false }}
 */
export function cached(file, how) {
  const path = inProject(`models/cache/${file}`);
  const missing = !existsSync(path) && process.env.CI !== 'true';
  return { path, skip: missing && `SKIPPED: models/cache has no ${file}; ${how}` };
}

/** SmolLM2, as cached() gives it. */
export const smollm2 = () => cached('SmolLM2-135M-Instruct.Q4_1.gguf', 'make setup fetches it');

/**
 * Runs the command line.
 * @param {string[]} args
 * @param {{ input?: unknown[] | string, node?: string, env?: Record<string, string> }} [options] objects go in as lines
 * @returns {Promise<{ code: number | null, stdout: string, stderr: string, lines: any[] }>}
 */
export function cli(args, { input = '', node = process.execPath, env = {} } = {}) {
  const child = spawn(node, [inProject('web/bin/headlight.js'), ...args], {
    env: { ...process.env, ...env },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (piece) => (stdout += piece));
  child.stderr.setEncoding('utf8').on('data', (piece) => (stderr += piece));
  child.stdin.on('error', () => {});
  child.stdin.end(typeof input === 'string' ? input : input.map((o) => `${JSON.stringify(o)}\n`).join(''));
  return new Promise((resolve) => {
    child.on('close', (code) => {
      const json = stdout.startsWith('{');
      const lines = json
        ? stdout
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line))
        : [];
      resolve({ code, stdout, stderr, lines });
    });
  });
}
