import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { cli } from './helpers.js';

const cases = JSON.parse(readFileSync(new URL('../cases/sampling_cases.json', import.meta.url), 'utf8'));
/** llama.cpp's names of parameters, which the cases use, to ours. */
const NAMES = {
  temp: 'temperature',
  rep: 'repeat_penalty',
  freq: 'frequency_penalty',
  pres: 'presence_penalty',
  bias: 'logit_bias',
};

/** @param {any} c */
function question(c) {
  const { last = [], ...rest } = c.params;
  const params = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [NAMES[name] ?? name, value]),
  );
  return { logits: c.logits, params, history: last };
}

test('sample gives the distributions of the cases, all in one run', async (t) => {
  const { lines } = await cli(['sample', '--json'], { input: cases.distributions.map(question) });
  for (const [i, c] of cases.distributions.entries()) {
    await t.test(`${c.id} ${c.name}: ${c.note || 'the exact distribution'}`, () => {
      const expected = Array.isArray(c.expected_probs) ? c.expected_probs : c.expected_probs['llama.cpp'];
      assert.equal(lines[i].error, undefined);
      lines[i].probs.forEach((p, id) => assert.ok(Math.abs(p - expected[id]) < 1e-6, `token ${id}: ${p}`));
    });
  }
});

test('sampb-05: without a seed two lines draw differently, with one alike', async () => {
  const logits = Array(10).fill(1);
  const ask = { logits, draws: 64 };
  const seeded = { ...ask, params: { seed: 7 } };
  const { lines } = await cli(['sample', '--json'], { input: [ask, ask, seeded, seeded] });
  assert.notDeepEqual(lines[0].tokens, lines[1].tokens);
  assert.deepEqual(lines[2].tokens, lines[3].tokens);
  assert.equal(new Set(lines[2].tokens).size > 5, true);
});

test('sampb-07: the penalties look back as far as repeat_last_n says', async () => {
  const ask = (repeat_last_n) => ({
    logits: [1, 1, 1],
    params: { repeat_penalty: 2, repeat_last_n },
    history: [0, 1, 1, 1, 1],
  });
  const { lines } = await cli(['sample', '--json'], { input: [ask(4), ask(0), ask(-1)] });
  const [four, none, all] = lines.map((l) => l.probs);
  assert.equal(four[0], four[2]);
  assert.ok(four[1] < four[0]);
  assert.equal(new Set(none).size, 1);
  assert.equal(all[0], all[1]);
  assert.ok(all[0] < all[2]);
});

test('draws follow the distribution', async () => {
  const { lines } = await cli(['sample', '--json'], {
    input: [{ logits: [0, Math.log(3)], params: { seed: 1 }, draws: 4000 }],
  });
  const share = lines[0].tokens.filter((id) => id === 1).length / 4000;
  // Six standard deviations of a fair draw.
  assert.ok(Math.abs(share - 0.75) < 0.041, String(share));
});

test('odd logits never crash: no candidate, NaN, infinities', async () => {
  const odd = [['-inf', '-inf'], ['nan', 'nan'], ['inf', 0], ['nan', 1, '-inf'], [0]];
  const { code, lines } = await cli(['sample', '--json'], {
    input: odd.flatMap((logits) => [
      { logits, draws: 3 },
      { logits, draws: 3, params: { temperature: 0 } },
    ]),
  });
  assert.equal(code, 0);
  lines.forEach((line, i) => {
    const n = odd[i >> 1].length;
    if (line.error) return;
    assert.ok(
      line.tokens.every((id) => id >= 0 && id < n),
      JSON.stringify(line),
    );
    assert.ok(!line.probs.includes('nan'), JSON.stringify(line));
  });
});

test('wrong input is answered by name', async () => {
  const { lines } = await cli(['sample', '--json'], {
    input: [
      { logits: [] },
      { logits: ['x'] },
      { logits: [1], params: { temprature: 1 } },
      { logits: [1], draws: -1 },
    ],
  });
  assert.ok(lines.every((l) => l.error.code === 'BAD_ARGUMENT'));
  assert.match(lines[2].error.message, /temprature/);
});

test('sample refuses parameters out of range by name', async () => {
  const wrong = [
    { top_k: 2 ** 32 },
    { repeat_last_n: 1.5 },
    { min_p: -1 },
    { temperature: -1 },
    { seed: -1 },
    { logit_bias: [1, 2] },
    { logit_bias: { 3: 1 } },
    { logit_bias: { 0.5: 1 } },
  ];
  const { lines } = await cli(['sample', '--json'], {
    input: wrong.map((params) => ({ logits: [1, 2, 3], params })),
  });
  wrong.forEach((params, i) => {
    assert.equal(lines[i].error?.code, 'BAD_ARGUMENT', JSON.stringify(params));
    assert.ok(lines[i].error.message.includes(Object.keys(params)[0]), lines[i].error.message);
  });
});
