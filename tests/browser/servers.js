// What serves pages to the browsers: Vite's dev server, a plain server for built folders, and a page with the package.
import { spawn } from 'node:child_process';
import { createReadStream, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { extname, join, resolve } from 'node:path';
import { createServer as createViteServer } from 'vite';
import { inProject } from '../node/helpers.js';

/**
 * @typedef {object} Server
 * @property {string} url of the page, ends in /
 * @property {() => Promise<void>} close
 */

const TYPES = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
});

const ISOLATION = {
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
};

/** Where the page is told to keep what went wrong, for browsers whose driver tells nothing of it. */
const WATCH = `
globalThis.problems = [];
const keep = (what) => globalThis.problems.push(String(what));
addEventListener('error', (e) => keep('error: ' + (e.message ?? 'a file did not load')), true);
addEventListener('unhandledrejection', (e) => keep('unhandled rejection: ' + (e.reason?.stack ?? e.reason)));
addEventListener('securitypolicyviolation', (e) => keep('csp: ' + e.violatedDirective + ' ' + e.blockedURI));
const said = console.error;
console.error = (...words) => (keep('console: ' + words.join(' ')), said.apply(console, words));
`;

/** @returns {string} a folder of this test's own, below build/ */
export function scratch() {
  mkdirSync(inProject('build/browser'), { recursive: true });
  return mkdtempSync(inProject('build/browser/'));
}

/**
 * @param {import('vite').InlineConfig} config
 * @returns {Promise<Server>}
 */
async function viteServer({ server, ...config }) {
  const cacheDir = scratch();
  const vite = await createViteServer({
    ...config,
    cacheDir,
    logLevel: 'error',
    // Files that change while the tests run must not load the page again.
    server: { host: '127.0.0.1', port: 0, strictPort: false, watch: null, ...server },
  });
  await vite.listen();
  const { port } = /** @type {import('node:net').AddressInfo} */ (vite.httpServer?.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    async close() {
      await vite.close();
      rmSync(cacheDir, { recursive: true, force: true });
    },
  };
}

/**
 * The demo page as `make demo` serves it, with nothing prepared: as at a first visit.
 * @returns {Promise<Server>}
 */
export function serveDemo() {
  return viteServer({ root: inProject('demo') });
}

/**
 * A page that has the package as window.headlight, and the small models beside it.
 * @param {{ isolated: boolean }} how
 * @returns {Promise<Server>}
 */
export function servePackage({ isolated }) {
  return viteServer({
    root: inProject('tests/browser/package'),
    configFile: false,
    publicDir: inProject('tests/golden/models'),
    worker: { format: 'es' },
    optimizeDeps: { exclude: ['headlight-wasm'], include: ['headlight-wasm > @huggingface/jinja'] },
    server: { headers: isolated ? ISOLATION : {}, fs: { allow: [inProject('.')] } },
  });
}

/**
 * Builds the demo page.
 * @param {{ models?: boolean }} [what] models: false leaves them out, as for a host that should not carry them
 * @returns {Promise<string>} the folder
 */
export async function buildDemo({ models = true } = {}) {
  const folder = scratch();
  const vite = inProject('node_modules/vite/bin/vite.js');
  const args = [vite, 'build', '--outDir', folder, '--emptyOutDir', '--logLevel', 'error'];
  const env = { ...process.env, HEADLIGHT_MODELS: models ? 'all' : 'none' };
  const child = spawn(process.execPath, args, { cwd: inProject('demo'), env, stdio: 'inherit' });
  const code = await new Promise((done) => child.on('close', done));
  if (code !== 0) throw new Error(`vite build ended with ${code}`);
  return folder;
}

/**
 * Serves a folder as a plain static host does.
 * @param {string} folder
 * @param {{ isolated: boolean, watched?: boolean }} how isolated: sends the headers that threads need;
 *   watched: pages keep what goes wrong in window.problems
 * @returns {Promise<Server>}
 */
export async function serveFolder(folder, { isolated, watched = false }) {
  const server = createHttpServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const file = resolve(folder, `.${pathname.endsWith('/') ? `${pathname}index.html` : pathname}`);
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    const headers = { 'content-type': type, ...(isolated ? ISOLATION : {}) };
    if (watched && pathname === '/watch.js') {
      response.writeHead(200, { ...headers, 'content-type': 'text/javascript' }).end(WATCH);
      return;
    }
    const found = file.startsWith(`${resolve(folder)}/`)
      ? await stat(file).catch(() => undefined)
      : undefined;
    if (!found?.isFile()) {
      response.writeHead(404, { ...headers, 'content-type': 'text/plain' }).end('not found');
      return;
    }
    if (watched && type.startsWith('text/html')) {
      const page = await readFile(file, 'utf8');
      response
        .writeHead(200, headers)
        .end(page.replace('<title>', '<script src="./watch.js"></script><title>'));
      return;
    }
    response.writeHead(200, { ...headers, 'content-length': found.size });
    createReadStream(file, { highWaterMark: 1 << 20 }).pipe(response);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', () => ready(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

/** @param {string} folder of buildDemo() or scratch() */
export function removeFolder(folder) {
  if (!folder.startsWith(join(inProject('build'), 'browser'))) throw new Error(`${folder} is not a test's`);
  rmSync(folder, { recursive: true, force: true });
}
