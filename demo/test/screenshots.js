/*
 * Makes the pictures in docs/images from the real page, served by `npm run dev` or `npm run preview`:
 *   node demo/test/screenshots.js http://localhost:5173/
 */
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const FOLDER = fileURLToPath(new URL('../../docs/images/', import.meta.url));
const QUESTIONS = ['What is the capital of France?', 'Name three things to see there, as a list.'];
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'];

/**
 * @param {import('playwright-core').Browser} browser
 * @param {string} address
 * @param {import('playwright-core').BrowserContextOptions} look
 */
async function talk(browser, address, look) {
  const page = await browser.newPage(look);
  const at = (/** @type {string} */ id) => page.getByTestId(id);
  await page.goto(`${address}#panel=chat&layer=9&head=3`);
  await page.locator('[data-testid^="load-smollm2"]').click();
  await at('prompt').waitFor({ state: 'visible', timeout: 60_000 });
  await at('settings-toggle').click();
  await at('temperature').fill('0');
  await page.keyboard.press('Escape');
  for (const question of QUESTIONS) {
    await at('prompt').fill(question);
    await page.keyboard.press('Enter');
    await at('stop').waitFor({ state: 'visible' });
    await at('send').waitFor({ state: 'visible', timeout: 120_000 });
  }
  await page.waitForTimeout(800);
  return { page, at };
}

const [address] = process.argv.slice(2);
mkdirSync(FOLDER, { recursive: true });
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });

const desktop = await talk(browser, address, {
  viewport: { width: 1280, height: 800 },
  colorScheme: 'dark',
  deviceScaleFactor: 1.25,
});
await desktop.at('view-text').click();
await desktop.at('token-text').locator('span', { hasText: 'Paris' }).click();
await desktop.at('view-map').click();
await desktop.at('prompt').focus();
await desktop.page.waitForTimeout(500);
await desktop.page.screenshot({ path: `${FOLDER}demo-desktop.png` });

const phone = await talk(browser, address, {
  viewport: { width: 390, height: 844 },
  colorScheme: 'light',
  deviceScaleFactor: 1.5,
});
await phone.at('tab-cache').click();
await phone.page.waitForTimeout(500);
await phone.page.screenshot({ path: `${FOLDER}demo-phone.png` });

await browser.close();
