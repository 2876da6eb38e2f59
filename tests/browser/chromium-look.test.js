import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fixture } from '../node/helpers.js';
import { chromiumTab, launchChromium, skipWithout } from './browsers.js';
import { DemoPage, until } from './demo-page.js';
import { buildDemo, removeFolder, serveFolder } from './servers.js';

// What the page looks like on other screens, how it is used without a mouse, and what it tells screen readers.
const skip = skipWithout('chromium');
/** @type {import('playwright-core').Browser} */
let browser;
/** @type {import('./servers.js').Server} */
let server;
let folder = '';

before(async () => {
  if (skip) return;
  browser = await launchChromium();
  folder = await buildDemo();
  server = await serveFolder(folder, { isolated: true });
});
after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) removeFolder(folder);
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
  return { page, tab, screen: tab.page };
}

/** @param {DemoPage} page */
async function openTiny(page) {
  await page.openFile(fixture('llama_gqa'));
  await page.set({ temperature: 0, maxTokens: 32 });
}

/** @returns {string[]} elements that reach beyond the right edge, for a message that helps */
function tooWide() {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const wide = [...document.querySelectorAll('body *')].filter(
    (element) => element.getBoundingClientRect().right > clientWidth + 0.5,
  );
  return [`${scrollWidth} > ${clientWidth}`, ...wide.slice(0, 5).map((e) => `${e.tagName}.${e.className}`)];
}

for (const width of [390, 320]) {
  test(`a phone of ${width} pixels shows all panels without scrolling sideways`, { skip }, async (t) => {
    const size = { width, height: 844 };
    const { page, tab, screen } = await openDemo(t, { viewport: size, hasTouch: true, isMobile: true });
    assert.deepEqual(await tab.run(tooWide), [], 'the model list');
    await openTiny(page);
    await screen.getByTestId('prompt').fill('hello, how are you today? '.repeat(3));
    await screen.getByTestId('send').tap();
    await page.answered();
    assert.deepEqual(await tab.run(tooWide), [], 'the chat');
    await screen.getByTestId('settings-toggle').tap();
    assert.deepEqual(await tab.run(tooWide), [], 'the settings');
    for (const panel of ['attention', 'cache', 'chat']) {
      await screen.getByTestId(`tab-${panel}`).tap();
      await screen.locator(`#${panel}`).waitFor({ state: 'visible' });
      assert.deepEqual(await tab.run(tooWide), [], panel);
    }
    await page.checkQuiet();
  });
}

/** @returns {number} how light the page's background is, 0 to 255 */
function lightness() {
  const [r, g, b] = (getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g) ?? []).map(Number);
  return (r + g + b) / 3;
}

test('the page follows the system to light and dark, and its own switch is kept', { skip }, async (t) => {
  const { page, tab, screen } = await openDemo(t, { colorScheme: 'dark' });
  assert.ok((await tab.run(lightness)) < 60);
  await screen.emulateMedia({ colorScheme: 'light' });
  assert.ok((await tab.run(lightness)) > 200);
  await page.click('theme');
  await page.click('theme');
  await until(tab, 'the dark theme', () => document.documentElement.dataset.theme === 'dark');
  assert.ok((await tab.run(lightness)) < 60);
  await screen.reload();
  await until(tab, 'the dark theme', () => document.documentElement.dataset.theme === 'dark');
  assert.ok((await tab.run(lightness)) < 60);
  await page.checkQuiet();
});

/**
 * Presses Tab until an element has the focus.
 * @param {import('playwright-core').Page} screen @param {string} testid
 */
async function tabTo(screen, testid) {
  for (let i = 0; i < 60; i++) {
    const focused = await screen.evaluate(() => document.activeElement?.getAttribute('data-testid'));
    if (focused === testid) return;
    await screen.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach ${testid}`);
}

/**
 * Presses a key on the map, and waits until what is read out is a cell with its weight and is what is shown.
 * @param {DemoPage} page @param {import('playwright-core').Page} screen @param {string} key
 * @returns {Promise<number[]>} row and column
 */
async function walk(page, screen, key) {
  await screen.keyboard.press(key);
  const said = await until(page.tab, `what ${key} reads out`, () => {
    const said = document.querySelector('[data-testid="attention-live"]')?.textContent ?? '';
    const shown = document.querySelector('.readout')?.textContent;
    return said === shown && /^\d+ “[^]+” → \d+ “[^]+”: (\d|hidden)/.test(said) && said;
  });
  return [.../** @type {RegExpMatchArray} */ (said.match(/^(\d+) “[^]*” → (\d+) “/))].slice(1).map(Number);
}

test('one can chat and look at attention with the keyboard alone', { skip }, async (t) => {
  const { page, screen } = await openDemo(t, { viewport: { width: 1280, height: 800 } });
  // Asked for before the way there: a browser that is not told in time would show its own dialog.
  const chooser = screen.waitForEvent('filechooser');
  await tabTo(screen, 'file');
  await screen.keyboard.press('Enter');
  await (await chooser).setFiles(fixture('llama_gqa'));
  await page.loaded();
  await tabTo(screen, 'settings-toggle');
  await screen.keyboard.press('Enter');
  // The least temperature and the shortest answer: the same tokens every time, and few of them.
  for (const slider of ['temperature', 'maxTokens']) {
    await tabTo(screen, slider);
    await screen.keyboard.press('Home');
  }
  await tabTo(screen, 'settings-toggle');
  await screen.keyboard.press('Enter');
  await tabTo(screen, 'prompt');
  await screen.keyboard.type('hello');
  await screen.keyboard.press('Enter');
  const { stats } = await page.answered();
  assert.match(stats, /16 tokens/);
  await tabTo(screen, 'heatmap');
  const cells = [];
  for (const key of ['ArrowLeft', 'ArrowLeft', 'ArrowUp', 'ArrowRight', 'Home', 'End']) {
    cells.push(await walk(page, screen, key));
  }
  const [last] = cells[0];
  assert.ok(last > 16, 'the prompt and the answer');
  assert.deepEqual(cells, [
    [last, last],
    [last, last - 1],
    [last - 1, last - 1],
    [last - 1, last - 1],
    [last - 1, 0],
    [last - 1, last - 1],
  ]);
  await page.checkQuiet();
});

test('the list, the settings and the panels are named for screen readers', { skip }, async (t) => {
  const { page, screen } = await openDemo(t);
  await screen.getByRole('button', { name: 'Load: SmolLM2 135M Instruct' }).waitFor();
  await openTiny(page);
  await page.ask('hello');
  await screen.getByRole('textbox', { name: 'Message' }).waitFor();
  await screen.getByRole('button', { name: 'Settings' }).click();
  for (const name of ['Temperature', 'Top-p', 'Longest answer']) {
    await screen.getByRole('slider', { name }).waitFor();
  }
  await screen.getByRole('textbox', { name: 'System prompt' }).waitFor();
  await screen.getByRole('radio', { name: 'Head 3' }).waitFor();
  await screen.getByRole('combobox', { name: 'Layer' }).waitFor();
  assert.match(
    (await screen.getByTestId('heatmap').getAttribute('aria-label')) ?? '',
    /Attention of layer 0/,
  );
  assert.notEqual(await page.text('chat-live'), '');
  await page.checkQuiet();
});
