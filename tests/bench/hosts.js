// Where engines run: a page of a headless Chromium, or a Node process. Both take the same calls.
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { childrenOf, processCpuMs } from './machine.js';

/**
 * @typedef {object} Host
 * @property {'chromium' | 'node'} kind
 * @property {(method: string, argument?: any) => Promise<any>} call
 * @property {() => Promise<number>} linearMemory bytes of the program's wasm memory; 0 where none is seen
 * @property {number} pid of the process that runs the engine
 * @property {() => Promise<void>} close
 *
 * @typedef {object} Browser
 * @property {string} version
 * @property {() => Promise<Host>} openPage
 * @property {() => Promise<void>} close
 */

const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** The browser that is measured: $CHROMIUM, or the system's. */
export const chromiumPath = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** @param {string} origin of the server @returns {Promise<Browser>} */
export async function startBrowser(origin) {
  if (!existsSync(chromiumPath))
    throw new Error(`${chromiumPath} is missing: make setup FULL=1, or set CHROMIUM`);
  const browser = await chromium.launch({ executablePath: chromiumPath, args: flags });
  return {
    version: browser.version(),
    openPage: () => openPage(browser, origin),
    close: () => browser.close(),
  };
}

/** @param {import('playwright-core').Browser} browser @param {string} origin @returns {Promise<Host>} */
async function openPage(browser, origin) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(0);
  page.on('pageerror', (error) => console.error(`page: ${error.message}`));
  await page.goto(`${origin}/build/bench/page/index.html`);
  await page.waitForFunction('window.bench && crossOriginIsolated');
  return {
    kind: 'chromium',
    pid: await findRenderer(page),
    call: (method, argument) =>
      page.evaluate(
        ([name, value]) => /** @type {any} */ (window).bench.call(name, value),
        [method, argument],
      ),
    linearMemory: () => linearMemory(page),
    close: () => context.close(),
  };
}

/** The process of a page is the renderer that works when the page does.
 * @param {import('playwright-core').Page} page */
async function findRenderer(page) {
  for (let tries = 0; tries < 10; tries++) {
    const renderers = childrenOf(process.pid, '--type=renderer');
    const before = renderers.map(processCpuMs);
    // Longer each time: on a busy machine it gets little of its time.
    await page.evaluate(
      (ms) => {
        const end = performance.now() + ms;
        while (performance.now() < end);
      },
      200 * (tries + 1),
    );
    const used = renderers.map((pid, i) => ({ pid, ms: processCpuMs(pid) - before[i] }));
    const [first, second] = used.sort((a, b) => b.ms - a.ms);
    if (first.ms > 10 + 3 * (second?.ms ?? 0)) return first.pid;
  }
  throw new Error('the process of the page is not to be found: the machine is too busy');
}

/** Looks into the page's workers: threads of Emscripten's programs know the program's memory by this name.
 * @param {import('playwright-core').Page} page */
async function linearMemory(page) {
  const sizes = page.workers().map((worker) => {
    const size = worker.evaluate(() => {
      // @ts-expect-error a variable of the program that is looked into
      return typeof wasmMemory === 'undefined' ? 0 : Number(wasmMemory.buffer.byteLength);
    });
    // A thread that sleeps in wasm never answers; another, not in use, does.
    const none = new Promise((resolve) => setTimeout(() => resolve(0), 5000));
    return /** @type {Promise<number>} */ (Promise.race([size.catch(() => 0), none]));
  });
  return Math.max(0, ...(await Promise.all(sizes)));
}

/** Node new enough for relaxed SIMD: the one from npm, else the one that runs. */
export function newestNode() {
  const name = `node-${process.platform}-${process.arch}`;
  const found = fileURLToPath(new URL(`../../node_modules/${name}/bin/node`, import.meta.url));
  return existsSync(found) ? found : process.execPath;
}

/** @returns {Promise<Host>} */
export async function openProcess() {
  const child = fork(new URL('./child.js', import.meta.url), { execPath: newestNode(), stdio: 'inherit' });
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: Error) => void }>} */
  const pending = new Map();
  let id = 0;
  child.on('message', (/** @type {any} */ message) => {
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    if (message.error) waiting?.reject(new Error(message.error));
    else waiting?.resolve(message.result);
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  ended.then((code) => {
    for (const { reject } of pending.values()) reject(new Error(`the process ended with code ${code}`));
  });
  return {
    kind: 'node',
    pid: Number(child.pid),
    call: (method, argument) =>
      new Promise((resolve, reject) => {
        if (!child.connected) {
          reject(new Error('the process has ended'));
          return;
        }
        pending.set(++id, { resolve, reject });
        child.send({ id, method, argument });
      }),
    linearMemory: async () => 0,
    async close() {
      child.kill();
      await ended;
    },
  };
}
