import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { load } from '../../web/src/index.js';
import { describeSource, openSource } from '../../web/src/source.js';
import { fixture } from './helpers.js';

const path = fixture('llama_mha');
const bytes = readFileSync(path);
const sha256 = createHash('sha256').update(bytes).digest('hex');

/** Requests that the server saw: path and range. @type {{ url: string, range: string | undefined }[]} */
let seen = [];
let server;
let base;
/** What one path answers next, counted down. @type {Record<string, number>} */
let left = {};

/** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response */
function answer(request, response) {
  const url = request.url ?? '';
  const range = request.headers.range;
  seen.push({ url, range });
  const from = Number(/bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0);
  const ranged = (extra = {}) => {
    const length = bytes.length - from;
    const headers = { 'content-length': length, etag: '"1"', ...extra };
    if (from > 0) headers['content-range'] = `bytes ${from}-${bytes.length - 1}/${bytes.length}`;
    response.writeHead(from > 0 ? 206 : 200, headers);
  };
  /** Sends a part and breaks the connection. @param {number} n */
  const breakAfter = (n) => response.write(bytes.subarray(from, from + n), () => response.destroy());
  switch (url) {
    case '/ok':
      ranged();
      return response.end(bytes.subarray(from));
    case '/breaks':
      ranged();
      return left.breaks-- > 0 ? breakAfter(50000) : response.end(bytes.subarray(from));
    case '/dies':
      ranged();
      return breakAfter(from === 0 ? 50000 : 0);
    case '/no-range':
      response.writeHead(200, { 'content-length': bytes.length, etag: '"1"' });
      return left.noRange-- > 0
        ? response.write(bytes.subarray(0, 70000), () => response.destroy())
        : response.end(bytes);
    case '/changes':
      ranged({ etag: `"${left.changes--}"` });
      return left.changes >= 0 ? breakAfter(50000) : response.end(bytes.subarray(from));
    case '/grows':
      if (left.grows-- > 0) {
        response.writeHead(200, { 'content-length': bytes.length });
        return breakAfter(50000);
      }
      response.writeHead(206, { 'content-range': `bytes ${from}-${bytes.length}/${bytes.length + 1}` });
      return response.end(Buffer.alloc(bytes.length + 1 - from));
    case '/replaced':
      if (left.replaced-- > 0) {
        ranged();
        return breakAfter(50000);
      }
      response.writeHead(200, { 'content-length': bytes.length + 7 });
      return response.end(Buffer.alloc(bytes.length + 7));
    case '/nameless':
      response.writeHead(200, left.nameless > 0 ? { 'content-length': bytes.length } : {});
      return left.nameless-- > 0 ? breakAfter(50000) : response.end(bytes);
    case '/sign-in':
      if (left.signIn-- > 0) {
        ranged();
        return breakAfter(50000);
      }
      response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-length': bytes.length });
      return response.end(Buffer.alloc(bytes.length, '<'));
    case '/same-size':
      response.writeHead(200, { 'content-length': bytes.length });
      return left.sameSize-- > 0
        ? response.write(bytes.subarray(0, 50000), () => response.destroy())
        : response.end(bytes);
    case '/busy':
      if (left.busy-- > 0) return response.writeHead(503).end();
      ranged();
      return response.end(bytes);
    case '/page':
      return response
        .writeHead(200, { 'content-type': 'text/html' })
        .end('<!DOCTYPE html><html><body>Sign in</body></html>');
    case '/short':
      return response
        .writeHead(200, { 'content-length': bytes.length - 5000 })
        .end(bytes.subarray(0, bytes.length - 5000));
    case '/auth':
      if (request.headers.authorization !== 'Bearer x') return response.writeHead(401, 'Unauthorized').end();
      ranged();
      return response.end(bytes);
    case '/chunked':
      response.writeHead(200);
      for (let at = 0; at < bytes.length; at += 30000) response.write(bytes.subarray(at, at + 30000));
      return response.end();
    case '/never':
      response.writeHead(200, { 'content-length': bytes.length });
      return response.write(bytes.subarray(0, 60000));
    default:
      return response.writeHead(404).end('no such file');
  }
}

before(async () => {
  server = createServer(answer);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  base = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

/** @param {string} url @returns {Promise<Buffer>} */
async function download(url) {
  const source = await openSource(describeSource(base + url).spec, () => assert.fail('no pump'));
  const pieces = [];
  for await (const piece of source.chunks()) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

test('a file is downloaded once, with its size known before', async () => {
  seen = [];
  const source = await openSource(describeSource(`${base}/ok`).spec, () => assert.fail());
  assert.equal(source.size, bytes.length);
  for await (const piece of source.chunks()) assert.ok(piece.length > 0);
  assert.equal(seen.length, 1);
});

test('a broken connection goes on from the byte where it broke', async () => {
  seen = [];
  left.breaks = 3;
  assert.ok((await download('/breaks')).equals(bytes));
  assert.deepEqual(
    seen.map((r) => r.range ?? 'all'),
    ['all', 'bytes=50000-', 'bytes=100000-', 'bytes=150000-'],
  );
});

test('a server that knows no ranges is read past what is there already', async () => {
  left.noRange = 2;
  assert.ok((await download('/no-range')).equals(bytes));
});

test('a file that changes during the download is not put together from two', async () => {
  left.changes = 1;
  await assert.rejects(download('/changes'), (e) => e.code === 'NETWORK' && /changed/.test(e.message));
});

for (const [path, name, words] of [
  ['/grows', 'grows', /now \d+/],
  ['/replaced', 'replaced', /now \d+/],
  ['/nameless', 'nameless', /neither its size/],
  ['/sign-in', 'signIn', /HTML/],
]) {
  test(`a download that goes on with another file is refused: ${path}`, async () => {
    left[name] = 1;
    await assert.rejects(
      download(path),
      (e) => e.code === 'NETWORK' && /changed/.test(e.message) && words.test(e.message),
    );
  });
}

test('a whole answer without an etag goes on when its size is the same', async () => {
  left.sameSize = 1;
  assert.ok((await download('/same-size')).equals(bytes));
});

test('a server that is busy for a moment is asked again', async () => {
  left.busy = 1;
  assert.ok((await download('/busy')).equals(bytes));
});

test('a connection that dies for good is an error that tells the byte', async () => {
  await assert.rejects(download('/dies'), (e) => e.code === 'NETWORK' && /byte 50000/.test(e.message));
});

test('a length that is not told is no hindrance', async () => {
  assert.ok((await download('/chunked')).equals(bytes));
});

test('what a server refuses is told with its status', async () => {
  await assert.rejects(download('/nothing'), (e) => e.code === 'NOT_FOUND' && /404/.test(e.message));
  await assert.rejects(download('/auth'), (e) => e.code === 'NETWORK' && /401/.test(e.message));
  await assert.rejects(
    openSource(describeSource('http://127.0.0.1:1/x').spec, () => assert.fail()),
    { code: 'NETWORK' },
  );
});

/** Loads, and gives back what the first tokens are, so that a wrong byte would show. @param {any} source @param {object} [options] */
async function firstTokens(source, options) {
  const model = await load(source, { threads: 1, ...options });
  try {
    const { tokens } = await model.generate([1, 2, 3], { maxTokens: 4, temperature: 0, ignoreEos: true });
    return Array.from(tokens).join();
  } finally {
    await model.dispose();
  }
}

test('every kind of source loads the same model', async (t) => {
  const expected = await firstTokens(path);
  const sources = {
    'a file URL': new URL(`file://${path}`),
    'a URL': `${base}/ok`,
    'a URL with headers': [`${base}/auth`, { headers: { authorization: 'Bearer x' } }],
    'a Blob': new Blob([bytes]),
    'a File': new File([bytes], 'model.gguf'),
    bytes: new Uint8Array(bytes),
    'a part of larger bytes': Buffer.concat([Buffer.alloc(3), bytes]).subarray(3),
    'a Response': await fetch(`${base}/chunked`),
    'a stream': new Blob([bytes]).stream(),
    'a list of one': [path],
  };
  for (const [what, source] of Object.entries(sources)) {
    await t.test(what, async () => {
      const withOptions = what === 'a URL with headers';
      assert.equal(
        await firstTokens(withOptions ? source[0] : source, withOptions ? source[1] : {}),
        expected,
      );
    });
  }
});

test('bytes that are given stay with their owner', async (t) => {
  // More than one piece: what follows the last tensor is not read.
  const long = Buffer.concat([bytes, Buffer.alloc(2 << 20)]);
  const buffer = Buffer.from(new ArrayBuffer(long.length));
  const shifted = new Uint8Array(long.length + 3).subarray(3);
  const expected = await firstTokens(path);
  for (const own of [new Uint8Array(long.length), buffer, shifted, Buffer.from(shifted.buffer, 3)]) {
    await t.test(`${own.constructor.name} at ${own.byteOffset}`, async () => {
      own.set(long);
      assert.equal(await firstTokens(own), expected);
      assert.ok(long.equals(own));
    });
  }
  await t.test('a piece of a stream', async () => {
    const own = new Uint8Array(bytes);
    const stream = new ReadableStream({ start: (c) => (c.enqueue(own), c.close()) });
    assert.equal(await firstTokens(stream), expected);
    assert.ok(bytes.equals(own));
  });
});

test('a checksum is compared, whatever its case', async () => {
  await firstTokens(path, { sha256: sha256.toUpperCase() });
  const wrong = sha256.replace(/^./, (c) => (c === '0' ? '1' : '0'));
  await assert.rejects(
    load(path, { sha256: wrong }),
    (e) => e.code === 'CHECKSUM' && e.message.includes(sha256),
  );
});

test('progress tells bytes, in order, up to the whole file', async () => {
  const told = [];
  const model = await load(`${base}/ok`, { onProgress: (p) => told.push(p) });
  await model.dispose();
  assert.equal(told[0].stage, 'start');
  assert.equal(told.at(-1).stage, 'ready');
  assert.equal(told.at(-1).loaded, bytes.length);
  assert.equal(told.at(-1).total, bytes.length);
  assert.ok(told.every((p, i) => i === 0 || p.loaded >= told[i - 1].loaded));
});

const BAD = [
  ['an HTML page with status 200', () => `${base}/page`, 'BAD_FORMAT', /HTML/i],
  ['a page that is not there', () => `${base}/gone`, 'NOT_FOUND', /404/],
  ['a file that ends too early', () => `${base}/short`, 'TRUNCATED', /./],
  [
    'a stream that ends inside a tensor',
    () => new Blob([bytes.subarray(0, bytes.length - 100)]).stream(),
    'TRUNCATED',
    /./,
  ],
  ['a stream that breaks', () => brokenStream(), 'NETWORK', /lost/],
  [
    'a stream of text',
    () => new Blob(['x']).stream().pipeThrough(new TextDecoderStream()),
    'BAD_ARGUMENT',
    /Uint8Array/,
  ],
  ['nothing', () => new Uint8Array(0), 'BAD_FORMAT', /empty/],
  ['noise', () => new Uint8Array(1000).fill(9), 'BAD_FORMAT', /./],
  ['a missing file', () => '/nowhere/model.gguf', 'NOT_FOUND', /no such file/],
  ['a folder', () => '/', 'BAD_ARGUMENT', /no file/],
  ['a number', () => 5, 'BAD_ARGUMENT', /source must be/],
  ['an empty string', () => '', 'BAD_ARGUMENT', /empty/],
  ['a file of another host', () => 'file://host/x', 'BAD_ARGUMENT', /file:\/\/host\/x/],
  ['an address that is none', () => 'http://[', 'BAD_ARGUMENT', /no URL/],
  ['a stream that someone else reads', () => lockedStream(), 'BAD_ARGUMENT', /cannot be read/],
  ['a strange scheme', () => 'ftp://host/file', 'BAD_ARGUMENT', /http/],
];

function lockedStream() {
  const stream = new Blob([bytes]).stream();
  stream.getReader();
  return stream;
}

function brokenStream() {
  let n = 0;
  return new ReadableStream({
    pull(controller) {
      if (n++ < 2) controller.enqueue(new Uint8Array(bytes.subarray(0, 1000)));
      else controller.error(new Error('lost'));
    },
  });
}

for (const [what, source, code, words] of BAD) {
  test(`${what} is refused with ${code}, and the next load works`, async () => {
    await assert.rejects(
      load(source()),
      (e) => e.name === 'HeadlightError' && e.code === code && words.test(e.message),
    );
    await (await load(path)).dispose();
  });
}

test('aborting a load rejects with AbortError at once, before and during the download', async () => {
  const aborted = AbortSignal.abort();
  await assert.rejects(load(`${base}/ok`, { signal: aborted }), { name: 'AbortError' });
  const controller = new AbortController();
  const loading = load(`${base}/never`, {
    signal: controller.signal,
    onProgress: (p) => p.loaded > 0 && controller.abort(),
  });
  await assert.rejects(loading, { name: 'AbortError' });
});

for (const moment of ['at once', 'after some bytes']) {
  test(`a stream is cancelled when the load is aborted ${moment}`, async () => {
    const controller = new AbortController();
    /** @type {(value?: unknown) => void} */
    let told = () => {};
    const cancelled = new Promise((resolve) => (told = resolve));
    let at = 0;
    const slow = new ReadableStream({
      pull(c) {
        c.enqueue(new Uint8Array(bytes.subarray(at, (at += 100))));
        if (at === 1000) controller.abort();
      },
      cancel: told,
    });
    const loading = load(slow, { signal: controller.signal });
    if (moment === 'at once') controller.abort();
    await assert.rejects(loading, { name: 'AbortError' });
    await cancelled;
    assert.ok(at < bytes.length / 2);
  });
}

test('too little memory is refused before the weights arrive, with what is needed', async () => {
  await assert.rejects(
    load(path, { maxMemory: 6 << 20, context: 4096 }),
    (e) => e.code === 'NO_MEMORY' && /needs \d+ MB/.test(e.message),
  );
  await assert.rejects(load(path, { maxMemory: 1000 }), { code: 'BAD_ARGUMENT' });
});
