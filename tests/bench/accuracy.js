// The error of both precisions on real models, by the same comparison as in the tests.
import { BOUNDS, bestTokens, compare, reference } from '../node/real-models.js';
import { newestNode } from './hosts.js';

/** @typedef {import('./report.js').Figure} Figure */

/**
 * Mean error over the positions of two texts, and how often the best token is the reference's.
 * @param {import('./race.js').Bench} bench @param {import('./race.js').Model} model
 * @param {string} name of the reference
 * @returns {Promise<Figure[]>}
 */
export async function accuracy(bench, model, name) {
  const { cases } = reference(name);
  /** @type {Figure} */
  const error = {
    id: `accuracy/${name}/error`,
    title: `error of log-probabilities, ${model.name}`,
    unit: 'nats',
    higher: false,
    series: [],
    asked: [],
  };
  /** @type {Figure} */
  const best = {
    id: `accuracy/${name}/best`,
    title: `same best token, ${model.name}`,
    unit: '%',
    higher: true,
    series: [],
    asked: [],
  };
  for (const precision of /** @type {const} */ (['fast', 'high'])) {
    const options = { kv: 'f32', precision, threads: '2' };
    const found = compare(await bestTokens(model.path, cases, options, newestNode()), cases);
    const series = `Headlight ${precision}`;
    error.series.push({ name: series, ours: true, values: [found.error] });
    error.asked?.push({ series, most: BOUNDS[precision].error });
    best.series.push({ name: series, ours: true, values: [100 * found.best] });
    best.asked?.push({ series, least: 100 * BOUNDS[precision].best });
    bench.log(`${model.name} ${precision}: error ${found.error.toFixed(4)}`);
  }
  return [error, best];
}
