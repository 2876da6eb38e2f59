// The three browsers behind one face, so that one test runs in all of them.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * @typedef {object} Tab A page.
 * @property {(url: string) => Promise<void>} goto
 * @property {<A extends any[], R>(code: (...args: A) => R, ...args: A) => Promise<Awaited<R>>} run
 *   runs code in the page; it must not refer to anything outside of it
 * @property {(testid: string, path: string | string[]) => Promise<void>} setFile a list: in Chromium only
 * @property {() => Promise<string[]>} problems console errors, uncaught errors and unhandled rejections so far
 * @property {() => Promise<void>} close
 *
 * @typedef {object} Browser
 * @property {() => Promise<Tab>} open
 * @property {() => Promise<void>} close
 */

/** @param {(...args: any[]) => any} code @param {any[]} args */
const call = (code, args) => `(${code})(...${JSON.stringify(args)})`;

/** @param {string} testid */
const selector = (testid) => `[data-testid="${testid}"]`;

/**
 * @param {(string | undefined)[]} paths
 * @returns {string | undefined} the first that exists
 */
const firstOf = (paths) => paths.find((path) => path !== undefined && existsSync(path));

/** MiniBrowser lies below the machine's own library folder. */
function findMiniBrowser() {
  const folders = ['/usr/libexec', '/usr/lib', ...readdirSync('/usr/lib').map((name) => `/usr/lib/${name}`)];
  return firstOf(folders.map((folder) => `${folder}/webkit2gtk-4.1/MiniBrowser`));
}

const paths = {
  chromium: firstOf([process.env.CHROMIUM, '/usr/bin/chromium']),
  firefox: firstOf([process.env.FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox']),
  webkit: firstOf([process.env.WEBKIT_DRIVER, '/usr/bin/WebKitWebDriver']) && findMiniBrowser(),
};

/**
 * Why a browser's tests do not run. With CI=true they run, and fail.
 * @param {keyof typeof paths} name
 * @returns {string | false}
 */
export function skipWithout(name) {
  if (paths[name] || process.env.CI === 'true') return false;
  return `SKIPPED: there is no ${name}; make setup FULL=1 installs it`;
}

/** @param {keyof typeof paths} name */
function pathOf(name) {
  const path = paths[name];
  if (!path) throw new Error(`there is no ${name}: make setup FULL=1 installs it`);
  return path;
}

/** @returns {Promise<import('playwright-core').Browser>} */
export async function launchChromium() {
  const { chromium } = await import('playwright-core');
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
  args.push('--disable-background-networking', '--disable-component-update', '--disable-sync');
  return chromium.launch({ executablePath: pathOf('chromium'), args, timeout: 180000 });
}

/**
 * A page in a profile of its own.
 * @param {import('playwright-core').Browser} browser
 * @param {import('playwright-core').BrowserContextOptions} [options]
 * @returns {Promise<Tab & { page: import('playwright-core').Page }>}
 */
export async function chromiumTab(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(180000);
  /** @type {string[]} */
  const problems = [];
  context.on('weberror', (error) =>
    problems.push(`uncaught: ${error.error().stack ?? error.error().message}`),
  );
  page.on('console', (said) => said.type() === 'error' && problems.push(`console: ${said.text()}`));
  page.on('crash', () => problems.push('the page crashed'));
  return {
    page,
    goto: async (url) => void (await page.goto(url)),
    run: (code, ...args) => page.evaluate(call(code, args)),
    setFile: (testid, path) => page.setInputFiles(selector(testid), path),
    problems: async () => problems,
    close: () => context.close(),
  };
}

/** @returns {Promise<Browser>} */
export async function startFirefox() {
  const { launch } = (await import('puppeteer-core')).default;
  const browser = await launch({
    browser: 'firefox',
    executablePath: pathOf('firefox'),
    headless: true,
    timeout: 180000,
    protocolTimeout: 600000,
  });
  return {
    async open() {
      const page = await browser.newPage();
      await page.setViewport({ width: 1280, height: 800 });
      page.setDefaultTimeout(180000);
      /** @type {string[]} */
      const problems = [];
      page.on('pageerror', (error) => problems.push(`uncaught: ${/** @type {Error} */ (error).message}`));
      page.on('console', (said) => said.type() === 'error' && problems.push(`console: ${said.text()}`));
      return {
        goto: async (url) => void (await page.goto(url)),
        run: (code, ...args) => /** @type {any} */ (page.evaluate(call(code, args))),
        async setFile(testid, path) {
          const input = await page.$(selector(testid));
          await /** @type {import('puppeteer-core').ElementHandle<HTMLInputElement>} */ (input).uploadFile(
            path,
          );
        },
        problems: async () => problems,
        close: () => page.close(),
      };
    },
    close: () => browser.close(),
  };
}

/** @returns {Promise<number>} a port that is free now */
async function freePort() {
  const server = createServer();
  await new Promise((ready) => server.listen(0, '127.0.0.1', () => ready(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((done) => server.close(done));
  return port;
}

/**
 * WebKitGTK's driver on a screen that nobody sees.
 * @returns {Promise<{ url: string, end: () => void }>}
 */
async function startWebKitDriver() {
  const port = await freePort();
  const driver = process.env.WEBKIT_DRIVER ?? 'WebKitWebDriver';
  const home = mkdtempSync(join(tmpdir(), 'headlight-webkit-'));
  const folders = { HOME: home, XDG_CACHE_HOME: home, XDG_DATA_HOME: home };
  // Without a graphics card the renderer that shares buffers with one draws a frame in ten seconds.
  const env = { ...process.env, ...folders, WEBKIT_DISABLE_DMABUF_RENDERER: '1' };
  const screen = ['-a', '-s', '-screen 0 1400x1000x24'];
  const child = spawn('xvfb-run', [...screen, driver, `--port=${port}`, '--host=127.0.0.1'], {
    env,
    detached: true,
    stdio: 'ignore',
  });
  const end = () => {
    try {
      process.kill(-(/** @type {number} */ (child.pid)));
    } catch {
      // It has ended by itself.
    }
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  };
  const url = `http://127.0.0.1:${port}`;
  const failed = new Promise((_, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`xvfb-run ${driver} ended with ${code}`)));
  });
  failed.catch(() => {});
  try {
    for (;;) {
      const answer = fetch(`${url}/status`).catch(() => undefined);
      if (await Promise.race([answer, failed])) return { url, end };
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  } catch (error) {
    end();
    throw error;
  }
}

/**
 * The page must come from a server that lets it keep its problems, since the driver does not tell them.
 * @returns {Promise<Browser>}
 */
export async function startWebKit() {
  // @ts-expect-error the package has no types
  const { Builder, By } = await import('selenium-webdriver');
  const binary = pathOf('webkit');
  const service = await startWebKitDriver();
  const driver = await new Builder()
    .usingServer(service.url)
    .withCapabilities({
      browserName: 'MiniBrowser',
      'webkitgtk:browserOptions': { binary, args: ['--automation'] },
    })
    .build();
  await driver.manage().setTimeouts({ script: 600000, pageLoad: 180000 });
  await driver.manage().window().setRect({ width: 1280, height: 900 });
  const close = async () => {
    await driver.quit().catch(() => {});
    service.end();
  };
  return {
    open: async () => ({
      goto: (url) => driver.get(url),
      run: (code, ...args) => driver.executeScript(`return ${call(code, args)}`),
      setFile: (testid, path) => driver.findElement(By.css(selector(testid))).sendKeys(path),
      problems: async () =>
        (await driver.executeScript('return globalThis.problems')) ?? ['the page kept no list of problems'],
      close: async () => {},
    }),
    close,
  };
}
