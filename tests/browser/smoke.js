// One walk through the demo page with SmolLM2, for every browser and every way to serve it.
import assert from 'node:assert/strict';
import { smollm2 } from '../node/helpers.js';
import { DemoPage } from './demo-page.js';
import { conversationTokens, evalAttention, shown, textOf } from './reference.js';

export const SMOLLM2 = 'smollm2-135m-instruct-q4_1';
const QUESTION = 'What is the capital of France?';
/** Keys and values of 3 KV heads of 64 floats, in f16, in each of 30 layers. */
const BYTES_A_TOKEN = 2 * 30 * 3 * 64 * 2;
const BLOCK = 64;
const LAYER = 17;
const HEAD = 4;

/** @type {Map<number, Promise<{ answer: string, weights: string[] }>>} by positions: all pages must show the same */
const references = new Map();

/** @param {number} positions */
function reference(positions) {
  const known = references.get(positions);
  if (known) return known;
  const { path } = smollm2();
  const made = (async () => {
    const messages = [{ role: 'user', content: QUESTION }];
    const { tokens, promptLength } = await conversationTokens(path, messages, positions);
    const attention = await evalAttention(path, tokens, [LAYER]);
    const weights = attention[LAYER][HEAD][positions - 1].map(shown);
    return { answer: await textOf(path, tokens.slice(promptLength)), weights };
  })();
  references.set(positions, made);
  return made;
}

/**
 * @param {import('./browsers.js').Tab} tab
 * @param {string} url
 * @param {{ threads: boolean, relaxed: boolean }} expected of this browser and this server
 */
export async function smoke(tab, url, { threads, relaxed }) {
  const page = new DemoPage(tab);
  await page.open(url);
  await checkEngine(page, { threads, relaxed });
  await page.load(SMOLLM2);
  await page.set({ temperature: 0, maxTokens: 64 });
  const first = await page.ask(QUESTION);
  assert.match(first.text, /Paris/);
  await checkInside(page, first.text);
  await checkStop(page);
  await checkNewChat(page);
  await page.checkQuiet();
}

/** @param {DemoPage} page @param {{ threads: boolean, relaxed: boolean }} expected */
async function checkEngine(page, { threads, relaxed }) {
  const cores = await page.tab.run(() => navigator.hardwareConcurrency);
  const status = await page.text('engine-status');
  const many = threads && cores > 1 ? /^\d+ threads/ : /^1 thread ·/;
  assert.match(status, many);
  assert.match(status, relaxed ? /relaxed SIMD/ : / SIMD/);
  assert.equal(/relaxed/.test(status), relaxed, status);
  if (!threads) assert.match(await page.text('engine-why'), /One thread only: /);
}

/** The panels, against the command line and the formula. @param {DemoPage} page @param {string} answer */
async function checkInside(page, answer) {
  const { positions, used, reserved } = await page.cache();
  assert.equal(used, positions * BYTES_A_TOKEN);
  assert.equal(reserved, Math.ceil(positions / BLOCK) * BLOCK * BYTES_A_TOKEN);
  const expected = await reference(positions);
  assert.equal(answer, expected.answer.trim());
  assert.deepEqual(await page.attention(LAYER, HEAD, positions), expected.weights);
}

/** @param {DemoPage} page */
async function checkStop(page) {
  await page.set({ maxTokens: 2048 });
  const stopped = await page.askAndStop('Write a very long story about a lighthouse and its keeper.');
  assert.match(stopped.stats, /stopped/);
  assert.notEqual(stopped.text, '');
  await page.set({ maxTokens: 16 });
  const next = await page.ask('Say hello.');
  assert.doesNotMatch(next.stats, /stopped/);
  assert.notEqual(next.text, '');
  // What was evaluated before is still there.
  assert.match(next.stats, /[1-9]\d* reused/);
}

/** @param {DemoPage} page */
async function checkNewChat(page) {
  await page.newChat();
  assert.match((await page.ask(QUESTION)).text, /Paris/);
  assert.equal(await page.answers(), 1);
}
