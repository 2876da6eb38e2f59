import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { kvPlan } from '../../web/src/index.js';
import { inProject } from './helpers.js';

// The tables of docs/kv-cache.md against kvPlan, and both against arithmetic by hand from the published configurations.

const TYPES = /** @type {const} */ (['f32', 'f16', 'q8_0']);
const LENGTHS = [1024, 4096, 8192, 32768, 131072];

/** Gemma 3: five layers with a window, then one without. @param {number} layers */
const sixth = (layers) => Array.from({ length: layers }, (_, i) => i % 6 !== 5);

/**
 * What kvPlan is asked, and what comes out by hand: bytes of a token in f32, f16 and q8_0; rows that the layers hold at n
 * positions; bytes in f16 with a key and a value for every query head.
 */
const MODELS = {
  'Llama 3 70B': {
    // 80 layers, 64 query heads, 8 KV heads of 128: 2 * 8 * 128 = 2048 values a layer.
    shape: { layers: 80, kvHeads: 8, keyDim: 128 },
    kind: 'GQA 64:8',
    values: 2048,
    token: [655360, 327680, 174080],
    rows: (n) => 80 * n,
    expanded: 2621440,
  },
  'Gemma 3 27B': {
    // 62 layers, 10 of them global, 32 query heads, 16 KV heads of 128, window 1024.
    shape: { layers: 62, kvHeads: 16, keyDim: 128, window: 1024, windowed: sixth(62) },
    kind: 'GQA 32:16, window 1024 in 52 layers',
    values: 4096,
    token: [1015808, 507904, 269824],
    rows: (n) => 10 * n + 52 * Math.min(n, 1024),
    expanded: 1015808,
  },
  'DeepSeek V2': {
    // 60 layers, 128 heads with keys of 128 + 64 and values of 128; cached: a latent of 512 and a rope part of 64.
    shape: { layers: 60, kvHeads: 1, keyDim: 576, rank: 512, ropeDim: 64 },
    kind: 'MLA 512 + 64',
    values: 576,
    token: [138240, 69120, 40320],
    rows: (n) => 60 * n,
    expanded: 4915200,
  },
  'SmolLM2 135M': {
    // 30 layers, 9 query heads, 3 KV heads of 64.
    shape: { layers: 30, kvHeads: 3, keyDim: 64 },
    kind: 'GQA 9:3',
    values: 384,
    token: [46080, 23040, 12240],
    rows: (n) => 30 * n,
    expanded: 69120,
  },
  'Gemma 3 270M': {
    // 18 layers, 3 of them global, 4 query heads, 1 KV head of 256, window 512.
    shape: { layers: 18, kvHeads: 1, keyDim: 256, window: 512, windowed: sixth(18) },
    kind: 'MQA 4:1, window 512 in 15 layers',
    values: 512,
    token: [36864, 18432, 9792],
    rows: (n) => 3 * n + 15 * Math.min(n, 512),
    expanded: 73728,
  },
  'MiniCPM3 4B': {
    // 62 layers, 40 heads with keys of 64 + 32 and values of 64; cached: a latent of 256 and a rope part of 32.
    shape: { layers: 62, kvHeads: 1, keyDim: 288, rank: 256, ropeDim: 32 },
    kind: 'MLA 256 + 32',
    values: 288,
    token: [71424, 35712, 20832],
    rows: (n) => 62 * n,
    expanded: 793600,
  },
  'PLM 1.8B': {
    // 32 layers, 16 heads with keys of 128 + 64 and values of 128; cached: a latent of 512 and a rope part of 64.
    shape: { layers: 32, kvHeads: 1, keyDim: 576, rank: 512, ropeDim: 64 },
    kind: 'MLA 512 + 64',
    values: 576,
    token: [73728, 36864, 21504],
    rows: (n) => 32 * n,
    expanded: 327680,
  },
};

/** @param {number} n */
const grouped = (n) => n.toLocaleString('en-US');

/** Decimal megabytes with one digit after the point. @param {number} bytes */
const mb = (bytes) =>
  (bytes / 1e6).toLocaleString('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** @param {string[]} cells */
const line = (cells) => `| ${cells.join(' | ')} |`;

/** A table of Markdown. @param {string[]} head @param {string[][]} rows */
const table = (head, rows) =>
  [line(head), `|${head.map(() => '---|').join('')}`, ...rows.map(line)].join('\n');

const perToken = table(
  ['model', 'cache', 'values a layer', ...TYPES, 'f16 as MHA', 'smaller by'],
  Object.entries(MODELS).map(([name, { shape, kind, values, expanded }]) => [
    name,
    kind,
    grouped(values),
    ...TYPES.map((type) => grouped(kvPlan(shape, 1, type).bytesPerToken)),
    grouped(expanded),
    `${(expanded / kvPlan(shape, 1).bytesPerToken).toFixed(1)} x`,
  ]),
);

const totals = table(
  ['model', 'type', ...LENGTHS.map(grouped)],
  Object.entries(MODELS).flatMap(([name, { shape }]) =>
    TYPES.map((type) => [name, type, ...LENGTHS.map((n) => mb(kvPlan(shape, n, type).bytes))]),
  ),
);

const page = readFileSync(inProject('docs/kv-cache.md'), 'utf8');

/** @param {string} name @returns {string} what stands between the marks of a table */
function tableOf(name) {
  const found = new RegExp(`<!-- ${name}: begin -->\n+([^]*?)\n*<!-- ${name}: end -->`).exec(page);
  assert.ok(found, `docs/kv-cache.md has no table ${name}`);
  return found[1];
}

/** Cells without the padding that a formatter may add. @param {string} text */
const cells = (text) =>
  text
    .split('\n')
    .filter((row) => !/^\|[-:| ]+\|$/.test(row))
    .map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

test('the document has the bytes a token that kvPlan gives', () => {
  assert.deepEqual(cells(tableOf('token')), cells(perToken), `the table should be\n${perToken}`);
});

test('the document has the bytes in all that kvPlan gives', () => {
  assert.deepEqual(cells(tableOf('total')), cells(totals), `the table should be\n${totals}`);
});

for (const [name, { token, rows, values, shape }] of Object.entries(MODELS)) {
  test(`${name}: the document has the bytes that come out by hand`, () => {
    const [, , layer, ...found] = cells(tableOf('token')).find(([model]) => model === name) ?? [];
    assert.equal(layer, grouped(values));
    assert.deepEqual(found.slice(0, 3), token.map(grouped));
    assert.equal(token[1], 2 * values * shape.layers);
    TYPES.forEach((type, i) => {
      const row = cells(tableOf('total')).find(([model, t]) => model === name && t === type);
      const perRow = token[i] / shape.layers;
      assert.deepEqual(
        row?.slice(2),
        LENGTHS.map((n) => mb(rows(n) * perRow)),
      );
      for (const n of [0, 1, 511, 512, 513, 1025, 100000]) {
        assert.equal(kvPlan(shape, n, type).bytes, rows(n) * perRow);
      }
    });
  });
}
