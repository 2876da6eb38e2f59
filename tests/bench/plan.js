// Who runs against whom, on what, how often, and what is asked of it.
import * as measure from './experiments.js';
import { accuracy } from './accuracy.js';
import { kernelRates, shareOfLimit, timeLine } from './limits.js';
import { gemmaModel, randomModel, root, smollm2Model } from './prepare.js';

/** @typedef {import('./race.js').Entrant} Entrant */
/** @typedef {import('./race.js').Bench & { takeFetched: () => string[] }} Bench */
/** @typedef {import('./report.js').Figure} Figure */

/** @param {'chromium' | 'node'} where @param {string} name @param {Record<string, any>} settings @returns {Entrant} */
const ours = (where, name, settings) => ({ name: `Headlight ${name}`, peer: 'headlight', where, settings });
/** @param {string} peer @param {'chromium' | 'node'} where @param {string} name @returns {Entrant} */
const theirs = (peer, where, name) => ({ name, peer, where, settings: {} });

const relaxed = ours('chromium', 'relaxed', { variant: 'relaxed' });
const simd = ours('chromium', 'simd', { variant: 'simd' });
const single = ours('chromium', 'single', { variant: 'single' });
const high = ours('chromium', 'relaxed high', { variant: 'relaxed', precision: 'high' });
const inNode = ours('node', 'relaxed', { variant: 'relaxed' });
const inNodeHigh = ours('node', 'relaxed high', { variant: 'relaxed', precision: 'high' });

export const peers = {
  wllama2: theirs('wllama2', 'chromium', 'wllama 2.3.1'),
  wllama3: theirs('wllama3', 'chromium', 'wllama 3.13.0'),
  native: theirs('llama_cpp', 'node', 'llama.cpp native'),
};

/** Name of the series that most is asked of: the default variant and precision. */
const fast = relaxed.name;

/** @param {number} ratio @param {number} [simdRatio] @returns {import('./report.js').Asked[]} */
function atLeast(ratio, simdRatio) {
  const asked = [{ series: fast, ratio }];
  return simdRatio ? [...asked, { series: simd.name, ratio: simdRatio }] : asked;
}

/**
 * Experiments by name, in the order they run.
 * @param {object} options
 * @param {boolean} options.quick fewer rounds and engines
 * @param {boolean} options.big with a model of 1.1 B weights, and MLA in Chromium up to 4000 positions
 * @param {boolean} options.native whether llama.cpp is there
 * @param {number} [options.rounds] instead of each experiment's own
 * @param {import('./race.js').Model} smollm2 the model of most of them
 * @returns {Record<string, (bench: Bench) => Promise<Figure[]>>}
 */
export function planExperiments({ quick, big, native, rounds }, smollm2) {
  const { wllama2, wllama3 } = peers;
  const times = (/** @type {number} */ usual) => rounds ?? usual;
  const inBrowser = [relaxed, wllama2, wllama3];
  // Where nothing is asked, the better wllama alone: the other one takes twice its time.
  const unasked = [relaxed, wllama2];
  const side = native ? [inNode, peers.native] : [inNode];
  const threads = 2;

  return {
    chromium: (bench) =>
      measure.rates(bench, [relaxed, wllama2, simd, wllama3, ...(quick ? [] : [high])], smollm2, {
        id: 'chromium/smollm2-q4_1',
        threads,
        rounds: times(quick ? 3 : 5),
        asked: { decode: atLeast(4, 2), prefill: atLeast(7, 4) },
      }),

    node: (bench) =>
      measure.rates(bench, quick ? side : [...side, inNodeHigh], smollm2, {
        id: 'node/smollm2-q4_1',
        threads,
        rounds: times(quick ? 5 : 7),
        asked: { decode: atLeast(1.5), prefill: atLeast(0.9) },
      }),

    single: (bench) =>
      measure.rates(bench, [relaxed, wllama2, simd, single], smollm2, {
        id: 'chromium/smollm2-q4_1/1-thread',
        threads: 1,
        rounds: times(2),
        length: 128,
      }),

    async types(bench) {
      const figures = [];
      for (const type of /** @type {const} */ (['Q8_0', 'Q4_0'])) {
        const model = await smollm2Model(type);
        const id = `smollm2-${type.toLowerCase()}`;
        for (const [where, entrants] of /** @type {const} */ ([
          ['chromium', unasked],
          ['node', side],
        ])) {
          const options = { id: `${where}/${id}`, threads, rounds: times(2), length: 128 };
          figures.push(...(await measure.rates(bench, [...entrants], model, options)));
        }
      }
      return figures;
    },

    async gemma(bench) {
      const model = await gemmaModel();
      if (!model) return [];
      return measure.rates(bench, inBrowser, model, {
        id: 'chromium/gemma3-270m',
        threads,
        rounds: times(3),
        asked: { decode: atLeast(3), prefill: atLeast(7) },
      });
    },

    async big(bench) {
      if (!big) return [];
      const model = await randomModel('llama-1b');
      return measure.rates(bench, side, model, { id: 'node/llama-1b', threads, rounds: times(3) });
    },

    async context(bench) {
      const options = { threads, rounds: times(3), lengths: [128, 1024, 4000] };
      return [
        ...(await measure.decodeAt(bench, inBrowser, smollm2, {
          ...options,
          id: 'chromium/context',
          asked: atLeast(3),
        })),
        ...(await measure.decodeAt(bench, side, smollm2, {
          ...options,
          id: 'node/context',
          asked: atLeast(1),
        })),
      ];
    },

    async mla(bench) {
      const options = { threads, rounds: times(3) };
      const [mla, gqa] = [await randomModel('mla'), await randomModel('gqa')];
      // Filling a peer's cache takes minutes in Chromium.
      const short = big ? [128, 1024, 4000] : [128];
      const lengths = [128, 1024, 4000];
      return [
        ...(await measure.decodeAt(bench, unasked, mla, { ...options, id: 'chromium/mla', lengths: short })),
        ...(await measure.decodeAt(bench, side, mla, { ...options, id: 'node/mla', lengths })),
        ...(await measure.decodeAt(bench, side, gqa, { ...options, id: 'node/gqa', lengths })),
      ];
    },

    cache: (bench) =>
      measure.decodeAt(
        bench,
        ['f32', 'f16', 'q8_0'].map((kv) => ours('chromium', `relaxed ${kv}`, { variant: 'relaxed', kv })),
        smollm2,
        { id: 'chromium/cache', threads, rounds: times(3), lengths: [2000], cache: 'f32, f16 and q8_0' },
      ),

    async busy(bench) {
      const options = { threads, rounds: times(5), asked: [{ series: fast, least: 45 }] };
      return [
        ...(await measure.busyNeighbour(bench, unasked, smollm2, { ...options, id: 'chromium/busy' })),
        ...(await measure.busyNeighbour(bench, side, smollm2, { ...options, id: 'node/busy' })),
      ];
    },

    start: (bench) =>
      measure.firstToken(bench, inBrowser, smollm2, {
        id: 'chromium/first-token',
        threads,
        rounds: times(5),
        asked: [{ series: fast, most: 1500 }],
        askedBytes: [{ series: fast, most: 400_000 }],
      }),

    async rest(bench) {
      const options = { threads, asked: [{ series: fast, most: 20 }] };
      return [
        ...(await measure.atRest(bench, inBrowser, smollm2, { ...options, id: 'chromium' })),
        ...(await measure.atRest(bench, side, smollm2, { ...options, id: 'node' })),
      ];
    },

    async memory(bench) {
      const figures = [];
      const gemma = await gemmaModel();
      const models = [smollm2, await smollm2Model('Q8_0'), ...(gemma ? [gemma] : [])];
      for (const [i, model] of models.entries()) {
        const asked = { peak: 1.1, packed: 1.2 };
        figures.push(
          ...(await measure.memoryUse(bench, relaxed, model, { id: `memory/${i}`, threads, asked })),
        );
      }
      return figures;
    },

    watch: (bench) =>
      measure.watchedAttention(bench, relaxed, smollm2, {
        id: 'chromium/watched',
        threads,
        pairs: times(9),
        asked: [{ series: fast, most: 1.05 }],
      }),

    async accuracy(bench) {
      const gemma = await gemmaModel();
      return [
        ...(await accuracy(bench, smollm2, 'smollm2')),
        ...(gemma ? await accuracy(bench, gemma, 'gemma3') : []),
      ];
    },

    kernels: (bench) => kernelRates(bench),

    async limit(bench) {
      const figures = [];
      for (const count of [threads, 1]) {
        for (const entrant of [relaxed, inNode]) {
          const id = `limit/${entrant.where}/${count}`;
          const options = { id, threads: count, rounds: times(2) };
          figures.push(...(await shareOfLimit(bench, entrant, smollm2, options)));
        }
      }
      return figures;
    },

    timeline: (bench) =>
      timeLine(bench, inNode, smollm2, { threads, prompt: 280, positions: [128, 4000], rounds: times(3) }),

    wasm: async () => [
      measure.wasmSizes(
        ['relaxed', 'simd', 'single'].map((variant) => `${root}web/dist/headlight-${variant}.wasm`),
        300_000,
      ),
    ],
  };
}

/** What --quick runs. */
export const quickNames = ['chromium', 'node', 'wasm'];
