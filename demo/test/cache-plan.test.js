import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesAt, ownLine, planOf } from '../src/cache-plan.js';

test('the formula of a model without windows is a straight line, beside MHA and MQA', () => {
  // SmolLM2 135M: 23040 bytes a token in f16 (docs/kv-cache.md).
  const shape = { layers: 30, kvHeads: 3, keyDim: 64, valueDim: 64 };
  const plan = planOf({ kind: 'GQA', layers: 30, heads: 9, kvHeads: 3, shape }, 'f16');
  assert.equal(plan.formula, '2 × 30 layers × 3 KV heads × 64 × 2 bytes');
  assert.deepEqual(
    plan.shapes.map((line) => [line.kind, line.own, bytesAt(line, 1000)]),
    [
      ['MHA 9:9', false, 69120000],
      ['GQA 9:3', true, 23040000],
      ['MQA 9:1', false, 7680000],
    ],
  );
});

test('the formula of a model with windows bends where they are full', () => {
  // Gemma 3 270M: 18 layers of one head of 256, 15 of them keep 512 positions.
  const windowed = Array.from({ length: 18 }, (_, i) => i % 6 !== 5);
  const shape = { layers: 18, kvHeads: 1, keyDim: 256, valueDim: 256, window: 512, windowed };
  const plan = planOf({ kind: 'MQA', layers: 18, heads: 4, kvHeads: 1, shape }, 'f16');
  assert.equal(plan.formula, '2 × (3 layers × n + 15 layers × min(n, 512)) × 1 KV heads × 256 × 2 bytes');
  const own = ownLine(plan);
  for (const [positions, rows] of [
    [0, 0],
    [512, 18 * 512],
    [513, 15 * 512 + 3 * 513],
    [32768, 15 * 512 + 3 * 32768],
  ]) {
    assert.equal(bytesAt(own, positions), rows * 1024);
  }
  const [, , whole] = plan.shapes;
  assert.deepEqual([whole.kind, bytesAt(whole, 32768)], ['MQA 4:1, no window', 18 * 32768 * 1024]);
});

test('a latent cache is shown beside what it would take expanded', () => {
  // MiniCPM3 4B: 40 heads with keys of 96 and values of 64.
  const shape = { layers: 62, kvHeads: 1, keyDim: 96, valueDim: 64, rank: 256, ropeDim: 32 };
  const plan = planOf({ kind: 'MLA', layers: 62, heads: 40, kvHeads: 1, shape }, 'f16');
  assert.equal(plan.formula, '62 layers × (256 + 32) × 2 bytes');
  assert.deepEqual(
    plan.shapes.map((line) => [line.kind, line.own, line.bytesPerToken]),
    [
      ['MLA', true, 35712],
      ['MHA 40:40, expanded', false, 793600],
    ],
  );
});
