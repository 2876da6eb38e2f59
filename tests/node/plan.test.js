import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { planMemory } from '../../web/src/loader.js';
import { kvPlan } from '../../web/src/plan.js';

/** Bytes a token in f16, all layers, of public models: their shapes from their configurations. */
const MODELS = [
  ['SmolLM2-135M', { layers: 30, kvHeads: 3, keyDim: 64 }, 23040],
  ['Llama-3.2-1B', { layers: 16, kvHeads: 8, keyDim: 64 }, 32768],
  ['Qwen3-0.6B', { layers: 28, kvHeads: 8, keyDim: 128 }, 114688],
  ['Gemma 3 270M', { layers: 18, kvHeads: 1, keyDim: 256 }, 18432],
  ['DeepSeek-V2-Lite', { layers: 27, kvHeads: 1, keyDim: 576, rank: 512, ropeDim: 64 }, 31104],
  ['MiniCPM3-4B', { layers: 62, kvHeads: 1, keyDim: 288, rank: 256, ropeDim: 32 }, 35712],
];
for (const [name, shape, bytes] of MODELS) {
  test(`${name} takes ${bytes} bytes a token in f16, and twice that in f32`, () => {
    assert.equal(kvPlan(shape, 0).bytesPerToken, bytes);
    assert.equal(kvPlan(shape, 0, 'f32').bytesPerToken, 2 * bytes);
    assert.equal(kvPlan(shape, 100).bytes, 100 * bytes);
  });
}

test('kv-043: rows of q8_0 are counted by blocks', () => {
  const cases = JSON.parse(readFileSync(new URL('../cases/kv_cases.json', import.meta.url), 'utf8'));
  const { input, expected } = cases.find((c) => c.id === 'kv-043');
  const shape = { layers: input.n_layer, kvHeads: input.n_head_kv, keyDim: input.head_dim };
  assert.equal(kvPlan(shape, input.n_ctx, 'f16').bytes, expected.f16);
  assert.equal(kvPlan(shape, input.n_ctx, 'q8_0').bytes, expected.q8_0);
});

test('kv-040: a row that is no multiple of 32 is refused for q8_0', () => {
  assert.throws(() => kvPlan({ layers: 1, kvHeads: 1, keyDim: 80 }, 1, 'q8_0'), { code: 'BAD_ARGUMENT' });
  assert.equal(kvPlan({ layers: 1, kvHeads: 1, keyDim: 256 }, 1, 'q8_0').bytes, 2 * 8 * 34);
});

test('an MLA row in q8_0 keeps its rope part in f16', () => {
  const shape = { layers: 2, kvHeads: 1, keyDim: 576, rank: 512, ropeDim: 64 };
  assert.equal(kvPlan(shape, 1, 'q8_0').bytesPerToken, 2 * ((512 / 32) * 34 + 2 * 64));
});

test('layers with a window stop growing when it is full', () => {
  const shape = { layers: 3, kvHeads: 1, keyDim: 32, window: 100, windowed: [true, true, false] };
  assert.deepEqual(kvPlan(shape, 50).perLayer, [6400, 6400, 6400]);
  assert.deepEqual(kvPlan(shape, 1000).perLayer, [12800, 12800, 128000]);
});

test('wrong types and positions are refused', () => {
  const shape = { layers: 1, kvHeads: 1, keyDim: 32 };
  assert.throws(() => kvPlan(shape, 1, 'q4_0'), { code: 'BAD_ARGUMENT' });
  assert.throws(() => kvPlan(shape, -1), { code: 'BAD_ARGUMENT' });
  assert.throws(() => kvPlan(shape, 1.5), { code: 'BAD_ARGUMENT' });
});

test('a shape that lacks something, or has what does not exist, is refused by name', () => {
  const shape = { layers: 2, kvHeads: 1, keyDim: 32 };
  for (const [wrong, what] of [
    [undefined, /object/],
    [{ ...shape, layers: undefined }, /layers is undefined/],
    [{ ...shape, keyDim: 1.5 }, /keyDim is 1.5/],
    [{ ...shape, kvHeads: '8' }, /kvHeads is "8"/],
    [{ ...shape, heads: 8 }, /unknown option "heads"/],
    [{ ...shape, window: 8, windowed: [true] }, /windowed must be a list .* each of/],
    [{ ...shape, window: 8, windowed: { length: shape.layers } }, /windowed must be a list/],
    [{ ...shape, layers: 2 ** 31 - 1 }, /layers .* 4096/],
  ]) {
    assert.throws(() => kvPlan(wrong, 1), { code: 'BAD_ARGUMENT', message: what });
  }
  assert.equal(kvPlan({ layers: 2, rank: 32, ropeDim: 16 }, 1).bytes, 2 * 48 * 2);
});

test('room for a tensor that is being packed is taken once, also where the first piece has begun the weights', () => {
  const info = { nLayer: 1, nHeadKv: 1, dHeadK: 32, dHeadV: 32, kvLoraRank: 0, slidingWindow: 0 };
  for (const [weights, wanted] of [
    [0, 1000e6 + 300e6],
    [1000e6, 0],
  ]) {
    /** @type {number[]} */
    const asked = [];
    const core = {
      info: () => ({ ...info, packedBytes: 1000e6, stagingBytes: 300e6 }),
      memoryUse: () => ({ weights }),
      reserve: (/** @type {number} */ bytes) => asked.push(bytes) > 0,
    };
    planMemory(/** @type {any} */ (core), 64, 'f16');
    assert.equal(asked.length, 1);
    assert.ok(asked[0] >= wanted && asked[0] < wanted + 5e6, `${asked[0]}`);
  }
});
