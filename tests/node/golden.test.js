import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cli, fixture, golden, manifest, newerNode } from './helpers.js';

/** Tolerance of logits in quantized files at high precision, where only activations are rounded. */
const HIGH_LOGITS = 3e-3;
/** A greedy step is compared where the best token leads by more. */
const CLEAR_MARGIN = 0.02;

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b @returns {number} */
function difference(a, b) {
  assert.equal(a.length, b.length);
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(a[i] - b[i]));
  return most;
}

/** @param {any} entry of the manifest @param {'fast' | 'high'} precision */
function tolerances(entry, precision) {
  const quantized = entry.dtype.startsWith('Q');
  if (!quantized) {
    const { logits_abs, attention_abs, hidden_abs } = entry.tolerance;
    return {
      logits: logits_abs,
      all: logits_abs,
      attention: attention_abs,
      hidden: hidden_abs,
      greedy: 'exact',
    };
  }
  if (precision === 'high') {
    return { logits: HIGH_LOGITS, all: HIGH_LOGITS, attention: 1e-3, hidden: HIGH_LOGITS, greedy: 'clear' };
  }
  const { logits_last, logits_all, attention, hidden } = entry.llama_cpp_difference;
  return {
    logits: 2 * logits_last,
    all: 2 * logits_all,
    attention: 2 * attention,
    hidden: 2 * hidden,
    greedy: 'none',
  };
}

const VARIANTS = [
  { variant: 'relaxed', node: newerNode },
  { variant: 'simd', node: process.execPath },
  { variant: 'single', node: process.execPath },
];

/** The same numbers, however they are come by. @param {any} g */
const questions = (g) => [
  { tokens: g.tokens, logits: true, attention: g.attention.layers, hidden: true, greedy: g.greedy.length },
  { tokens: g.tokens, positions: 'all', logits: true },
];

/** @param {any} entry @param {any} g @param {any[]} lines @param {'fast' | 'high'} precision */
function compare(entry, g, [last, all], precision) {
  const most = tolerances(entry, precision);
  assert.ok(difference(last.logits, g.logits_last) <= most.logits, 'logits of the last position');
  g.logits_top8.forEach(([ids, values], position) => {
    const got = ids.map((id) => all.logits[position][id]);
    assert.ok(difference(got, values) <= most.all, `logits of position ${position}`);
  });
  g.attention.weights.forEach((heads, i) =>
    heads.forEach((rows, head) =>
      rows.forEach((row, r) => {
        const got = last.attention[g.attention.layers[i]][head][g.attention.rows[r]];
        assert.ok(difference(got, row) <= most.attention, `attention, layer ${i}, head ${head}, row ${r}`);
      }),
    ),
  );
  for (const [name, values] of Object.entries(g.hidden_last)) {
    assert.ok(difference(last.hidden[name], values) <= most.hidden, `hidden ${name}`);
  }
  if (most.greedy === 'none') return;
  const unclear = most.greedy === 'clear' ? g.greedy_margin.findIndex((m) => m <= CLEAR_MARGIN) : -1;
  const n = unclear < 0 ? g.greedy.length : unclear;
  assert.deepEqual(last.greedy.slice(0, n), g.greedy.slice(0, n));
}

for (const entry of manifest.models) {
  // Float matrices see float activations in both.
  for (const precision of /** @type {const} */ (entry.dtype.startsWith('Q') ? ['fast', 'high'] : ['fast'])) {
    test(`${entry.name}, ${precision}: transformers' numbers in every variant, and bits that nothing changes`, async (t) => {
      const g = golden(entry.golden ?? entry.name);
      /** @type {any[] | undefined} */
      let first;
      for (const { variant, node } of VARIANTS) {
        if (!node) {
          t.diagnostic('SKIPPED: the relaxed variant, for want of a newer Node (npm package node)');
          assert.notEqual(process.env.CI, 'true');
          continue;
        }
        for (const [threads, chunk] of [
          ['2', '64'],
          ['1', variant === 'single' ? '7' : '1'],
        ]) {
          const args = [
            '--kv',
            'f32',
            '--precision',
            precision,
            '--variant',
            variant,
            '--threads',
            threads,
            '--chunk',
            chunk,
          ];
          const { lines, stderr } = await cli(['eval', fixture(entry.name), '--json', ...args], {
            node,
            input: questions(g),
          });
          assert.equal(lines.length, 2, stderr);
          if (first === undefined) {
            compare(entry, g, lines, precision);
            first = lines;
          } else {
            assert.deepEqual(lines, first, `${variant}, ${threads} threads, ${chunk} tokens at a time`);
          }
        }
      }
    });
  }
}

const latent = manifest.models.filter(({ arch }) => ['deepseek2', 'minicpm3', 'plm'].includes(arch));
for (const entry of latent) {
  test(`${entry.name}: latent attention that is expanded gives transformers' numbers too`, async () => {
    const g = golden(entry.golden ?? entry.name);
    const args = ['--kv', 'f32', '--precision', 'high', '--variant', 'simd', '--mla', 'expanded'];
    const { lines, stderr } = await cli(['eval', fixture(entry.name), '--json', ...args], {
      input: questions(g),
    });
    assert.equal(lines.length, 2, stderr);
    compare(entry, g, lines, 'high');
  });
}
