import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixture, golden } from '../node/helpers.js';
import { chromiumTab, launchChromium, skipWithout } from './browsers.js';
import { until } from './demo-page.js';
import { evalAttention } from './reference.js';
import { servePackage } from './servers.js';

/** In the page: the package. */
const { headlight } = /** @type {{ headlight: typeof import('headlight-wasm') }} */ (
  /** @type {unknown} */ (globalThis)
);

const skip = skipWithout('chromium');
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {import('./servers.js').Server} */
let server;

before(async () => {
  if (skip) return;
  browser = await launchChromium();
  server = await servePackage({ isolated: true });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

/**
 * @param {import('node:test').TestContext} t
 * @param {string} [url]
 */
async function openPage(t, url = server.url) {
  const tab = await chromiumTab(browser);
  t.after(() => tab.close());
  await tab.goto(url);
  await until(tab, 'the package', () => 'headlight' in window);
  return tab;
}

/**
 * Waits until a page has so many workers: memory and threads are given back with them.
 * @param {import('playwright-core').Page} page @param {number} n
 */
async function untilWorkers(page, n) {
  for (let i = 0; i < 600 && page.workers().length !== n; i++) await sleep(100);
  assert.equal(page.workers().length, n);
}

test('features() finds threads and relaxed SIMD in an isolated page', { skip }, async (t) => {
  const tab = await openPage(t);
  const found = await tab.run(() => headlight.features());
  const { isolated, threads, simd, relaxed, variant, reasons } = found;
  const all = { isolated: true, threads: true, simd: true, relaxed: true, variant: 'relaxed' };
  assert.deepEqual({ isolated, threads, simd, relaxed, variant }, all);
  assert.deepEqual(reasons, []);
  assert.deepEqual(await tab.problems(), []);
});

test('features() says why there is one thread in a page that is not isolated', { skip }, async (t) => {
  const open = await servePackage({ isolated: false });
  t.after(() => open.close());
  const tab = await openPage(t, open.url);
  const { isolated, variant, defaultThreads, reasons } = await tab.run(() => headlight.features());
  assert.deepEqual(
    { isolated, variant, defaultThreads },
    { isolated: false, variant: 'single', defaultThreads: 1 },
  );
  assert.match(reasons[0], /Cross-Origin-Opener-Policy: same-origin/);
  const code = await tab.run(async () => {
    const refused = await headlight.load('llama_gqa.gguf', { variant: 'simd' }).catch((error) => error);
    return refused.code;
  });
  assert.equal(code, 'UNSUPPORTED');
  assert.deepEqual(await tab.problems(), []);
});

test('attention in the page has the bits of headlight eval, in every variant', { skip }, async (t) => {
  const tab = await openPage(t);
  const { tokens } = golden('llama_gqa.q4_0');
  const expected = await evalAttention(fixture('llama_gqa.q4_0'), tokens, [0, 1]);
  for (const variant of /** @type {const} */ (['relaxed', 'simd', 'single'])) {
    const shown = await tab.run(
      async (ids, chosen) => {
        const model = await headlight.load('llama_gqa.q4_0.gguf', { variant: chosen, kv: 'f16' });
        const session = await model.session();
        /** @type {Record<string, number[][][]>} */
        const maps = {};
        session.watch({ attention: [0, 1] }, ({ attention }) => {
          for (const [layer, { heads, rows, cols, data }] of Object.entries(attention)) {
            const row = (/** @type {number} */ at) => Array.from(data.subarray(at * cols, (at + 1) * cols));
            maps[layer] = Array.from({ length: heads }, (_, head) =>
              Array.from({ length: rows }, (_unused, r) => row(head * rows + r)),
            );
          }
        });
        await session.feed(ids);
        await model.dispose();
        return maps;
      },
      tokens,
      variant,
    );
    for (const layer of [0, 1]) {
      const fround = expected[layer].map((head) => head.map((row) => row.map(Math.fround)));
      assert.deepEqual(shown[layer], fround, `${variant}, layer ${layer}`);
    }
  }
  assert.deepEqual(await tab.problems(), []);
});

test('a model loads from everything that a page can hold', { skip }, async (t) => {
  const tab = await openPage(t);
  const answers = await tab.run(async () => {
    const url = new URL('llama_gqa.gguf', location.href);
    const bytes = new Uint8Array(await (await fetch(url)).arrayBuffer());
    const sources = [
      'llama_gqa.gguf',
      url,
      await fetch(url),
      new Blob([bytes]),
      new File([bytes], 'tiny.gguf'),
      new Blob([bytes]).stream(),
      bytes,
    ];
    const texts = [];
    for (const source of sources) {
      const model = await headlight.load(source);
      texts.push((await model.generate('hello', { temperature: 0, maxTokens: 8 })).text);
      await model.dispose();
    }
    return texts;
  });
  assert.equal(answers.length, 7);
  assert.equal(new Set(answers).size, 1);
  assert.deepEqual(await tab.problems(), []);
});

test(
  'two models at once answer as each alone, and dispose() ends the workers of one',
  { skip },
  async (t) => {
    const tab = await openPage(t);
    await tab.run(async () => {
      const names = ['llama_gqa.gguf', 'llama_mha.gguf'];
      const models = await Promise.all(names.map((name) => headlight.load(name, { threads: 2 })));
      const ask = (/** @type {import('headlight-wasm').Model} */ model) =>
        model.generate('hello', { temperature: 0, maxTokens: 64, ignoreEos: true });
      const alone = [(await ask(models[0])).text, (await ask(models[1])).text];
      const together = (await Promise.all(models.map(ask))).map(({ text }) => text);
      if (JSON.stringify(alone) !== JSON.stringify(together)) throw new Error(`${alone} is not ${together}`);
      Object.assign(window, { models });
    });
    const both = tab.page.workers().length;
    assert.equal(both % 2, 0);
    assert.ok(both >= 2);
    const { text, code } = await tab.run(async () => {
      const [first, second] = /** @type {any} */ (window).models;
      await first.dispose();
      const refused = await first.tokenize('x').catch((/** @type {any} */ error) => error);
      return { text: (await second.generate('hello', { maxTokens: 4 })).text, code: refused.code };
    });
    assert.equal(code, 'DISPOSED');
    assert.equal(typeof text, 'string');
    await untilWorkers(tab.page, both / 2);
    await tab.run(() => /** @type {any} */ (window).models[1].dispose());
    await untilWorkers(tab.page, 0);
    assert.deepEqual(await tab.problems(), []);
  },
);

test(
  'a worker that dies rejects what is pending with WORKER_LOST, and load() works again',
  { skip },
  async (t) => {
    const tab = await openPage(t);
    await tab.run(async () => {
      const model = await headlight.load('llama_gqa.gguf', { threads: 2 });
      const session = await model.session();
      // A reader that stops reading: the call stays pending for as long as the test needs.
      const reader = model.generate('hello', { session, ignoreEos: true })[Symbol.asyncIterator]();
      await reader.next();
      const pending = session.feed([1, 2, 3]).catch((error) => error.code);
      Object.assign(window, { model, pending });
    });
    const [engine] = tab.page.workers().filter((worker) => /page-worker/.test(worker.url()));
    await engine.evaluate(() => {
      setTimeout(() => {
        throw new Error('killed by the test');
      });
    });
    const { pending, later } = await tab.run(async () => {
      const { model, pending } = /** @type {any} */ (window);
      const lost = await pending;
      return { pending: lost, later: await model.memory().catch((/** @type {any} */ error) => error.code) };
    });
    assert.deepEqual({ pending, later }, { pending: 'WORKER_LOST', later: 'WORKER_LOST' });
    await untilWorkers(tab.page, 0);
    const length = await tab.run(async () => {
      const model = await headlight.load('llama_gqa.gguf');
      const { tokens } = await model.generate('hello', { maxTokens: 5, ignoreEos: true });
      await model.dispose();
      return tokens.length;
    });
    assert.equal(length, 5);
  },
);

test('what cannot be loaded is refused by its code, and leaves no worker behind', { skip }, async (t) => {
  const tab = await openPage(t);
  const codes = await tab.run(async () => {
    const whole = new Uint8Array(await (await fetch('llama_gqa.gguf')).arrayBuffer());
    const half = whole.slice(0, whole.length / 2);
    const cancelled = new AbortController();
    /** @type {[string, any, object?][]} */
    const cases = [
      ['page', 'index.html'],
      ['half', half],
      ['half stream', new Blob([half]).stream()],
      ['no memory', 'llama_gqa.gguf', { maxMemory: 6 << 20, context: 1 << 16 }],
      ['other file', whole, { sha256: '0'.repeat(64) }],
      ['cancelled', whole, { signal: cancelled.signal }],
    ];
    /** @type {Record<string, string>} */
    const found = {};
    for (const [name, source, options] of cases) {
      const loading = headlight.load(source, options);
      if (name === 'cancelled') cancelled.abort();
      const error = await loading.then(
        () => ({ code: 'it loads', name: '' }),
        (e) => e,
      );
      found[name] = error.name === 'AbortError' ? 'AbortError' : error.code;
    }
    return found;
  });
  assert.deepEqual(codes, {
    page: 'BAD_FORMAT',
    half: 'TRUNCATED',
    'half stream': 'TRUNCATED',
    'no memory': 'NO_MEMORY',
    'other file': 'CHECKSUM',
    cancelled: 'AbortError',
  });
  await untilWorkers(tab.page, 0);
  assert.deepEqual(await tab.problems(), []);
});
