import { after, before, test } from 'node:test';
import { smollm2 } from '../node/helpers.js';
import { chromiumTab, launchChromium, skipWithout } from './browsers.js';
import { serveDemo } from './servers.js';
import { smoke } from './smoke.js';

const skip = skipWithout('chromium') || smollm2().skip;
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {import('./servers.js').Server} */
let server;

before(async () => {
  if (skip) return;
  browser = await launchChromium();
  server = await serveDemo();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test(
  'Chromium, dev server: SmolLM2 chats with threads and relaxed SIMD, and the panels are right',
  { skip },
  async (t) => {
    const tab = await chromiumTab(browser);
    t.after(() => tab.close());
    await smoke(tab, server.url, { threads: true, relaxed: true });
  },
);

test('Chromium, dev server without isolation: the same on one thread', { skip }, async (t) => {
  const tab = await chromiumTab(browser);
  t.after(() => tab.close());
  await smoke(tab, `${server.url}?isolate=off`, { threads: false, relaxed: false });
});
