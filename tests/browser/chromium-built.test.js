import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { smollm2 } from '../node/helpers.js';
import { chromiumTab, launchChromium, skipWithout } from './browsers.js';
import { DemoPage, until } from './demo-page.js';
import { buildDemo, removeFolder, serveFolder } from './servers.js';
import { smoke, SMOLLM2 } from './smoke.js';

const skip = skipWithout('chromium') || smollm2().skip;
/** @type {import('playwright-core').Browser} */
let browser;
let folder = '';

before(async () => {
  if (skip) return;
  browser = await launchChromium();
  folder = await buildDemo();
});
after(async () => {
  await browser?.close();
  if (folder) removeFolder(folder);
});

test(
  'Chromium, built folder on a host with headers: threads, and the panels are right',
  { skip },
  async (t) => {
    const server = await serveFolder(folder, { isolated: true });
    t.after(() => server.close());
    const tab = await chromiumTab(browser);
    t.after(() => tab.close());
    await smoke(tab, server.url, { threads: true, relaxed: true });
  },
);

test(
  'Chromium, built folder on a host without headers: the service worker isolates the page',
  { skip },
  async (t) => {
    const server = await serveFolder(folder, { isolated: false });
    t.after(() => server.close());
    const tab = await chromiumTab(browser);
    t.after(() => tab.close());
    await tab.goto(server.url);
    await until(tab, 'isolation by the service worker', () => crossOriginIsolated);
    await smoke(tab, server.url, { threads: true, relaxed: true });
  },
);

test(
  'Chromium, built folder without headers and without the service worker: one thread',
  { skip },
  async (t) => {
    const server = await serveFolder(folder, { isolated: false });
    t.after(() => server.close());
    const tab = await chromiumTab(browser);
    t.after(() => tab.close());
    await smoke(tab, `${server.url}?isolate=off`, { threads: false, relaxed: false });
    assert.equal(await tab.run(async () => (await navigator.serviceWorker.getRegistrations()).length), 0);
  },
);

test('a folder that is built without models offers the download and names its size', { skip }, async (t) => {
  const bare = await buildDemo({ models: false });
  t.after(() => removeFolder(bare));
  const server = await serveFolder(bare, { isolated: true });
  t.after(() => server.close());
  const tab = await chromiumTab(browser);
  t.after(() => tab.close());
  const page = new DemoPage(tab);
  await page.open(server.url);
  assert.equal(await page.text(`load-${SMOLLM2}`), 'Download 98.4 MB');
  await page.checkQuiet();
});
