import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
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

/** @param {string} title of the first column @returns {string[]} names in the first column of the table that it heads */
function tableOf(title) {
  const [, rows] = new RegExp(`^\\| ${title} \\|.*\\n\\|---.*\\n((?:\\|.*\\n)+)`, 'm').exec(page) ?? ['', ''];
  return [...rows.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) =>
    [...cell.matchAll(/`'?(.*?)'?`/g)].map(([, name]) => name),
  );
}

const types = readFileSync(inProject('web/src/types.js'), 'utf8');
/** @param {string} property @returns {string[]} the texts that a property may be, by its type */
const choices = (property) => {
  const [, union] = new RegExp(`@property \\{(.*?)\\} ${property}\\b`).exec(types) ?? assert.fail(property);
  return [...union.matchAll(/'(.*?)'/g)].map(([, name]) => name);
};

test('docs/api.md tells of every field of info, and of no other', async () => {
  const model = await load(fixture('llama_gqa'), { threads: 1 });
  assert.deepEqual(tableOf('field').sort(), Object.keys(model.info).sort());
  await model.dispose();
});

test('docs/api.md tells of every finishReason, load stage and source of a template', () => {
  assert.deepEqual(tableOf('`finishReason`').sort(), choices('finishReason').sort());
  for (const stage of choices('stage')) assert.ok(page.includes(`\`${stage}\` (`), stage);
  for (const from of choices('template')) assert.ok(page.includes(`\`'${from}'\``), from);
});
