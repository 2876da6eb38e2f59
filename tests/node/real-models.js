// What the tests of real models share: where the files lie, and how far predictions are from the reference's.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { cli, inProject } from './helpers.js';

/** Bounds of the mean error in nats and of agreement on the best token, for each precision. */
export const BOUNDS = { fast: { error: 0.07, best: 0.945 }, high: { error: 0.005, best: 0.99 } };
/** A token outside of our best is taken to be this improbable: natural logarithm. */
const FAR = -20;
/** A greedy step is compared where the best token leads by more. */
const CLEAR_MARGIN = 0.02;

/**
 * @param {string} name
 * @returns {any} transformers' numbers on two texts: the 16 best of every position, and how it goes on
 */
export const reference = (name) =>
  JSON.parse(readFileSync(inProject(`tests/golden/real/${name}.json`), 'utf8'));

/**
 * The best tokens of every position of each text.
 * @param {string} path
 * @param {any[]} cases of the reference
 * @param {Record<string, string>} options of eval
 * @param {string} [node] which runs it
 * @returns {Promise<any[]>} a line for each case
 */
export async function bestTokens(path, cases, options, node) {
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const input = cases.map((c) => ({ tokens: c.tokens, positions: 'all', top: 64 }));
  const { lines, stderr } = await cli(['eval', path, '--json', ...args], { node, input });
  assert.equal(lines.length, cases.length, stderr);
  return lines;
}

/**
 * Mean over positions of sum p |log q - log p| / sum p over the reference's best tokens, and how often the best agree.
 * @param {any[]} lines of eval, one a case
 * @param {any[]} cases
 */
export function compare(lines, cases) {
  let [error, same, n] = [0, 0, 0];
  cases.forEach((c, i) => {
    c.top.forEach((best, position) => {
      const ours = new Map(lines[i].top[position]);
      let [sum, weight] = [0, 0];
      for (const [id, logp] of best) {
        const p = Math.exp(logp);
        sum += p * Math.abs((ours.get(id) ?? FAR) - logp);
        weight += p;
      }
      error += sum / weight;
      same += lines[i].top[position][0][0] === best[0][0] ? 1 : 0;
      n++;
    });
  });
  return { error: error / n, best: same / n };
}

/**
 * Checks a model's predictions, and says how near they are.
 * @param {import('node:test').TestContext} t
 * @param {any[]} lines
 * @param {any[]} cases
 * @param {{ error: number, best: number }} bounds
 */
export function expectNear(t, lines, cases, bounds) {
  const { error, best } = compare(lines, cases);
  t.diagnostic(`error ${error.toFixed(4)}, best token agrees ${(100 * best).toFixed(1)} %`);
  assert.ok(error <= bounds.error, `error ${error}`);
  assert.ok(best >= bounds.best, `agreement ${best}`);
}

/**
 * Checks that a model at high precision goes on as the reference does, until the reference's choice is a close one.
 * @param {string} path
 * @param {any[]} cases
 * @param {number} least tokens there are to compare in each
 */
export async function expectSameContinuation(path, cases, least) {
  const input = cases.map((c) => ({ tokens: c.tokens, greedy: c.greedy.length }));
  const args = ['--kv', 'f32', '--precision', 'high'];
  const { lines, stderr } = await cli(['eval', path, '--json', ...args], { input });
  assert.equal(lines.length, cases.length, stderr);
  cases.forEach((c, i) => {
    const unclear = c.greedy.findIndex(([, margin]) => margin <= CLEAR_MARGIN);
    const n = unclear < 0 ? c.greedy.length : unclear;
    assert.ok(n >= least, 'enough to compare');
    assert.deepEqual(
      lines[i].greedy.slice(0, n),
      c.greedy.slice(0, n).map(([id]) => id),
    );
  });
}

/** @param {Float32Array} logits @returns {number} natural logarithm of the sum of their exponentials */
function logSum(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  return most + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - most), 0));
}

/**
 * Kullback-Leibler divergence of two predictions over the whole vocabulary.
 * @param {Float32Array} p logits of the one that counts as right
 * @param {Float32Array} q logits
 * @returns {number} nats
 */
export function divergence(p, q) {
  const [p0, q0] = [logSum(p), logSum(q)];
  return p.reduce((sum, x, i) => sum + Math.exp(x - p0) * (x - p0 - (q[i] - q0)), 0);
}
