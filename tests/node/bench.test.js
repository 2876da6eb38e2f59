// The bench's arithmetic and its reports. Quantiles: numpy 2.4.6's np.quantile, method linear.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawChart } from '../bench/chart.js';
import { limitSeconds, parseKernels, parseTimeline } from '../bench/limits.js';
import { cpuShares, cpuTicks, machineName } from '../bench/machine.js';
import { commonPrefix } from '../bench/peers/types.js';
import { makePrompt } from '../bench/prompts.js';
import { isOutrun } from '../bench/race.js';
import { betterPeer, markdownTable, reasonsNotToQuote, rowsOf, textTable } from '../bench/report.js';
import { replaceTable } from '../bench/save.js';
import { estimate, estimateRatio, median, quantile } from '../bench/stats.js';
import { compare } from './real-models.js';

/** @returns {import('../bench/report.js').Figure} */
function decodeFigure() {
  return {
    id: 'chromium/decode',
    title: 'decode, Chromium, 2 threads',
    unit: 'tok/s',
    higher: true,
    series: [
      { name: 'Headlight relaxed', ours: true, values: [80, 100, 90] },
      { name: 'wllama 2.3.1', ours: false, values: [20, 20, 30] },
      { name: 'wllama 3.13.0', ours: false, values: [10, 10, 10] },
    ],
    asked: [{ series: 'Headlight relaxed', ratio: 4 }],
  };
}

test('a median of an even number of values lies in the middle of the inner two', () => {
  assert.equal(median([4, 1, 3, 2]), 2.5);
  assert.equal(median([7]), 7);
  assert.ok(Number.isNaN(median([])));
});

test('a quantile is interpolated between its neighbours', () => {
  assert.equal(quantile([1, 2, 3, 4], 0.25), 1.75);
  assert.equal(quantile([10, 0, 5], 0.9), 9);
});

test('an estimate has its interval around the median, the same in every run', () => {
  const values = [9, 10, 10, 11, 12, 10, 9];
  const first = estimate(values);
  assert.equal(first.median, 10);
  assert.equal(first.low, 9);
  assert.equal(first.high, 11);
  const spread = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  assert.deepEqual(estimate(spread, 20), estimate(spread, 20));
  assert.deepEqual(estimate([3, 3, 3]), { median: 3, low: 3, high: 3 });
});

test('a ratio is the median of the rounds, not the ratio of the medians', () => {
  const { median: ratio } = estimateRatio([80, 100, 90], [20, 20, 30]);
  assert.equal(ratio, 4);
  assert.equal(median([80, 100, 90]) / median([20, 20, 30]), 4.5);
});

test('the better peer is the faster one, or the one that takes less time', () => {
  const figure = decodeFigure();
  assert.equal(betterPeer(figure)?.name, 'wllama 2.3.1');
  figure.higher = false;
  assert.equal(betterPeer(figure)?.name, 'wllama 3.13.0');
  figure.series = figure.series.slice(0, 1);
  assert.equal(betterPeer(figure), undefined);
});

test('a row tells value, better peer, ratio and whether what is asked is met', () => {
  const [row] = rowsOf(decodeFigure());
  assert.equal(row.value, '90.0 tok/s');
  assert.equal(row.peer, 'wllama 2.3.1 20.0 tok/s');
  assert.equal(row.ratio, '4.00 x (3.00 - 5.00)');
  assert.equal(row.asked, '>= 4 x');
  assert.equal(row.met, true);
  const harder = { ...decodeFigure(), asked: [{ series: 'Headlight relaxed', ratio: 4.1 }] };
  assert.equal(rowsOf(harder)[0].met, false);
});

test('times count the other way: half the time is twice as good', () => {
  /** @type {import('../bench/report.js').Figure} */
  const figure = {
    id: 'start',
    title: 'file to first token',
    unit: 'ms',
    higher: false,
    series: [
      { name: 'Headlight relaxed', ours: true, values: [1000, 1200] },
      { name: 'wllama 2.3.1', ours: false, values: [2000, 2400] },
    ],
    asked: [{ series: 'Headlight relaxed', most: 1050 }],
  };
  const [row] = rowsOf(figure);
  assert.equal(row.ratio, '2.00 x (2.00 - 2.00)');
  assert.equal(row.asked, '<= 1050 ms');
  assert.equal(row.met, false);
});

test('tables name what is not met', () => {
  const figure = { ...decodeFigure(), asked: [{ series: 'Headlight relaxed', ratio: 5 }] };
  assert.match(textTable([figure]), /relaxed +90\.0 tok\/s +wllama 2\.3\.1 20\.0 tok\/s .* >= 5 x +NO$/m);
  assert.match(markdownTable([figure]), /^\| decode, Chromium, 2 threads \| relaxed \| 90\.0 tok\/s \|/m);
});

test('a loaded machine is not quoted, and the reasons are said', () => {
  const quiet = { loadBefore: 0.01, pauses: [0.01, 0.02, 0.5], steal: 0, cores: 2 };
  assert.deepEqual(reasonsNotToQuote(quiet), []);
  assert.deepEqual(reasonsNotToQuote({ ...quiet, loadBefore: 0.4 }), [
    '40.0 % of 2 cores were busy before the run',
  ]);
  assert.deepEqual(reasonsNotToQuote({ ...quiet, pauses: [0.06, 0.07, 0] }), [
    '6.0 % of 2 cores were busy between rounds (median)',
  ]);
  assert.deepEqual(reasonsNotToQuote({ ...quiet, steal: 0.03 }), [
    '3.0 % of the time was stolen by other machines of the host',
  ]);
});

test('shares of busy and stolen time come from the ticks of /proc/stat', () => {
  const before = cpuTicks('cpu  100 0 50 800 40 0 10 0 0 0\ncpu0 1 2 3\n');
  assert.deepEqual(before, { busy: 160, steal: 0, total: 1000 });
  const after = cpuTicks('cpu  150 0 60 820 40 0 10 20 0 0\n');
  assert.deepEqual(cpuShares(before, after), { busy: 0.6, steal: 0.2 });
});

test('a machine gets a name that is a file name', () => {
  /** @param {string} cpu */
  const nameOf = (cpu) => machineName({ cpu, cores: 2, flags: [], memoryBytes: 0, system: '' });
  assert.equal(nameOf('AMD EPYC'), 'amd-epyc-2');
  assert.equal(nameOf('Intel(R) Xeon(R) Processor @ 2.80GHz'), 'intel-xeon-2');
  assert.equal(nameOf(''), 'cpu-2');
});

test('a prompt is as long as it can be, and its ids are those of its text', async () => {
  /** @param {string} text one token for every five characters */
  const tokenize = async (text) => Array.from({ length: Math.ceil(text.length / 5) }, (_, i) => i);
  const { text, ids } = await makePrompt(tokenize, 280);
  assert.equal(ids.length, Math.ceil(text.length / 5));
  assert.ok(ids.length <= 280 && ids.length > 275, `${ids.length} tokens`);
});

test('contexts are common up to where they differ first', () => {
  assert.equal(commonPrefix([1, 2, 3], [1, 2, 4, 3]), 2);
  assert.equal(commonPrefix([], [1]), 0);
  assert.equal(commonPrefix([5, 6], [5, 6, 7]), 2);
});

test('a table replaces the one between the marks, and nothing else', () => {
  const text = 'a\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nb\n';
  assert.equal(replaceTable(text, 'new'), 'a\n<!-- bench: begin -->\nnew\n<!-- bench: end -->\nb\n');
  assert.throws(() => replaceTable('no marks', 'new'), /bench: begin/);
});

test('the chart draws the longest bar for the largest median and escapes names', () => {
  const figure = decodeFigure();
  figure.series[2].name = 'a <peer> & more';
  const svg = drawChart([figure], 'a machine');
  const widths = [...svg.matchAll(/class="(?:ours|peer)" x="190" y="\d+" width="([\d.]+)"/g)].map((m) =>
    Number(m[1]),
  );
  assert.deepEqual(widths, [470, 104.4, 52.2]);
  assert.match(svg, />a &lt;peer&gt; &amp; more</);
});

const printed = `1 thread in processor time; GMAC/s of 256 x 1024 weights; plain reading by one thread 11.2 GB/s
panels      1 column   memory     GB/s        4       64
Q4_1   fast     16.9     10.0      6.4     24.4     20.0
Q8_0   fast     15.2      5.0      8.0     17.2     10.0
`;

test('rates are read from what the kernels print', () => {
  const { reading, rates } = parseKernels(printed);
  assert.equal(reading, 11.2);
  assert.deepEqual(rates[0], {
    type: 'Q4_1',
    precision: 'fast',
    cached: 16.9,
    memory: 10,
    gigabytes: 6.4,
    four: 24.4,
    tile: 20,
  });
  assert.equal(rates.length, 2);
  assert.throws(() => parseKernels('no pool of 2 threads'), /no rates/);
});

test('a limit is the time of all types of weights, each at its own rate', () => {
  const { rates } = parseKernels(printed);
  const weights = new Map([
    ['Q4_1', 1e9],
    ['Q8_0', 1e9],
  ]);
  // 1 / 10 + 1 / 5 from memory, 1 / 20 + 1 / 10 in tiles
  assert.ok(Math.abs(limitSeconds(weights, rates, 'memory') - 0.3) < 1e-12);
  assert.ok(Math.abs(limitSeconds(weights, rates, 'tile') - 0.15) < 1e-12);
  assert.throws(() => limitSeconds(new Map([['Q6_K', 1]]), rates, 'tile'), /no rate for Q6_K/);
});

test('a time line has a number for every phase', () => {
  assert.deepEqual(parseTimeline('decode 128 24 0.1 0.2 6 1 2 0.1 1.2\n'), [
    { name: 'decode', positions: 128, tokens: 24, ms: [0.1, 0.2, 6, 1, 2, 0.1, 1.2] },
  ]);
  assert.throws(() => parseTimeline('decode 128 24 0.1'), /not a line/);
});

test('tables without a bar follow the figures', () => {
  const table = { title: 'kernels', heads: ['panels', 'GMAC/s'], rows: [['Q4_0', '9.9']] };
  assert.match(textTable([decodeFigure()], [table]), /yes\n\nkernels\npanels {2}GMAC\/s\nQ4_0 {4}9\.9$/);
  assert.match(
    markdownTable([decodeFigure()], [table]),
    /\n\nKernels:\n\n\| panels \| GMAC\/s \|\n\| --- \| --- \|\n\| Q4_0 \| 9\.9 \|$/,
  );
});

test('the error of a position is weighted by the probability of each of the best tokens', () => {
  const [half, quarter] = [Math.log(0.5), Math.log(0.25)];
  const top = [
    [
      [7, half],
      [9, quarter],
    ],
  ];
  const errorOf = (/** @type {[number, number][]} */ ours) => compare([{ top: [ours] }], [{ top }]).error;
  assert.equal(errorOf([...top[0]]), 0);
  // (0.5 * 0.3 + 0.25 * 0.6) / 0.75
  const near = errorOf([
    [9, quarter - 0.6],
    [7, half + 0.3],
    [1, -9],
  ]);
  assert.ok(Math.abs(near - 0.4) < 1e-12);
  // A token that is not there counts as e^-20: 0.25 * (20 + log 0.25) / 0.75
  assert.ok(Math.abs(errorOf([[7, half]]) - (0.25 * (20 + quarter)) / 0.75) < 1e-12);
});

test('a peer sits out when another is a third faster in both rates', () => {
  /** @param {number[]} rates of ours, a peer and the peer in question */
  const seriesOf = (rates) =>
    rates.map((rate, i) => ({ name: `engine ${i}`, ours: i === 0, values: [rate] }));
  assert.equal(isOutrun([seriesOf([90, 30, 20]), seriesOf([9, 3, 2])], 2), true);
  assert.equal(isOutrun([seriesOf([90, 30, 20]), seriesOf([9, 3, 2])], 1), false);
  assert.equal(isOutrun([seriesOf([90, 30, 20]), seriesOf([9, 3, 2.5])], 2), false, 'in one rate only');
  assert.equal(isOutrun([seriesOf([90, 20, 20]), seriesOf([9, 2, 2])], 2), false, 'ours does not count');
});
