// Looks for the settings that serve each peer best on this machine, so that it is met at its fastest.
import { openRunner, promptFor, warmUp } from './race.js';

/** @typedef {import('./race.js').Bench} Bench */

/** @type {Record<string, Record<string, any>[]>} what is tried, by peer; the first is taken when nothing is tried */
export const candidates = {
  wllama2: [{ n_batch: 512 }, { n_batch: 128 }],
  wllama3: [
    { flash_attn: false, n_batch: 512, n_ubatch: 512 },
    { flash_attn: true, n_batch: 512, n_ubatch: 512 },
    { flash_attn: false, n_batch: 128, n_ubatch: 128 },
    { flash_attn: true, n_batch: 128, n_ubatch: 128 },
  ],
  llama_cpp: [
    { flashAttention: false, batchSize: 512 },
    { flashAttention: true, batchSize: 512 },
    { flashAttention: false, batchSize: 128 },
    { flashAttention: true, batchSize: 128 },
  ],
};

/**
 * @typedef {object} Trial
 * @property {string} peer
 * @property {Record<string, any>} settings
 * @property {number} prefill tokens a second
 * @property {number} decode
 */

/**
 * Tries every candidate of a peer once.
 * @param {Bench} bench @param {import('./race.js').Entrant} entrant @param {import('./race.js').Model} model
 * @param {{ threads: number, prompt?: import('./prompts.js').Prompt }} options
 * @returns {Promise<Trial[]>} best first: by the product of both rates
 */
export async function tune(bench, entrant, model, { threads, prompt }) {
  /** @type {Trial[]} */
  const trials = [];
  for (const settings of candidates[entrant.peer]) {
    const tried = { ...entrant, settings };
    const runner = await openRunner(bench, tried, model, { threads, context: 512 });
    const given = prompt ?? (await promptFor([runner], 128));
    await warmUp(runner, given);
    const timing = await runner.run({ ...given, tokens: 33 });
    await runner.close();
    trials.push({
      peer: entrant.peer,
      settings,
      prefill: (1000 * timing.evaluated) / timing.promptMs,
      decode: (1000 * timing.decoded) / timing.decodeMs,
    });
    bench.log(`${entrant.name} with ${JSON.stringify(settings)}: ${rates(trials[trials.length - 1])}`);
  }
  return trials.sort((a, b) => b.prefill * b.decode - a.prefill * a.decode);
}

/** @param {Trial} trial */
const rates = ({ prefill, decode }) => `${prefill.toFixed(1)} prefill, ${decode.toFixed(1)} decode`;
