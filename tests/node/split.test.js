import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { load } from '../../web/src/index.js';
import { partNames } from '../../web/src/split.js';
import { cli, fixture, golden } from './helpers.js';
import { splitFile } from './split-file.js';

const name = 'llama_gqa';
const whole = readFileSync(fixture(name));
const parts = splitFile(whole, [7, 12]);
const total = parts.reduce((sum, p) => sum + p.length, 0);
const sha256 = parts.map((p) => createHash('sha256').update(p).digest('hex'));
const { tokens } = golden(name);

let folder;
let server;
let base;
/** Paths that were asked for. @type {string[]} */
let seen = [];

const fileName = (/** @type {number} */ i, n = 3) =>
  `tiny-${String(i + 1).padStart(5, '0')}-of-${String(n).padStart(5, '0')}.gguf`;
const path = (/** @type {number} */ i) => join(folder, fileName(i));

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'headlight-split-'));
  parts.forEach((p, i) => writeFileSync(path(i), p));
  server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    seen.push(`${request.method} ${url.pathname}${url.search}`);
    const [, where, file] = url.pathname.split('/');
    const i = parts.findIndex((_, j) => fileName(j) === file);
    if (i < 0 || (where === 'two' && i === 2)) return response.writeHead(404).end();
    if (where === 'no-head' && request.method === 'HEAD') return response.writeHead(403).end();
    response.writeHead(200, { 'content-length': parts[i].length });
    return response.end(request.method === 'HEAD' ? undefined : parts[i]);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

/** Logits after the fixture's tokens, as bits. @param {any} source @param {object} [options] */
async function logitsOf(source, options) {
  const model = await load(source, { threads: 1, kv: 'f32', ...options });
  try {
    const session = await model.session();
    return Array.from(await session.feed(tokens));
  } finally {
    await model.dispose();
  }
}

const SOURCES = {
  'a path of the first part': () => path(0),
  'a list of paths': () => [path(0), path(1), path(2)],
  'a URL of the first part': () => `${base}/all/${fileName(0)}?download=true`,
  'a list of URLs': () => parts.map((_, i) => `${base}/all/${fileName(i)}`),
  'a list of blobs': () => parts.map((p) => new Blob([p])),
  'bytes, a stream, and a response': () => [
    new Uint8Array(parts[0]),
    new Blob([parts[1]]).stream(),
    new Response(parts[2]),
  ],
  'a server that refuses to be asked for sizes': () => `${base}/no-head/${fileName(0)}`,
};
for (const [what, source] of Object.entries(SOURCES)) {
  test(`${what} gives the logits of the whole file, bit for bit`, async () => {
    const told = [];
    assert.deepEqual(
      await logitsOf(source(), { onProgress: (p) => told.push(p) }),
      await logitsOf(fixture(name)),
    );
    const last = told.at(-1);
    assert.deepEqual([last.stage, last.loaded, last.total], ['ready', total, total]);
    assert.ok(told.every((p) => p.total === undefined || p.total === total));
  });
}

test('the sisters of a URL keep its query, and each part is fetched once', async () => {
  seen = [];
  await logitsOf(`${base}/all/${fileName(0)}?token=x`);
  assert.deepEqual(
    seen.filter((s) => s.startsWith('GET')),
    [0, 1, 2].map((i) => `GET /all/${fileName(i)}?token=x`),
  );
});

test('names of first parts stand for all parts, other names for themselves', () => {
  assert.deepEqual(partNames('/a/b-00001-of-00002.gguf'), [
    '/a/b-00001-of-00002.gguf',
    '/a/b-00002-of-00002.gguf',
  ]);
  for (const alone of ['b-00002-of-00002.gguf', 'b-00001-of-00001.gguf', 'b-1-of-2.gguf', 'b.gguf']) {
    assert.deepEqual(partNames(alone), [alone]);
  }
});

test('a checksum is compared for each part', async () => {
  await logitsOf(path(0), { sha256 });
  const wrong = sha256.with(1, sha256[0]);
  const names = [
    [path(0), path(1)],
    [parts.map((_, i) => `${base}/all/${fileName(i)}`), `${base}/all/${fileName(1)}`],
    [parts.map((p) => new Uint8Array(p)), 'bytes'],
    [parts.map((p) => new Blob([p])), 'blob'],
  ];
  for (const [source, name] of names) {
    await assert.rejects(load(source, { sha256: wrong }), ({ code, message }) => {
      assert.equal(code, 'CHECKSUM');
      assert.ok(
        message.startsWith(`${name} (part 2 of 3): sha256 is ${sha256[1]}, not ${sha256[0]}`),
        message,
      );
      return true;
    });
  }
  await assert.rejects(load(path(0), { sha256: sha256[0] }), {
    code: 'BAD_ARGUMENT',
    message: /1 of 3 files/,
  });
});

const blobs = (/** @type {number[]} */ ...order) => order.map((i) => new Blob([parts[i]]));
const other = splitFile(readFileSync(fixture('llama_mqa')), [7, 12]);
const BAD = [
  ['parts in a wrong order', () => blobs(0, 2, 1), 'BAD_FORMAT', /part 2 of 3.*the file is part 3 of 3/],
  ['a list that begins with another part', () => blobs(1, 0, 2), 'BAD_FORMAT', /the first one first/],
  ['a doubled part', () => blobs(0, 1, 1), 'BAD_FORMAT', /part 3 of 3.*the file is part 2 of 3/],
  ['too few parts', () => blobs(0, 1), 'BAD_ARGUMENT', /split into 3 files, and 2 were given/],
  ['a part alone', () => new Blob([parts[0]]), 'BAD_ARGUMENT', /split into 3 files, and 1 was given/],
  ['too many parts', () => blobs(0, 1, 2, 2), 'BAD_ARGUMENT', /split into 3 files, and 4 were given/],
  ['a list of whole models', () => [new Blob([whole]), new Blob([whole])], 'BAD_ARGUMENT', /give it alone/],
  [
    'a part of another model',
    () => [...blobs(0), new Blob([other[1]]), ...blobs(2)],
    'BAD_FORMAT',
    /another model/,
  ],
  [
    'a part that ends too early',
    () => [...blobs(0), new Blob([parts[1].subarray(0, -9)]), ...blobs(2)],
    'TRUNCATED',
    /part 2 of 3/,
  ],
  ['an empty list', () => [], 'BAD_ARGUMENT', /empty/],
  ['a list in a list', () => [blobs(0, 1), path(2)], 'BAD_ARGUMENT', /source must be/],
  ['a sister that the server has not', () => `${base}/two/${fileName(0)}`, 'NOT_FOUND', /part 3 of 3/],
];
for (const [what, source, code, words] of BAD) {
  test(`${what}: ${code}, and the next load works`, async () => {
    await assert.rejects(load(source()), (e) => {
      assert.equal(e.code, code, e.message);
      assert.match(e.message, words);
      return true;
    });
    await (await load(path(0))).dispose();
  });
}

test('a sister that is not in the folder is missed before anything is read', async (t) => {
  const lonely = mkdtempSync(join(tmpdir(), 'headlight-lonely-'));
  t.after(() => rmSync(lonely, { recursive: true }));
  writeFileSync(join(lonely, fileName(0)), parts[0]);
  await assert.rejects(load(join(lonely, fileName(0))), {
    code: 'NOT_FOUND',
    message: /part 2 of 3 is not there: all parts must lie in one folder/,
  });
  const { code, lines } = await cli(['tokenize', join(lonely, fileName(0)), '--json'], {
    input: [{ text: 'a' }],
  });
  assert.deepEqual([code, lines[0].ids.length > 0], [0, true]);
});

test('too little memory for the parts together is refused with the first header', async () => {
  const seenBefore = [];
  await assert.rejects(
    load(
      parts.map((p) => new Blob([p])),
      {
        maxMemory: 5 << 20,
        context: 64,
        onProgress: (p) => seenBefore.push(p.loaded),
      },
    ),
    (e) => e.code === 'NO_MEMORY' && /needs \d+ MB/.test(e.message),
  );
  assert.ok(seenBefore.every((loaded) => loaded <= parts[0].length));
});

test('the command line evaluates and inspects a split model by its first part', async () => {
  const run = async (/** @type {string} */ model) => {
    const args = ['eval', model, '--json', '--kv', 'f32'];
    return (await cli(args, { input: [{ tokens, logits: true }] })).lines[0].logits;
  };
  assert.deepEqual(await run(path(0)), await run(fixture(name)));
  const [split] = (await cli(['inspect', path(0), '--json', '--check'])).lines;
  const [one] = (await cli(['inspect', fixture(name), '--json', '--check'])).lines;
  assert.deepEqual(split.tensors, one.tensors);
  assert.deepEqual([split.packed_bytes, split.parameters], [one.packed_bytes, one.parameters]);
  assert.deepEqual([split.files, one.files, split.file_bytes], [3, 1, total]);
});

test('inspect --check tells of a part that is cut short in its weights', async (t) => {
  const cut = mkdtempSync(join(tmpdir(), 'headlight-cut-'));
  t.after(() => rmSync(cut, { recursive: true }));
  parts.forEach((p, i) => writeFileSync(join(cut, fileName(i)), i === 1 ? p.subarray(0, p.length - 10) : p));
  assert.equal((await cli(['inspect', path(0), '--check'])).code, 0);
  const { code, stdout, stderr } = await cli(['inspect', join(cut, fileName(0)), '--check']);
  assert.deepEqual([code, stdout], [1, '']);
  const { tensors } = (await cli(['inspect', path(0), '--json'])).lines[0];
  const { name: tensor, bytes } = tensors[11];
  const where = `${fileName(1)} (part 2 of 3): the file is cut short: it has ${parts[1].length - 10} bytes`;
  assert.ok(stderr.includes(where), stderr);
  assert.ok(
    stderr.includes(`tensor '${tensor}' takes ${bytes} from byte ${parts[1].length - bytes} on`),
    stderr,
  );
  assert.ok(stderr.endsWith(`of which ${bytes - 10} are there: download it again\n`), stderr);
});
