import {
  copyFileSync,
  createReadStream,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const MODELS = fileURLToPath(new URL('../models/', import.meta.url));
const CACHE = join(MODELS, 'cache');

/** The manifest, with each entry told whether its file lies in the cache. */
function manifest() {
  const { models } = JSON.parse(readFileSync(join(MODELS, 'manifest.json'), 'utf8'));
  for (const entry of models) {
    const file = join(CACHE, entry.file);
    entry.beside = existsSync(file) && statSync(file).size === entry.size;
    delete entry.pypi;
  }
  return { models };
}

/**
 * Answers models/manifest.json and models/FILE from the repository's models/, whole or from a byte on.
 * @type {import('vite').Connect.NextHandleFunction}
 */
function serveModels(request, response, next) {
  const path = new URL(request.url ?? '/', 'http://localhost').pathname;
  if (!path.startsWith('/models/')) return next();
  if (path === '/models/manifest.json') {
    response.setHeader('content-type', 'application/json');
    return void response.end(JSON.stringify(manifest()));
  }
  const file = join(CACHE, basename(path));
  if (!file.endsWith('.gguf') || !existsSync(file)) {
    response.statusCode = 404;
    return void response.end('There is no such model in models/cache: run models/fetch.\n');
  }
  sendFile(file, request, response);
}

/**
 * @param {string} file
 * @param {import('vite').Connect.IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 */
function sendFile(file, request, response) {
  const { size, mtimeMs } = statSync(file);
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const start = Number(from ?? 0);
  const end = to ? Math.min(Number(to), size - 1) : size - 1;
  response.setHeader('accept-ranges', 'bytes');
  response.setHeader('etag', `"${size}-${Math.round(mtimeMs)}"`);
  response.setHeader('content-type', 'application/octet-stream');
  if (start > end) {
    response.writeHead(416, { 'content-range': `bytes */${size}` });
    return void response.end();
  }
  response.setHeader('content-length', end - start + 1);
  if (from !== undefined) response.setHeader('content-range', `bytes ${start}-${end}/${size}`);
  response.statusCode = from === undefined ? 200 : 206;
  if (request.method === 'HEAD') return void response.end();
  const stream = createReadStream(file, { start, end });
  response.on('close', () => stream.destroy());
  stream.pipe(response);
}

/**
 * The headers that threads need. `?isolate=off` in the page's address leaves them out, to see the page without.
 * @type {import('vite').Connect.NextHandleFunction}
 */
function isolate(request, response, next) {
  const query = (request.url ?? '').split('?')[1] ?? '';
  if (new URLSearchParams(query).get('isolate') !== 'off') {
    response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
    response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
    response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  }
  next();
}

/**
 * Serves headers and models; a build gets the manifest and the models that are there.
 * HEADLIGHT_MODELS=none leaves the models out, for a host that should not carry them.
 * @returns {import('vite').Plugin}
 */
function headlight() {
  const serve = (/** @type {{ middlewares: import('vite').Connect.Server }} */ server) => {
    server.middlewares.use(isolate);
    server.middlewares.use(serveModels);
  };
  let folder = '';
  return {
    name: 'headlight',
    configResolved: (config) => void (folder = resolve(config.root, config.build.outDir, 'models')),
    configureServer: serve,
    configurePreviewServer: serve,
    closeBundle() {
      if (this.meta.watchMode) return;
      const list = manifest();
      mkdirSync(folder, { recursive: true });
      for (const entry of list.models) {
        entry.beside &&= process.env.HEADLIGHT_MODELS !== 'none' && entry.terms === undefined;
        if (entry.beside) place(join(CACHE, entry.file), join(folder, entry.file));
      }
      writeFileSync(join(folder, 'manifest.json'), JSON.stringify(list, null, 2));
    },
  };
}

/**
 * A second name for a large file where the disk can, else a copy.
 * @param {string} from
 * @param {string} to
 */
function place(from, to) {
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/** What the engine's worker imports from other packages. */
function engineNeeds() {
  const { dependencies = {} } = JSON.parse(
    readFileSync(new URL('../web/package.json', import.meta.url), 'utf8'),
  );
  return Object.keys(dependencies).map((name) => `headlight-wasm > ${name}`);
}

export default defineConfig({
  base: './',
  // One page: what is not there is answered with 404, not with the page, which would look like a broken model.
  appType: 'mpa',
  plugins: [headlight()],
  resolve: process.env.HEADLIGHT_ENGINE ? { alias: { 'headlight-wasm': process.env.HEADLIGHT_ENGINE } } : {},
  worker: { format: 'es' },
  // Named beforehand so that a first visit is not loaded again when the worker asks for them.
  optimizeDeps: { exclude: ['headlight-wasm'], include: engineNeeds() },
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
});
