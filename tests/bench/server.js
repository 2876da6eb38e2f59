// Serves the repository's files to the pages of the bench, isolated across origins, and counts what is fetched.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, normalize, resolve } from 'node:path';

const types = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
});

/**
 * @typedef {object} BenchServer
 * @property {string} origin
 * @property {() => string[]} takeFetched paths below the root fetched since the last call, each once
 * @property {() => Promise<void>} close
 */

/** @param {string} root folder that is served @returns {Promise<BenchServer>} */
export async function startServer(root) {
  /** @type {Set<string>} */
  let fetched = new Set();

  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
    const file = resolve(root, `.${path}`);
    const info = await stat(file).catch(() => undefined);
    if (!file.startsWith(`${resolve(root)}/`) || !info?.isFile()) {
      response.writeHead(404).end(`no such file: ${path}`);
      return;
    }
    fetched.add(file);
    response.writeHead(200, {
      'content-type': types[extname(file)] ?? 'application/octet-stream',
      'content-length': info.size,
      'cache-control': 'no-store',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
      'cross-origin-resource-policy': 'same-origin',
    });
    createReadStream(file, { highWaterMark: 1 << 20 }).pipe(response);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', () => ready(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${port}`,
    takeFetched() {
      const paths = [...fetched].sort();
      fetched = new Set();
      return paths;
    },
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
