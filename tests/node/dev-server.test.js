import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
import { serveDemo } from '../browser/servers.js';

test('the dev server says 404 for what is not there, and the engine says which file', async (t) => {
  const server = await serveDemo();
  t.after(() => server.close());
  const statusOf = async (/** @type {string} */ path) => (await fetch(new URL(path, server.url))).status;
  assert.equal(await statusOf('./'), 200);
  assert.equal(await statusOf('models/manifest.json'), 200);
  for (const path of [
    'nothing.gguf',
    'models/nothing.gguf',
    'models/sub/nothing.gguf',
    'nothing',
    'src/nothing.js',
  ]) {
    assert.equal(await statusOf(path), 404, path);
    await assert.rejects(load(new URL(path, server.url)), { code: 'NOT_FOUND', message: /nothing.*404/ });
  }
});
