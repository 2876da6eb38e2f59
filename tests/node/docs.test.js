import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fixture, inProject } from './helpers.js';

const page = readFileSync(inProject('docs/api.md'), 'utf8');
const examples = [...page.matchAll(/^```js\n([\s\S]*?)^```/gm)].map((m) => m[1]);

test('there are examples', () => assert.ok(examples.length >= 5));

for (const [i, example] of examples.entries()) {
  test(`example ${i + 1} of docs/api.md runs: ${example.split('\n').find((l) => l.includes('await'))}`, () => {
    const source = example.replaceAll("'model.gguf'", JSON.stringify(fixture('llama_gqa')));
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
      cwd: inProject('tests'),
      encoding: 'utf8',
      timeout: 120000,
    });
    assert.equal(status, 0, stderr);
    assert.doesNotMatch(stdout, /false/);
  });
}
