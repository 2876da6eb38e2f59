import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fixture, golden, inProject } from './helpers.js';

/** @param {string[]} args */
const diff = (...args) => spawnSync(inProject('tests/golden/diff'), args, { encoding: 'utf8' });

/** The golden values of deepseek_v3, changed. @param {(g: any) => void} change @param {string} name a model */
function diffWith(change, name = 'deepseek_v3') {
  const folder = mkdtempSync(join(tmpdir(), 'diff-'));
  const changed = golden(name);
  change(changed);
  const path = join(folder, 'golden.json');
  writeFileSync(path, JSON.stringify(changed));
  const run = diff(fixture(name), path);
  rmSync(folder, { recursive: true });
  return run;
}

test('golden/diff finds nothing where a model gives its golden values', () => {
  const run = diffWith(() => {});
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /^no difference beyond 0\.0001 in 8 taps/);
});

const changes = [
  ['embedding', (g) => (g.hidden_last.embed[3] += 1), /^embedding .* off by 1\.00 at column 3 /],
  [
    'attention',
    (g) => (g.attention.weights[0][1][5][2] += 0.5),
    /^layer 0, attention .* head 1, row 5, key 2 /,
  ],
  ['router', (g) => (g.router[1].weights[4][0] += 0.25), /^layer 1, router .* off by 0\.250 at position 4, /],
  ['output', (g) => (g.hidden_last.layer_1[7] += 0.01), /^layer 1, output .* off by 0\.0100 at column 7 /],
  ['logits', (g) => (g.logits_last[9] = 100), /^logits .* at token 9 /],
];
for (const [what, change, words] of /** @type {[string, (g: any) => void, RegExp][]} */ (changes)) {
  test(`golden/diff names the ${what} when that is the first to differ`, () => {
    const run = diffWith((g) => {
      change(g);
      if (what !== 'logits') g.logits_last[0] += 1;
    });
    assert.equal(run.status, 1, run.stderr);
    assert.match(run.stdout, words);
  });
}

test('golden/diff says how it is used', () => {
  const run = diff('model.gguf');
  assert.equal(run.status, 2);
  assert.match(run.stderr, /^usage: /);
});
