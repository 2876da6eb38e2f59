import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { download } from '../../web/src/cli/models.js';
import { fixture, inProject, smollm2 } from './helpers.js';

// The npm package as its users have it: packed, and unpacked outside the project.

/** @type {string} */
let folder;
/** Paths in the package. @type {string[]} */
let packed;

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'headlight-package-'));
  const args = ['pack', '--workspace', 'web', '--json', '--pack-destination', folder];
  const { stdout, stderr } = spawnSync('npm', args, { cwd: inProject(''), encoding: 'utf8' });
  // What npm's scripts print comes before the list.
  const [{ filename, files }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')) || assert.fail(stderr));
  packed = files.map((/** @type {{ path: string }} */ file) => file.path);
  const modules = join(folder, 'node_modules');
  mkdirSync(modules);
  assert.equal(spawnSync('tar', ['-xzf', join(folder, filename), '-C', modules]).status, 0);
  // Its dependencies are those of the project.
  for (const name of readdirSync(inProject('node_modules'))) {
    if (name !== 'headlight-wasm') symlinkSync(inProject(`node_modules/${name}`), join(modules, name));
  }
});
after(() => rmSync(folder, { recursive: true }));

/** Runs the unpacked command line. @param {string[]} args @param {Record<string, string>} [env] */
function headlight(args, env = {}) {
  const script = join(folder, 'node_modules/package/bin/headlight.js');
  return spawnSync(process.execPath, [script, ...args], {
    cwd: folder,
    env: { ...process.env, XDG_CACHE_HOME: join(folder, 'cache'), ...env },
    encoding: 'utf8',
  });
}

test('the package has the engine, its glue for pages and Node, the command line, and the names of models', () => {
  for (const variant of ['relaxed', 'simd', 'single']) {
    for (const end of ['wasm', 'web.mjs', 'node.mjs'])
      assert.ok(packed.includes(`dist/headlight-${variant}.${end}`));
  }
  for (const path of [
    'bin/headlight.js',
    'src/index.js',
    'src/worker.js',
    'dist/build-id.js',
    'dist/models.json',
  ]) {
    assert.ok(packed.includes(path), path);
  }
});

test('the installed command line runs, and knows the short names of models', () => {
  const help = headlight(['help']);
  assert.equal(help.status, 0, help.stderr);
  const { status, stderr } = headlight(['inspect', 'nosuch']);
  assert.equal(status, 1);
  const { models } = JSON.parse(readFileSync(inProject('models/manifest.json'), 'utf8'));
  const names = models.map((/** @type {{ id: string }} */ model) => model.id).join(', ');
  assert.equal(
    stderr,
    `headlight: nosuch: there is no such file, nor a model of that name; the names are ${names}\n`,
  );
  const gemma = headlight(['inspect', 'gemma-3-270m-q4_k_m'], { HEADLIGHT_ACCEPT_GEMMA: '' });
  assert.match(gemma.stderr, /terms of use: read https:.*HEADLIGHT_ACCEPT_GEMMA=1\n$/);
  assert.equal(gemma.status, 1);
});

test('a short name stands for the file in the cache folder of the user', { skip: smollm2().skip }, () => {
  mkdirSync(join(folder, 'cache/headlight'), { recursive: true });
  const { path } = smollm2();
  symlinkSync(path, join(folder, 'cache/headlight', basename(path)));
  const { status, stdout, stderr } = headlight(['inspect', 'smollm2-135m-instruct-q4_1', '--check']);
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^architecture {2}llama, GQA\n/);
});

test('a model is fetched once, whole and the right one, or not at all', async (t) => {
  const bytes = readFileSync(fixture('llama_gqa'));
  const server = createServer((_, response) => response.end(bytes));
  t.after(() => server.close());
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const entry = { id: 'tiny', name: 'Tiny', file: 'tiny.gguf', size: bytes.length, sha256 };
  const urls = [`http://127.0.0.1:${port}/tiny.gguf`];
  const path = join(folder, 'fetched/tiny.gguf');
  await assert.rejects(download({ ...entry, urls, sha256: '0'.repeat(64) }, path), { code: 'CHECKSUM' });
  assert.deepEqual(readdirSync(join(folder, 'fetched')), []);
  await download({ ...entry, urls }, path);
  assert.deepEqual(readFileSync(path), bytes);
  assert.deepEqual(readdirSync(join(folder, 'fetched')), ['tiny.gguf']);
  await assert.rejects(download({ ...entry, urls: [] }, path), {
    code: 'NOT_FOUND',
    message: /models\/fetch tiny/,
  });
});
