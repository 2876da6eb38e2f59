// What is measured, one function for each kind. Each gives figures for the report.
import { gzipSync } from 'node:zlib';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { startSpinner } from './busy.js';
import { peakResident, processCpuMs } from './machine.js';
import { tensorsOf } from './prepare.js';
import { emptySeries, isOurs, measureRates, openHost, playRounds, promptFor, withRunners } from './race.js';
import { betterPeer } from './report.js';

/** @typedef {import('./race.js').Bench} Bench */
/** @typedef {import('./race.js').Entrant} Entrant */
/** @typedef {import('./race.js').Model} Model */
/** @typedef {import('./report.js').Figure} Figure */
/** @typedef {import('./report.js').Asked} Asked */

/** @param {Entrant[]} entrants @param {number} threads */
function setting([{ where }], threads) {
  return `${where === 'node' ? 'Node' : 'Chromium'}, ${threads} thread${threads > 1 ? 's' : ''}`;
}

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Prefill of a prompt, about 280 tokens unless said, and decode of 64 after them.
 * @param {Bench} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ id: string, threads: number, rounds: number, length?: number,
 *   asked?: { prefill?: Asked[], decode?: Asked[] } }} options
 * @returns {Promise<Figure[]>}
 */
export async function rates(bench, entrants, model, { id, threads, rounds, length = 280, asked }) {
  const title = `${model.name}, ${setting(entrants, threads)}`;
  return withRunners(bench, entrants, model, { threads, context: 512 }, async (runners) => {
    const prompt = await promptFor(runners, length);
    const { prefill, decode } = await measureRates(bench, runners, {
      prompt,
      tokens: 64,
      rounds,
      limitMs: 30_000,
    });
    const common = /** @type {const} */ ({ unit: 'tok/s', higher: true });
    return [
      { ...common, id: `${id}/decode`, title: `decode, ${title}`, series: decode, asked: asked?.decode },
      {
        ...common,
        id: `${id}/prefill`,
        title: `prefill of ${length}, ${title}`,
        series: prefill,
        asked: asked?.prefill,
      },
    ];
  });
}

/**
 * Decode with a long context. The cache is filled once for each length; rounds then go on from what is cached. To the next
 * length goes the better peer alone: filling is most of the time.
 * @param {Bench} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ id: string, threads: number, rounds: number, lengths: number[], cache?: string, asked?: Asked[] }} options asked:
 *   of the longest
 * @returns {Promise<Figure[]>}
 */
export async function decodeAt(bench, entrants, model, options) {
  const { id, threads, rounds, lengths, cache = 'f16', asked } = options;
  const longest = Math.max(...lengths);
  return withRunners(bench, entrants, model, { threads, context: longest + 64 }, async (opened) => {
    let runners = opened;
    /** @type {Figure[]} */
    const figures = [];
    for (const length of lengths) {
      const series = await decodeRates(bench, runners, length, rounds);
      /** @type {Figure} */
      const figure = {
        id: `${id}/${length}`,
        title: `decode at ${length} positions, ${cache} cache, ${model.name}, ${setting(entrants, threads)}`,
        unit: 'tok/s',
        higher: true,
        series,
        asked: length === longest ? asked : undefined,
      };
      figures.push(figure);
      const better = betterPeer(figure)?.name;
      runners = runners.filter(({ entrant }) => isOurs(entrant) || entrant.name === better);
    }
    return figures;
  });
}

/**
 * Decode rates of engines whose caches are filled up to a length first.
 * @param {Bench} bench @param {import('./race.js').Runner[]} runners @param {number} length @param {number} rounds
 * @returns {Promise<import('./report.js').Series[]>} tokens a second
 */
export async function decodeRates(bench, runners, length, rounds) {
  const prompt = await promptFor(runners, length);
  const series = emptySeries(runners.map(({ entrant }) => entrant));
  for (const { entrant, run } of runners) {
    bench.log(`${entrant.name}: filling the cache up to ${length} positions`);
    await run({ ...prompt, tokens: 2, reuse: true });
  }
  await playRounds(bench, runners, rounds, async ({ entrant, run }, i) => {
    const timing = await run({ ...prompt, tokens: 33, reuse: true, limitMs: 20_000 });
    series[i].values.push((1000 * timing.decoded) / timing.decodeMs);
    bench.log(`${entrant.name} at ${length}: ${series[i].values.at(-1)?.toFixed(1)} tok/s`);
  });
  return series;
}

/**
 * Which part of the decode rate is kept while a spinning process wants a core.
 * @param {Bench} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ id: string, threads: number, rounds: number, asked?: Asked[] }} options
 * @returns {Promise<Figure[]>}
 */
export async function busyNeighbour(bench, entrants, model, { id, threads, rounds, asked }) {
  return withRunners(bench, entrants, model, { threads, context: 512 }, async (runners) => {
    const prompt = await promptFor(runners, 64);
    const series = emptySeries(entrants);
    for (const { run } of runners) await run({ ...prompt, tokens: 4 });
    await playRounds(bench, runners, rounds, async ({ entrant, run }, i) => {
      const rate = async () => {
        const timing = await run({ ...prompt, tokens: 65, reuse: true, limitMs: 4000 });
        return timing.decoded / timing.decodeMs;
      };
      const alone = await rate();
      const spinner = startSpinner();
      await sleep(100);
      const beside = await rate();
      await spinner.stop();
      series[i].values.push((100 * beside) / alone);
      bench.log(`${entrant.name} keeps ${series[i].values.at(-1)?.toFixed(0)} % beside a busy process`);
    });
    const title = `decode kept beside a busy process, ${setting(entrants, threads)}`;
    return [{ id, title, unit: '%', higher: true, series, asked }];
  });
}

/**
 * From an opened file to the first token of an answer to 16 tokens, in a new page each time; and what was fetched for it.
 * @param {Bench & { takeFetched: () => string[] }} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ id: string, threads: number, rounds: number, asked?: Asked[], askedBytes?: Asked[] }} options
 * @returns {Promise<Figure[]>}
 */
export async function firstToken(bench, entrants, model, { id, threads, rounds, asked, askedBytes }) {
  const times = emptySeries(entrants);
  const bytes = emptySeries(entrants);
  const compressed = emptySeries(entrants);
  const prompt = await withRunners(bench, [entrants[0]], model, { threads, context: 512 }, (runners) =>
    promptFor(runners, 16),
  );
  for (let round = 0; round < rounds; round++) {
    for (const [i, entrant] of entrants.entries()) {
      bench.takeFetched();
      const host = await openHost(bench, entrant);
      await host.call('fetchFile', model.url);
      const settings = { ...bench.settingsOf(entrant.peer), ...entrant.settings };
      const { sha256 } = model;
      const start = performance.now();
      await host.call('open', { model: model.url, threads, context: 512, settings, sha256 });
      await host.call('run', { ...prompt, tokens: 1 });
      times[i].values.push(performance.now() - start);
      const files = bench.takeFetched().filter((file) => file !== model.path);
      bytes[i].values = [sum(files.map((file) => readFileSync(file).length))];
      compressed[i].values = [sum(files.map((file) => gzipSync(readFileSync(file), { level: 9 }).length))];
      bench.log(`${entrant.name}: first token after ${times[i].values.at(-1)?.toFixed(0)} ms`);
      await host.close();
    }
  }
  const title = `opened file to first token, ${model.name}, ${setting(entrants, threads)}`;
  const what = 'fetched before the first token, without the model';
  return [
    { id, title, unit: 'ms', higher: false, series: times, asked },
    { id: `${id}/bytes`, title: what, unit: 'bytes', higher: false, series: bytes },
    {
      id: `${id}/compressed`,
      title: `${what}, gzip`,
      unit: 'bytes',
      higher: false,
      series: compressed,
      asked: askedBytes,
    },
  ];
}

/** @param {number[]} values */
const sum = (values) => values.reduce((total, value) => total + value, 0);

/**
 * The CPU time of a page or process that is left alone after a short run, and its memory.
 * @param {Bench} bench @param {Entrant[]} entrants @param {Model} model
 * @param {{ id: string, threads: number, asked?: Asked[] }} options asked: of the CPU time
 * @returns {Promise<Figure[]>}
 */
export async function atRest(bench, entrants, model, { id, threads, asked }) {
  const [idle, linear, resident] = [emptySeries(entrants), emptySeries(entrants), emptySeries(entrants)];
  // All together: what one does while nothing is asked of it takes nothing from another.
  await withRunners(bench, entrants, model, { threads, context: 512 }, async (runners) => {
    const prompt = await promptFor(runners, 16);
    for (const { run } of runners) await run({ ...prompt, tokens: 16 });
    await sleep(2000);
    const used = () => runners.map(({ host }) => processCpuMs(host.pid));
    const before = used();
    await sleep(10_000);
    const after = used();
    for (const [i, { entrant, host }] of runners.entries()) {
      idle[i].values.push(after[i] - before[i]);
      resident[i].values.push(peakResident(host.pid));
      const memory = await host.call('memory');
      linear[i].values.push(memory?.wasm ?? (await host.linearMemory()));
      bench.log(`${entrant.name}: idle ${idle[i].values[0].toFixed(1)} ms in 10 s`);
    }
  });
  const where = setting(entrants, threads);
  const seen = linear.filter(({ values }) => values[0] > 0);
  const common = /** @type {const} */ ({ unit: 'bytes', higher: false });
  /** @type {Figure[]} */
  const figures = [
    {
      id: `${id}/idle`,
      title: `CPU time in 10 s, idle, ${where}`,
      unit: 'ms',
      higher: false,
      series: idle,
      asked,
    },
    { ...common, id: `${id}/linear`, title: `linear memory, ${model.name}, ${where}`, series: seen },
    {
      ...common,
      id: `${id}/resident`,
      title: `peak resident memory of the process, ${model.name}, ${where}`,
      series: resident,
    },
  ];
  return figures.filter(({ series }) => series.length);
}

/**
 * Linear memory, which never shrinks, once the model is loaded and after a run, against what must be in it at once; and
 * packed weights against those of the file.
 * @param {Bench} bench @param {Entrant} entrant ours @param {Model} model
 * @param {{ id: string, threads: number, asked: { peak: number, packed: number } }} options asked: at most
 * @returns {Promise<Figure[]>}
 */
export async function memoryUse(bench, entrant, model, { id, threads, asked }) {
  const tensors = await tensorsOf(model.path);
  const largest = Math.max(...tensors.map(({ bytes }) => bytes));
  const inFile = sum(tensors.map(({ bytes }) => bytes));
  return withRunners(bench, [entrant], model, { threads, context: 512 }, async (runners) => {
    const [{ host, run, says }] = runners;
    await run({ ...(await promptFor(runners, 280)), tokens: 16 });
    const after = await host.call('memory');
    bench.log(`${model.name}: ${JSON.stringify({ packed: says.packedBytes, largest, ...after })}`);
    const must = says.packedBytes + largest;
    const series = (/** @type {number} */ value) => [{ name: entrant.name, ours: true, values: [value] }];
    const common = /** @type {const} */ ({ unit: 'x', higher: false });
    const askedPeak = [{ series: entrant.name, most: asked.peak }];
    return [
      {
        ...common,
        id: `${id}/loading`,
        title: `linear memory while loading / (packed + largest tensor), ${model.name}`,
        series: series(says.loaded.wasm / (must + says.loaded.cache)),
        asked: askedPeak,
      },
      {
        ...common,
        id: `${id}/running`,
        title: `linear memory after a run / (packed + largest tensor + cache), ${model.name}`,
        series: series(after.wasm / (must + after.cache)),
        asked: askedPeak,
      },
      {
        ...common,
        id: `${id}/packed`,
        title: `packed weights / tensors in the file, ${model.name}`,
        series: series(says.packedBytes / inFile),
        asked: [{ series: entrant.name, most: asked.packed }],
      },
    ];
  });
}

/**
 * Time of a decode with a layer's attention captured, over the time without: interleaved, and beside it two without, which
 * tells what is chance.
 * @param {Bench} bench @param {Entrant} entrant ours @param {Model} model
 * @param {{ id: string, threads: number, pairs: number, asked?: Asked[] }} options
 * @returns {Promise<Figure[]>}
 */
export async function watchedAttention(bench, entrant, model, { id, threads, pairs, asked }) {
  return withRunners(bench, [entrant], model, { threads, context: 512 }, async (runners) => {
    const prompt = await promptFor(runners, 128);
    const [watched] = emptySeries([entrant]);
    const [off] = emptySeries([{ ...entrant, name: `${entrant.name}, not watched, again` }]);
    const [{ host, run }] = runners;
    const time = async (/** @type {number | null} */ layer) => {
      await host.call('watch', layer);
      const { decodeMs } = await run({ ...prompt, tokens: 65, reuse: true });
      return decodeMs;
    };
    await time(0);
    await playRounds(bench, runners, pairs, async (_runner, _index, round) => {
      const order = round % 2 ? [null, 0, null] : [null, null, 0];
      /** @type {number[]} */
      const times = [];
      for (const layer of order) times.push(await time(layer));
      const on = order.indexOf(0);
      watched.values.push(times[on] / times[0]);
      off.values.push(times[3 - on] / times[0]);
    });
    const title = 'decode time with one layer watched / not watched';
    return [{ id, title, unit: 'x', higher: false, series: [watched, off], asked }];
  });
}

/** Sizes of the .wasm files. @param {string[]} files @param {number} most bytes @returns {Figure} */
export function wasmSizes(files, most) {
  const series = files.map((file) => ({
    name: basename(file, '.wasm').replace('headlight-', 'Headlight '),
    ours: true,
    values: [readFileSync(file).length],
  }));
  const asked = series.map(({ name }) => ({ series: name, most }));
  return { id: 'wasm', title: 'bytes of the .wasm', unit: 'bytes', higher: false, series, asked };
}
