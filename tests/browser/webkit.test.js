import { after, before, test } from 'node:test';
import { smollm2 } from '../node/helpers.js';
import { skipWithout, startWebKit } from './browsers.js';
import { buildDemo, removeFolder, serveFolder } from './servers.js';
import { smoke } from './smoke.js';

const skip = skipWithout('webkit') || smollm2().skip;
/** @type {import('./browsers.js').Browser} */
let browser;
let folder = '';

before(async () => {
  if (skip) return;
  [browser, folder] = await Promise.all([startWebKit(), buildDemo()]);
});
after(async () => {
  await browser?.close();
  if (folder) removeFolder(folder);
});

test('WebKitGTK: SmolLM2 chats on one thread, and the panels are right', { skip }, async (t) => {
  const server = await serveFolder(folder, { isolated: true, watched: true });
  t.after(() => server.close());
  const tab = await browser.open();
  t.after(() => tab.close());
  await smoke(tab, server.url, { threads: false, relaxed: false });
});
