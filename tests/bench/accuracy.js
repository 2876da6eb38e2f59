// The error of both precisions on real models, against transformers in float32 on the same dequantized weights.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { newestNode } from './hosts.js';
import { root } from './prepare.js';

/** @typedef {import('./report.js').Figure} Figure */

/** A token outside of our best is taken to be this improbable: natural logarithm. */
const FAR = -20;

/**
 * @typedef {[id: number, logp: number][]} Best most probable tokens, best first
 *
 * Sum of p |log q - log p| over the reference's best tokens, divided by the sum of p.
 * @param {Best} reference @param {Best} ours of the same position, more of them
 * @returns {number}
 */
export function errorAt(reference, ours) {
  const logq = new Map(ours);
  let [sum, weight] = [0, 0];
  for (const [id, logp] of reference) {
    const p = Math.exp(logp);
    sum += p * Math.abs((logq.get(id) ?? FAR) - logp);
    weight += p;
  }
  return sum / weight;
}

/** One line of JSON in and out for each text. @param {string} path @param {string} precision @param {object[]} input */
async function evaluate(path, precision, input) {
  const args = ['eval', path, '--json', '--kv', 'f32', '--threads', '2', '--precision', precision];
  const child = spawn(newestNode(), [`${root}web/bin/headlight.js`, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.stdin.end(input.map((line) => JSON.stringify(line) + '\n').join(''));
  const lines = [];
  for await (const line of createInterface({ input: child.stdout })) lines.push(JSON.parse(line));
  const code = await ended;
  if (code !== 0) throw new Error(`headlight eval ${path} ended with code ${code}`);
  return lines;
}

/**
 * Mean error over positions, and how often the best token is the reference's.
 * @param {import('./race.js').Bench} bench @param {import('./race.js').Model} model
 * @param {string} golden below tests/golden/real
 * @returns {Promise<Figure[]>} none where there is nothing to compare with
 */
export async function accuracy(bench, model, golden) {
  const file = `${root}tests/golden/real/${golden}`;
  if (!existsSync(file)) return [];
  const { cases } = JSON.parse(readFileSync(file, 'utf8'));
  /** @type {Figure} */
  const error = {
    id: `error/${golden}`,
    title: `error of log-probabilities, ${model.name}`,
    unit: 'nats',
    higher: false,
    series: [],
    asked: [
      { series: 'Headlight fast', most: 0.07 },
      { series: 'Headlight high', most: 0.005 },
    ],
  };
  /** @type {Figure} */
  const best = {
    id: `best/${golden}`,
    title: `same best token, ${model.name}`,
    unit: '%',
    higher: true,
    series: [],
    asked: [
      { series: 'Headlight fast', least: 94.5 },
      { series: 'Headlight high', least: 99 },
    ],
  };
  for (const precision of ['fast', 'high']) {
    const input = cases.map((/** @type {any} */ c) => ({ tokens: c.tokens, positions: 'all', top: 64 }));
    const lines = await evaluate(model.path, precision, input);
    let [sum, same, n] = [0, 0, 0];
    for (const [i, { top }] of cases.entries()) {
      for (const [position, reference] of top.entries()) {
        const ours = lines[i].top[position];
        sum += errorAt(reference, ours);
        same += ours[0][0] === reference[0][0] ? 1 : 0;
        n++;
      }
    }
    const name = `Headlight ${precision}`;
    error.series.push({ name, ours: true, values: [sum / n] });
    best.series.push({ name, ours: true, values: [(100 * same) / n] });
    bench.log(`${model.name} ${precision}: error ${(sum / n).toFixed(4)} over ${n} positions`);
  }
  return [error, best];
}
