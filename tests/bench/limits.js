// The machine's own limit, by the same kernels with nothing around them, and where the time of a token goes.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { decodeRates } from './experiments.js';
import { newestNode } from './hosts.js';
import { root, tensorsOf } from './prepare.js';
import { measureRates, promptFor, withRunners } from './race.js';
import { median } from './stats.js';

/** @typedef {import('./race.js').Bench} Bench */
/** @typedef {import('./race.js').Entrant} Entrant */
/** @typedef {import('./race.js').Model} Model */
/** @typedef {import('./report.js').Figure} Figure */
/** @typedef {import('./report.js').Table} Table */

const run = promisify(execFile);

/** A program that `make bench` has built. @param {string} path below build/ @param {(string | number)[]} args */
async function output(path, args) {
  // Functions are compiled well at once: short loops would run as V8's baseline compiler leaves them.
  const { stdout } = await run(newestNode(), ['--no-liftoff', `${root}build/${path}`, ...args.map(String)]);
  return stdout;
}

/**
 * @typedef {object} KernelRate of one panel type, in GMAC/s unless said
 * @property {string} type
 * @property {string} precision
 * @property {number} cached panels in cache, one column
 * @property {number} memory panels in memory, one column
 * @property {number} gigabytes a second of the same
 * @property {number} four panels in cache, 4 columns
 * @property {number} tile panels in cache, 64 columns
 *
 * Reads what kernels.c prints.
 * @param {string} text
 * @returns {{ reading: number, rates: KernelRate[] }} reading: GB/s of adding up memory, one thread
 */
export function parseKernels(text) {
  const reading = Number(/plain reading by one thread ([\d.]+) GB\/s/.exec(text)?.[1]);
  const rates = text
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, precision]) => precision === 'fast' || precision === 'high')
    .map(([type, precision, ...numbers]) => {
      const [cached, memory, gigabytes, four, tile] = numbers.map(Number);
      return { type, precision, cached, memory, gigabytes, four, tile };
    });
  if (!rates.length) throw new Error(`no rates in what the kernels' bench printed: ${text}`);
  return { reading, rates };
}

/** What every packed format's rates are to be of Q4_0's. */
const leastOfQ4 = 0.5;

/**
 * Rates of every panel type against Q4_0's: one thread, processor time.
 * @param {Bench} bench
 * @returns {Promise<Figure[]>}
 */
export async function kernelRates(bench) {
  bench.log('rates of every panel type, some 40 s');
  const { reading, rates } = parseKernels(await output('relaxed/bench-kernels.js', ['fast']));
  const base = rates.find(({ type }) => type === 'Q4_0');
  if (!base) throw new Error('there is no Q4_0 among the kernels');
  const gemv = (/** @type {KernelRate} */ rate) => rate.cached / base.cached;
  const tile = (/** @type {KernelRate} */ rate) => rate.tile / base.tile;
  bench.tables.push({
    title: `kernels, relaxed, fast, one thread in processor time; plain reading ${reading.toFixed(1)} GB/s`,
    heads: [
      'panels',
      'GEMV, GMAC/s',
      'of Q4_0',
      'from memory',
      'GB/s',
      '4 columns',
      '64 columns',
      'of Q4_0',
      `>= ${leastOfQ4} x`,
    ],
    rows: rates.map((rate) => [
      rate.type,
      rate.cached.toFixed(1),
      `${gemv(rate).toFixed(2)} x`,
      rate.memory.toFixed(1),
      rate.gigabytes.toFixed(1),
      rate.four.toFixed(1),
      rate.tile.toFixed(1),
      `${tile(rate).toFixed(2)} x`,
      Math.min(gemv(rate), tile(rate)) >= leastOfQ4 ? 'yes' : 'NO',
    ]),
  });
  return [
    slowest('kernels/gemv', 'GEMV, panels in cache', rates, gemv),
    slowest('kernels/tile', 'tiles of 64 columns', rates, tile),
  ];
}

/** @param {string} id @param {string} what @param {KernelRate[]} rates @param {(rate: KernelRate) => number} ratio @returns {Figure} */
function slowest(id, what, rates, ratio) {
  const [rate] = [...rates].sort((a, b) => ratio(a) - ratio(b));
  const name = `Headlight ${rate.type}`;
  return {
    id,
    title: `slowest packed format against Q4_0, ${what}`,
    unit: 'x',
    higher: true,
    series: [{ name, ours: true, values: [ratio(rate)] }],
    asked: [{ series: name, least: leastOfQ4 }],
  };
}

/**
 * Weights that a token is multiplied with, by block type; those of the output matrix apart, which a prompt needs once.
 * @param {string} path of a GGUF file
 * @returns {Promise<{ layers: Map<string, number>, output: Map<string, number> }>}
 */
async function weightsOf(path) {
  const tensors = await tensorsOf(path);
  const matrices = tensors.filter(({ dims }) => dims.filter((n) => n > 1).length > 1);
  const tied = !matrices.some(({ name }) => name === 'output.weight');
  const [layers, output] = [new Map(), new Map()];
  for (const { name, type, dims } of matrices) {
    const isOutput = name === (tied ? 'token_embd.weight' : 'output.weight');
    if (name === 'token_embd.weight' && !tied) continue;
    const sums = isOutput ? output : layers;
    sums.set(type, (sums.get(type) ?? 0) + dims.reduce((product, n) => product * n, 1));
  }
  return { layers, output };
}

/**
 * Seconds that the products of a token take at the kernels' rates.
 * @param {Map<string, number>} weights by type @param {KernelRate[]} rates @param {'memory' | 'tile'} kind
 */
export function limitSeconds(weights, rates, kind) {
  let seconds = 0;
  for (const [type, n] of weights) {
    const rate = rates.find((one) => one.type === type);
    if (!rate) throw new Error(`the kernels' bench has no rate for ${type}`);
    seconds += n / (1e9 * rate[kind]);
  }
  return seconds;
}

/** Bytes of the packed weights. @param {Map<string, number>} weights @param {KernelRate[]} rates */
function packedBytes(weights, rates) {
  let bytes = 0;
  for (const [type, n] of weights) {
    const rate = rates.find((one) => one.type === type);
    bytes += rate ? (n * rate.gigabytes) / rate.memory : 0;
  }
  return bytes;
}

/**
 * Decode against the time that its weights take to come from memory through the bare kernels, prefill against that of
 * tiles in cache: measured round by round beside the model.
 * @param {Bench} bench @param {Entrant} entrant ours @param {Model} model
 * @param {{ id: string, threads: number, rounds: number }} options
 * @returns {Promise<Figure[]>}
 */
export async function shareOfLimit(bench, entrant, model, { id, threads, rounds }) {
  const { layers, output: last } = await weightsOf(model.path);
  const types = [...new Set([...layers.keys(), ...last.keys()])];
  const limit = { name: 'the kernels alone', ours: false };
  /** @type {Record<'decode' | 'prefill', import('./report.js').Series[]>} */
  const series = { decode: [], prefill: [] };
  /** @type {{ gemv: number[], tile: number[] }} GB/s and GMAC/s of the whole model's mixture of types */
  const machine = { gemv: [], tile: [] };
  const limits = { decode: /** @type {number[]} */ ([]), prefill: /** @type {number[]} */ ([]) };
  let bytes = 0;
  await withRunners(bench, [entrant], model, { threads, context: 512 }, async (runners) => {
    const prompt = await promptFor(runners, 280);
    for (let round = 0; round < rounds; round++) {
      const { rates } = parseKernels(await output('relaxed/bench-kernels.js', [threads, 'fast', ...types]));
      const both = limitSeconds(layers, rates, 'memory') + limitSeconds(last, rates, 'memory');
      const tiles =
        limitSeconds(layers, rates, 'tile') + limitSeconds(last, rates, 'memory') / prompt.ids.length;
      bytes = packedBytes(layers, rates) + packedBytes(last, rates);
      limits.decode.push(1 / both);
      limits.prefill.push(1 / tiles);
      machine.gemv.push(bytes / both / 1e9);
      machine.tile.push(sum(layers) / limitSeconds(layers, rates, 'tile') / 1e9);
      const measured = await measureRates(bench, runners, { prompt, tokens: 64, rounds: 1 });
      for (const kind of /** @type {const} */ (['decode', 'prefill'])) {
        series[kind][0] ??= { ...measured[kind][0], values: [] };
        series[kind][0].values.push(...measured[kind][0].values);
      }
    }
  });
  const where = `${entrant.where === 'node' ? 'Node' : 'Chromium'}, ${threads} thread${threads > 1 ? 's' : ''}`;
  const perToken = sum(layers) / 1e9;
  bench.tables.push({
    title: `against the machine, ${model.name}, ${where}`,
    heads: ['', 'reached', 'the kernels alone', 'share'],
    rows: [
      share(
        'weights from memory, GB/s',
        (bytes / 1e9) * median(series.decode[0].values),
        median(machine.gemv),
      ),
      share('tiles in cache, GMAC/s', perToken * median(series.prefill[0].values), median(machine.tile)),
    ],
  });
  const titles = { decode: 'packed GEMV from memory', prefill: 'tiles in cache' };
  return /** @type {const} */ (['decode', 'prefill']).map((kind) => ({
    id: `${id}/${kind}`,
    title: `${kind} against ${titles[kind]}, ${model.name}, ${where}`,
    unit: 'tok/s',
    higher: true,
    series: [...series[kind], { ...limit, values: limits[kind] }],
  }));
}

/** @param {Map<string, number>} weights */
const sum = (weights) => [...weights.values()].reduce((total, n) => total + n, 0);

/** @param {string} what @param {number} reached @param {number} limit */
const share = (what, reached, limit) => [
  what,
  reached.toFixed(1),
  limit.toFixed(1),
  `${((100 * reached) / limit).toFixed(0)} %`,
];

const phases = ['embedding', 'norm, quantize', 'products', 'attention', 'logits', 'sampling', 'waiting'];

/**
 * Reads what timeline.c prints.
 * @param {string} text
 * @returns {{ name: string, positions: number, tokens: number, ms: number[] }[]} ms a token in each phase
 */
export function parseTimeline(text) {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const [name, positions, tokens, ...ms] = line.split(' ');
      if (ms.length !== phases.length) throw new Error(`not a line of the time line: ${line}`);
      return { name, positions: Number(positions), tokens: Number(tokens), ms: ms.map(Number) };
    });
}

/**
 * Where the time of a token goes: the phases in the core, by a build with marks in it, and what the same token takes longer
 * through the package in Node.
 * @param {Bench} bench @param {Entrant} entrant ours, in Node @param {Model} model
 * @param {{ threads: number, prompt: number, positions: number[], rounds: number }} options prompt: tokens of prefill;
 *   positions: where decoding goes on from
 * @returns {Promise<Figure[]>} none: it makes a table
 */
export async function timeLine(bench, entrant, model, { threads, prompt, positions, rounds }) {
  const context = Math.max(prompt, ...positions) + 64;
  bench.log(`time line, filling the cache up to ${Math.max(...positions)} positions twice`);
  const lines = parseTimeline(
    await output('profile/bench-timeline.js', [model.path, threads, prompt, ...positions]),
  );
  const packaged = await withRunners(bench, [entrant], model, { threads, context }, async (runners) => {
    const prefill = await measureRates(bench, runners, {
      prompt: await promptFor(runners, prompt),
      tokens: 2,
      rounds,
    });
    const rates = [median(prefill.prefill[0].values)];
    for (const length of positions) {
      const [series] = await decodeRates(bench, runners, length, rounds);
      rates.push(median(series.values));
    }
    return rates.map((rate) => 1000 / rate);
  });
  bench.tables.push({
    title: `milliseconds a token, ${model.name}, ${threads} threads, on the calling thread`,
    heads: ['', ...phases, 'sum', 'package', 'messages, JavaScript'],
    rows: lines.map(({ name, positions: at, ms }, i) => {
      const total = ms.reduce((a, b) => a + b, 0);
      const numbers = [...ms, total, packaged[i], packaged[i] - total];
      return [`${name} at ${at}`, ...numbers.map((n) => n.toFixed(2))];
    }),
  });
  return [];
}
