// Engines side by side: opened together, measured in turn, round after round.
import { openProcess } from './hosts.js';
import { cpuShares, cpuTicks, foreignLoad } from './machine.js';
import { makePrompt } from './prompts.js';

/**
 * @typedef {object} Entrant
 * @property {string} name
 * @property {string} peer module of peers/
 * @property {'chromium' | 'node'} where
 * @property {Record<string, any>} settings
 *
 * @typedef {object} Model
 * @property {string} name for titles
 * @property {string} path
 * @property {string} url of the same file on the bench's server
 * @property {string} sha256
 *
 * @typedef {import('./report.js').Series} Series
 *
 * @typedef {object} Bench what a run shares
 * @property {() => Promise<import('./hosts.js').Host>} openPage
 * @property {(text: string) => void} log
 * @property {import('./report.js').Table[]} tables printed below the figures
 * @property {number[]} pauses busy share of the cores while every engine waits
 * @property {Record<string, Record<string, unknown>>} says what engines told of themselves, by name
 * @property {(peer: string) => Record<string, any>} settingsOf peer that serve it best
 *
 * @typedef {object} Runner an engine that is open
 * @property {Entrant} entrant
 * @property {import('./hosts.js').Host} host
 * @property {Record<string, any>} says of itself
 * @property {(options: import('./peers/types.js').RunOptions) => Promise<import('./peers/types.js').Timing>} run
 * @property {() => Promise<void>} close
 */

/** @param {Entrant} entrant */
export const isOurs = (entrant) => entrant.peer === 'headlight';

/** Series of figures, empty, one for each entrant. @param {Entrant[]} entrants @returns {import('./report.js').Series[]} */
export function emptySeries(entrants) {
  return entrants.map((entrant) => ({ name: entrant.name, ours: isOurs(entrant), values: [] }));
}

/**
 * A new page or process with the engine in it, and no model.
 * @param {Bench} bench @param {Entrant} entrant
 */
export async function openHost(bench, entrant) {
  const host = entrant.where === 'node' ? await openProcess() : await bench.openPage();
  await host.call('create', entrant.peer);
  return host;
}

/**
 * @param {Bench} bench @param {Entrant} entrant @param {Model} model
 * @param {{ threads: number, context: number }} options
 * @returns {Promise<Runner>}
 */
export async function openRunner(bench, entrant, model, { threads, context }) {
  const host = await openHost(bench, entrant);
  const settings = { ...bench.settingsOf(entrant.peer), ...entrant.settings };
  const source = entrant.where === 'node' ? model.path : model.url;
  try {
    const says = await host.call('open', { model: source, threads, context, settings });
    bench.says[entrant.name] = { settings, ...says };
    return { entrant, host, says, run: (options) => host.call('run', options), close: () => closeHost(host) };
  } catch (error) {
    await host.close();
    throw error;
  }
}

/** @param {import('./hosts.js').Host} host */
export async function closeHost(host) {
  await host.call('close').catch(() => {});
  await host.close();
}

/**
 * Opens engines, gives them to `work`, and closes them.
 * @template T
 * @param {Bench} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ threads: number, context: number }} options
 * @param {(runners: Runner[]) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withRunners(bench, entrants, model, options, work) {
  /** @type {Runner[]} */
  const runners = [];
  try {
    for (const entrant of entrants) runners.push(await openRunner(bench, entrant, model, options));
    return await work(runners);
  } finally {
    for (const runner of runners) await runner.close();
  }
}

/** A prompt in the words of the first engine that has a tokenizer to ask.
 * @param {Runner[]} runners @param {number} n tokens */
export async function promptFor(runners, n) {
  const able = runners.find(({ entrant }) => entrant.peer !== 'wllama3');
  // Without any, about so many words: wllama 3 alone is given text.
  if (!able)
    return { text: (await makePrompt(async (text) => text.split(' ').map(Number), n)).text, ids: [] };
  return makePrompt((text) => able.host.call('tokenize', text), n);
}

/**
 * Calls `measure` for every engine in every round. The order turns round from one round to the next, so that no engine
 * always comes after the same.
 * @param {Bench} bench @param {Runner[]} runners @param {number} rounds
 * @param {(runner: Runner, index: number, round: number) => Promise<void>} measure
 */
export async function playRounds(bench, runners, rounds, measure) {
  for (let round = 0; round < rounds; round++) {
    bench.pauses.push(await foreignLoad(300));
    const order = runners.map((_, i) => i);
    if (round % 2) order.reverse();
    for (const i of order) await measure(runners[i], i, round);
  }
}

/**
 * Runs an engine for two seconds, until what runs often is compiled well, whatever it has to run.
 * @param {Runner} runner @param {import('./prompts.js').Prompt} prompt a short one
 */
export async function warmUp({ run }, prompt) {
  const start = performance.now();
  do await run({ ...prompt, tokens: 4 });
  while (performance.now() - start < 2000);
}

/**
 * Whether a peer needs no more rounds: another one was a third faster in every rate of the first.
 * @param {Series[][]} rates of each kind, all engines @param {number} index of the peer
 * @returns {boolean}
 */
export function isOutrun(rates, index) {
  const faster = (/** @type {Series[]} */ series, /** @type {number} */ other) =>
    3 * series[other].values[0] > 4 * series[index].values[0];
  return rates[0].some(({ ours }, i) => !ours && i !== index && rates.every((series) => faster(series, i)));
}

/**
 * Prefill and decode rates, interleaved, after a warm-up. A peer that another outruns by far plays one round.
 * @param {Bench} bench @param {Runner[]} runners
 * @param {{ prompt: import('./prompts.js').Prompt, tokens: number, rounds: number, limitMs?: number }} options
 * @returns {Promise<{ prefill: Series[], decode: Series[] }>} tokens a second
 */
export async function measureRates(bench, runners, { prompt, tokens, rounds, limitMs }) {
  const entrants = runners.map(({ entrant }) => entrant);
  const rates = { prefill: emptySeries(entrants), decode: emptySeries(entrants) };
  const short = await promptFor(runners, 64);
  for (const runner of runners) await warmUp(runner, short);
  await playRounds(bench, runners, rounds, async ({ entrant, run }, i, round) => {
    if (round > 0 && !isOurs(entrant) && isOutrun([rates.prefill, rates.decode], i)) return;
    const timing = await run({ ...prompt, tokens, limitMs });
    // One token more where an engine that takes text adds the begin-of-text token by itself.
    if (Math.abs(timing.evaluated - prompt.ids.length) > 1) {
      throw new Error(`${entrant.name} evaluated ${timing.evaluated} tokens of ${prompt.ids.length}`);
    }
    rates.prefill[i].values.push((1000 * timing.evaluated) / timing.promptMs);
    rates.decode[i].values.push((1000 * timing.decoded) / timing.decodeMs);
    bench.log(`${entrant.name}: ${rateOf(rates.prefill[i])} prefill, ${rateOf(rates.decode[i])} decode`);
  });
  return rates;
}

/** @param {import('./report.js').Series} series */
const rateOf = ({ values }) => `${values[values.length - 1].toFixed(1)} tok/s`;

/** Follows the machine's stolen time. */
export function watchSteal() {
  const before = cpuTicks();
  return () => cpuShares(before, cpuTicks()).steal;
}
