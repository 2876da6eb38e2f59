import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fixture, inProject } from '../node/helpers.js';
import { splitFile } from '../node/split-file.js';
import { chromiumTab, launchChromium, skipWithout } from './browsers.js';
import { DemoPage, until } from './demo-page.js';
import { conversationTokens, evalAttention, shown } from './reference.js';
import { buildDemo, removeFolder, scratch, serveFolder } from './servers.js';

// The page with a tiny model: quick, and its context of 512 positions is soon full.
const skip = skipWithout('chromium');
const TINY = fixture('llama_gqa');
/** 2 layers, 2 KV heads of 16 floats, keys and values, f16. */
const BYTES_A_TOKEN = 2 * 2 * 2 * 16 * 2;
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {import('./servers.js').Server} */
let server;
let folder = '';
let files = '';

before(async () => {
  if (skip) return;
  browser = await launchChromium();
  folder = await buildDemo({ models: false });
  server = await serveFolder(folder, { isolated: true });
  files = scratch();
});
after(async () => {
  await browser?.close();
  await server?.close();
  for (const made of [folder, files]) if (made) removeFolder(made);
});

/**
 * @param {import('node:test').TestContext} t
 * @param {import('playwright-core').BrowserContextOptions} [options]
 */
async function openDemo(t, options) {
  const tab = await chromiumTab(browser, options);
  t.after(() => tab.close());
  const page = new DemoPage(tab);
  await page.open(server.url);
  return { page, tab, at: (/** @type {string} */ id) => tab.page.getByTestId(id) };
}

/** @param {DemoPage} page @param {number} maxTokens */
async function openTiny(page, maxTokens = 24) {
  await page.openFile(TINY);
  await page.set({ temperature: 0, maxTokens });
}

/** @param {string} name @param {string | Uint8Array} bytes @returns {string} path of the file */
function fileOf(name, bytes) {
  writeFileSync(`${files}/${name}`, bytes);
  return `${files}/${name}`;
}

test(
  'the parts of a split model are opened together, in whatever order they are picked',
  { skip },
  async (t) => {
    const { page } = await openDemo(t);
    const parts = splitFile(readFileSync(TINY), [7, 12]).map((bytes, i) =>
      fileOf(`tiny-0000${i + 1}-of-00003.gguf`, bytes),
    );
    await page.openFile(parts.reverse());
    await page.set({ temperature: 0, maxTokens: 4 });
    await page.ask('hello');
    const { positions, used } = await page.cache();
    assert.equal(used, positions * BYTES_A_TOKEN);
  },
);

test(
  'a .gguf file that is opened chats, and its panels show what the command line computes',
  { skip },
  async (t) => {
    const { page } = await openDemo(t);
    await openTiny(page);
    assert.match(await page.notice('info'), /no chat template/);
    await page.ask('hello');
    const { positions, used } = await page.cache();
    assert.equal(used, positions * BYTES_A_TOKEN);
    const { tokens } = await conversationTokens(TINY, [{ role: 'user', content: 'hello' }], positions);
    const attention = await evalAttention(TINY, tokens, [0, 1]);
    for (const layer of [0, 1]) {
      for (const head of [0, 7]) {
        const expected = attention[layer][head][positions - 1].map(shown);
        assert.deepEqual(
          await page.attention(layer, head, positions),
          expected,
          `layer ${layer}, head ${head}`,
        );
      }
    }
    await page.checkQuiet();
  },
);

/** Bytes by hand: 7 layers with one head of 16, all but one keep 8 positions; 2 layers with a latent of 24 and 8. */
const FORMULAS = {
  gemma3: (/** @type {number} */ n) => (n + 6 * Math.min(n, 8)) * 2 * 16 * 2,
  deepseek_v2_mla: (/** @type {number} */ n) => 2 * n * (24 + 8) * 2,
};
for (const [name, bytes] of Object.entries(FORMULAS)) {
  test(
    `${name}: the measured cache lies on the formula, and each layer's attention is shown`,
    { skip },
    async (t) => {
      const { page } = await openDemo(t);
      await page.openFile(fixture(name));
      await page.set({ temperature: 0, maxTokens: 24 });
      await page.ask('hello');
      const { positions, used } = await page.cache();
      assert.ok(positions > 24);
      assert.equal(used, bytes(positions));
      assert.ok((await page.text('cache-formula')).endsWith(`${used.toLocaleString('en-US')} B`));
      await page.attention(1, 0, positions);
      await page.checkQuiet();
    },
  );
}

test('a .gguf file that is dropped on the page opens', { skip }, async (t) => {
  const { page, tab } = await openDemo(t);
  await tab.run((base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], 'dropped.gguf'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  }, readFileSync(TINY).toString('base64'));
  await page.loaded();
  assert.match(await page.text('model-pill'), /^dropped/);
  await page.checkQuiet();
});

test('files that are no model say why, and the page goes on', { skip }, async (t) => {
  const { page } = await openDemo(t);
  const whole = readFileSync(TINY);
  const wrong = /** @type {[string, string | Uint8Array, RegExp][]} */ ([
    ['page.gguf', '<!DOCTYPE html><html><body>Sign in</body></html>', /not a GGUF file.*page\.gguf/s],
    ['empty.gguf', '', /not a GGUF file.*empty\.gguf/s],
    ['half.gguf', whole.subarray(0, whole.length / 2), /ends too early/],
    ['header.gguf', whole.subarray(0, 100), /./],
    ['noise.gguf', Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(500, 7)]), /./],
  ]);
  for (const [name, bytes, expected] of wrong) {
    await page.tab.setFile('file', fileOf(name, bytes));
    await page.complaint(expected);
    await page.dismiss('notice-close');
  }
  await openTiny(page);
  assert.notEqual((await page.ask('hello')).stats, '');
  // The model that is loaded stays where the file is refused at first sight.
  await page.click('model-pill');
  await page.tab.setFile('file', fileOf('again.gguf', 'hello'));
  await page.complaint(/not a GGUF file/);
  await page.dismiss('notice-close');
  await page.click('picker-back');
  assert.notEqual((await page.ask('again')).stats, '');
  await page.checkQuiet();
});

test('addresses that lead to no model say why, and a right one opens', { skip }, async (t) => {
  const { page, tab } = await openDemo(t);
  const models = await serveFolder(inProject('tests/golden/models'), { isolated: true });
  t.after(() => models.close());
  const wrong = /** @type {[string, RegExp][]} */ ([
    ['what', /./],
    ['javascript:alert(1)', /not an address/],
    [`${server.url}index.html`, /not a GGUF file.*HTML/s],
    [`${server.url}missing.gguf`, /./],
    // Another origin that does not let this page read.
    [`${models.url}llama_gqa.gguf`, /download failed/],
  ]);
  for (const [address, expected] of wrong) {
    await page.fill('url', address);
    await page.click('url-open');
    await page.complaint(expected);
    await page.dismiss('notice-close');
  }
  await tab.page.route('**/tiny.gguf', (route) => route.fulfill({ path: TINY }));
  await page.fill('url', 'tiny.gguf');
  await page.click('url-open');
  await page.loaded();
  // A browser reports what the network refused by itself.
  const own = (await tab.problems()).filter((text) => !/Failed to load resource|blocked by CORS/.test(text));
  assert.deepEqual(own, []);
});

test('a full context ends the answer and offers a new chat', { skip }, async (t) => {
  const { page } = await openDemo(t);
  await openTiny(page, 2048);
  const { stats } = await page.ask('hello');
  assert.match(stats, /context full/);
  const notice = await until(page.tab, 'a notice', () => document.querySelector('.notice.info')?.textContent);
  assert.match(notice, /All 512 positions are in use/);
  await page.dismiss('notice-action');
  await until(page.tab, 'an empty chat', () => !document.querySelector('[data-testid="messages"] article'));
  assert.equal((await page.cache()).positions, 0);
  await page.checkQuiet();
});

test('an edit of a past message answers again from there, and reuses what stays', { skip }, async (t) => {
  const { page, tab } = await openDemo(t);
  await openTiny(page, 16);
  await page.ask('first');
  await page.ask('second');
  await tab.page.getByTestId('message-user').nth(1).hover();
  await tab.page.getByTestId('edit').nth(1).click();
  await until(tab, 'the old text', () => {
    const prompt = /** @type {HTMLTextAreaElement} */ (document.querySelector('[data-testid="prompt"]'));
    return prompt.value === 'second';
  });
  await page.fill('prompt', 'third');
  await page.click('send');
  await until(tab, 'the new text', () =>
    [...document.querySelectorAll('[data-testid="message-user"]')].at(-1)?.textContent?.includes('third'),
  );
  assert.match((await page.answered()).stats, /[1-9]\d* reused/);
  assert.equal(await tab.page.getByTestId('message-user').count(), 2);
  await page.checkQuiet();
});

test('when the worker dies the page says so, and loads the model again', { skip }, async (t) => {
  const { page, tab } = await openDemo(t);
  await openTiny(page);
  await page.ask('hello');
  const [engine] = tab.page.workers().filter((worker) => /\/page-worker/.test(worker.url()));
  await engine.evaluate(() => {
    setTimeout(() => {
      throw new Error('killed by the test');
    });
  });
  await page.fill('prompt', 'again');
  await page.click('send');
  await page.complaint(/engine stopped.*killed by the test/s);
  await page.dismiss('notice-action');
  await page.loaded();
  assert.notEqual((await page.ask('hello again')).stats, '');
  assert.deepEqual(
    (await tab.problems()).filter((text) => !/killed by the test/.test(text)),
    [],
  );
});
