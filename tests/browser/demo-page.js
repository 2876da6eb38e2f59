// The demo page in any browser: what a person does and sees, by the page's handles for tests (demo/README.md).
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {import('./browsers.js').Tab} Tab */
/**
 * What is waited for, without what stands for "not yet".
 * @template R
 * @typedef {Exclude<Awaited<R>, false | null | undefined | ''>} Found
 */

/** States are waited for, so the machine may be slow; what takes longer than this does not come. In milliseconds. */
const PATIENCE = 240000;

/**
 * Runs code in a page that may be about to load again, which is no failure.
 * @template {any[]} A, R
 * @param {Tab} tab @param {(...args: A) => R} code @param {A} args
 */
async function attempt(tab, code, args) {
  try {
    return await tab.run(code, ...args);
  } catch (error) {
    if (/navigation|context was destroyed/i.test(/** @type {Error} */ (error).message)) return undefined;
    throw error;
  }
}

/**
 * Waits until code in the page gives something.
 * @template {any[]} A, R
 * @param {Tab} tab
 * @param {string} what is waited for, in words
 * @param {(...args: A) => R} code @param {A} args
 * @returns {Promise<Found<R>>}
 */
export async function until(tab, what, code, ...args) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(50)) {
    const found = await attempt(tab, code, args);
    if (found) return /** @type {Found<R>} */ (found);
  }
  const seen = await attempt(tab, () => document.body.innerText, []);
  const problems = (await tab.problems()).join('\n') || 'none';
  throw new Error(`still waiting for ${what}; problems: ${problems}; the page shows:\n${seen}`);
}

/** The elements are found in the page: a test id may be there more than once, and the last one counts. */
export class DemoPage {
  /** @param {Tab} tab */
  constructor(tab) {
    this.tab = tab;
  }

  /** @param {string} url @returns {Promise<void>} when the page has looked at its engine */
  async open(url) {
    await this.tab.goto(url);
    await until(this.tab, 'the engine status', () => {
      // Where a service worker adds headers, the page is loaded once more.
      return document.querySelector('[data-testid="engine-status"]')?.textContent !== '';
    });
  }

  /** @param {string} testid @returns {Promise<string>} */
  text(testid) {
    return this.tab.run(
      (id) => [...document.querySelectorAll(`[data-testid="${id}"]`)].at(-1)?.textContent ?? '',
      testid,
    );
  }

  /** @param {string} testid @returns {Promise<boolean>} */
  seen(testid) {
    return this.tab.run((id) => {
      const element = [...document.querySelectorAll(`[data-testid="${id}"]`)].at(-1);
      return element !== undefined && element.getClientRects().length > 0;
    }, testid);
  }

  /** @param {string} testid */
  async click(testid) {
    await until(
      this.tab,
      `${testid} to click on`,
      (id) => {
        const found = /** @type {NodeListOf<HTMLButtonElement>} */ (
          document.querySelectorAll(`[data-testid="${id}"]`)
        );
        const element = [...found].at(-1);
        if (!element || element.disabled || element.getClientRects().length === 0) return false;
        element.click();
        return true;
      },
      testid,
    );
  }

  /** Gives a field a value as typing does. @param {string} testid @param {string | number} value */
  async fill(testid, value) {
    await this.tab.run(
      (id, text) => {
        const field = /** @type {HTMLInputElement} */ (document.querySelector(`[data-testid="${id}"]`));
        field.value = text;
        field.dispatchEvent(new Event('input', { bubbles: true }));
        field.dispatchEvent(new Event('change', { bubbles: true }));
      },
      testid,
      String(value),
    );
  }

  /** @param {string} id of the model list @returns {Promise<void>} when one can chat */
  async load(id) {
    await this.click(`load-${id}`);
    await this.loaded();
  }

  /** @param {string | string[]} path @returns {Promise<void>} when one can chat */
  async openFile(path) {
    await this.tab.setFile('file', path);
    await this.loaded();
  }

  async loaded() {
    await this.untilOrNotice('a model', () => {
      const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('[data-testid="send"]'));
      return send !== null && !send.disabled && send.getClientRects().length > 0;
    });
  }

  /**
   * Waits, but not on after the page has said that something went wrong.
   * @template {any[]} A, R
   * @param {string} what @param {(...args: A) => R} code @param {A} args
   * @returns {Promise<Found<R>>}
   */
  async untilOrNotice(what, code, ...args) {
    const ends = { over: false };
    const notice = (async () => {
      while (!ends.over) {
        const text = await this.notice('error');
        if (text) throw new Error(`instead of ${what}, a notice: ${text}`);
        await sleep(500);
      }
    })();
    try {
      return /** @type {Found<R>} */ (await Promise.race([until(this.tab, what, code, ...args), notice]));
    } finally {
      ends.over = true;
    }
  }

  /** @param {'error' | 'info'} kind @returns {Promise<string>} the notice that is shown, or '' */
  notice(kind) {
    return this.tab.run((k) => document.querySelector(`.notice.${k} > div`)?.textContent ?? '', kind);
  }

  /** @param {RegExp} expected @returns {Promise<string>} the error that is said */
  async complaint(expected) {
    const text = await until(
      this.tab,
      `a notice like ${expected}`,
      () => document.querySelector('.notice.error > div')?.textContent,
    );
    assert.match(text, expected);
    return text;
  }

  /** @param {'notice-close' | 'notice-action'} testid @returns {Promise<void>} when the notice is gone */
  async dismiss(testid) {
    const before = await this.tab.run(() => document.querySelector('.notice')?.textContent);
    await this.click(testid);
    await until(
      this.tab,
      'the notice to go',
      (old) => document.querySelector('.notice')?.textContent !== old,
      before,
    );
  }

  /** @param {Partial<Record<'temperature' | 'topP' | 'maxTokens' | 'seed' | 'system', string | number>>} values */
  async set(values) {
    await this.click('settings-toggle');
    for (const [name, value] of Object.entries(values)) await this.fill(name, value);
    await this.click('settings-toggle');
  }

  /** @returns {Promise<number>} answers that are shown, whole or not */
  answers() {
    return this.tab.run(() => document.querySelectorAll('[data-testid="message-assistant"]').length);
  }

  /** @param {string} text @returns {Promise<void>} when there is a place for the answer */
  async say(text) {
    const before = await this.answers();
    await this.fill('prompt', text);
    await this.click('send');
    await this.untilOrNotice(
      'an answer to begin',
      (n) => document.querySelectorAll('[data-testid="message-assistant"]').length > n,
      before,
    );
  }

  /** @returns {Promise<void>} when no message is left */
  async newChat() {
    await this.click('new-chat');
    await until(this.tab, 'an empty chat', () => !document.querySelector('[data-testid="messages"] article'));
  }

  /** @returns {Promise<{ text: string, stats: string }>} the last answer, when it has ended */
  async answered() {
    return this.untilOrNotice('an answer to end', () => {
      const answer = [...document.querySelectorAll('[data-testid="message-assistant"]')].at(-1);
      const stats = answer?.querySelector('[data-testid="stats"]')?.textContent ?? '';
      const text = answer?.querySelector('.body')?.textContent?.trim() ?? '';
      return answer?.getAttribute('aria-busy') === 'false' && stats !== '' && { text, stats };
    });
  }

  /** @param {string} text */
  async ask(text) {
    await this.say(text);
    return this.answered();
  }

  /** Asks, and stops when some words are there. @param {string} text */
  async askAndStop(text) {
    await this.say(text);
    await this.untilOrNotice('the first words', () => {
      const answer = [...document.querySelectorAll('[data-testid="message-assistant"]')].at(-1);
      return (answer?.querySelector('.body')?.textContent ?? '').length > 10;
    });
    await this.click('stop');
    return this.answered();
  }

  /** @returns {Promise<{ positions: number, used: number, reserved: number }>} what the cache panel shows */
  async cache() {
    if (await this.seen('tab-cache')) await this.click('tab-cache');
    const [positions, used, reserved] = await until(this.tab, 'the cache panel', () => {
      const used = /** @type {HTMLElement | null} */ (document.querySelector('[data-testid="cache-used"]'));
      const all = /** @type {HTMLElement | null} */ (
        document.querySelector('[data-testid="cache-reserved"]')
      );
      if (!used?.dataset.bytes || !used.getClientRects().length) return null;
      return [used.dataset.positions, used.dataset.bytes, all?.dataset.bytes].map(Number);
    });
    return { positions, used, reserved };
  }

  /**
   * What the attention panel says of the last token, read from its table.
   * @param {number} layer @param {number} head
   * @param {number} positions rows that must be there
   * @returns {Promise<string[]>} a weight for each position, as text
   */
  async attention(layer, head, positions) {
    if (await this.seen('tab-attention')) await this.click('tab-attention');
    await this.fill('layer', layer);
    await this.click(`head-${head}`);
    await this.check('hide-sink', false);
    await this.check('as-table', true);
    return until(
      this.tab,
      `${positions} weights of layer ${layer}, head ${head}`,
      (caption, n) => {
        if (document.querySelector('[data-testid="attention-status"]')?.textContent !== '') return null;
        const table = document.querySelector('[data-testid="attention-table"]');
        if (!table?.querySelector('caption')?.textContent?.endsWith(caption)) return null;
        const weights = [...table.querySelectorAll('tbody td:last-child')].map(
          (cell) => cell.textContent ?? '',
        );
        return weights.length === n ? weights : null;
      },
      `layer ${layer}, head ${head}`,
      positions,
    );
  }

  /** @param {string} testid of a check box @param {boolean} wanted */
  async check(testid, wanted) {
    await this.tab.run(
      (id, on) => {
        const box = /** @type {HTMLInputElement} */ (document.querySelector(`[data-testid="${id}"]`));
        if (box.checked !== on) box.click();
      },
      testid,
      wanted,
    );
  }

  /** Fails on everything that a browser's console would show in red. */
  async checkQuiet() {
    assert.deepEqual(await this.tab.problems(), []);
  }
}
