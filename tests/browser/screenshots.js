// Makes the pictures of docs/images from the built page and SmolLM2: node tests/browser/screenshots.js
import { mkdirSync } from 'node:fs';
import { inProject } from '../node/helpers.js';
import { chromiumTab, launchChromium } from './browsers.js';
import { DemoPage, until } from './demo-page.js';
import { buildDemo, removeFolder, serveFolder } from './servers.js';
import { SMOLLM2 } from './smoke.js';

const QUESTIONS = ['What is the capital of France?', 'Name three things to see there, as a list.'];
const LAYER = 9;
const HEAD = 3;
const DESKTOP = { viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1.25 };
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 1.5 };

/** @param {DemoPage} page @param {string} url */
async function chat(page, url) {
  await page.open(`${url}#panel=chat&layer=${LAYER}&head=${HEAD}`);
  await page.load(SMOLLM2);
  await page.set({ temperature: 0, seed: 1 });
  for (const question of QUESTIONS) await page.ask(question);
}

/**
 * Points at the row of the token "Paris", at what it attends to most.
 * @param {DemoPage} page
 */
async function pointAtParis(page) {
  await page.click('view-text');
  await until(page.tab, 'the token', () => {
    const spans = document.querySelectorAll('[data-testid="token-text"] span');
    const paris = [...spans].find((span) => /Paris/.test(span.textContent ?? ''));
    /** @type {HTMLElement | undefined} */ (paris)?.click();
    return paris !== undefined;
  });
  await page.click('view-map');
  await until(page.tab, 'the weight', () =>
    /Paris.*→/.test(document.querySelector('.readout')?.textContent ?? ''),
  );
}

/**
 * Two frames, in which what was asked for is drawn.
 * @param {import('./browsers.js').Tab} tab
 */
function drawn(tab) {
  return tab.run(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(undefined)))),
  );
}

const images = inProject('docs/images');
mkdirSync(images, { recursive: true });
const folder = await buildDemo();
const server = await serveFolder(folder, { isolated: true });
const browser = await launchChromium();
try {
  const desktop = await chromiumTab(browser, { ...DESKTOP, colorScheme: 'light' });
  const page = new DemoPage(desktop);
  await chat(page, server.url);
  await page.click('tab-attention');
  await pointAtParis(page);
  for (const [colorScheme, name] of /** @type {const} */ ([
    ['light', 'demo-desktop'],
    ['dark', 'demo-desktop-dark'],
  ])) {
    await desktop.page.emulateMedia({ colorScheme });
    await drawn(desktop);
    await desktop.page.screenshot({ path: `${images}/${name}.png`, animations: 'disabled' });
  }
  await desktop.close();

  const phone = await chromiumTab(browser, {
    ...PHONE,
    colorScheme: 'light',
    hasTouch: true,
    isMobile: true,
  });
  const small = new DemoPage(phone);
  await chat(small, server.url);
  await small.click('tab-attention');
  await pointAtParis(small);
  await drawn(phone);
  await phone.page.screenshot({ path: `${images}/demo-phone.png`, animations: 'disabled' });
  await small.checkQuiet();
} finally {
  await browser.close();
  await server.close();
  removeFolder(folder);
}
