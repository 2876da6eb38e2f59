import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

const below = {
  base: [],
  quant: ['base'],
  gguf: ['base', 'quant'],
  model: ['base', 'quant', 'gguf'],
  tokenizer: ['base', 'gguf'],
  kernels: ['base', 'quant'],
  kv: ['base', 'quant'],
  tap: ['base'],
  decoder: ['base', 'quant', 'model', 'kernels', 'kv', 'tap'],
  sampler: ['base'],
  session: ['base', 'model', 'kernels', 'kv', 'tap', 'decoder', 'sampler'],
};
const root = new URL('../../core/src/', import.meta.url);

for (const [folder, allowed] of Object.entries(below)) {
  test(`core/src/${folder} includes only what lies below it`, () => {
    const files = readdirSync(new URL(folder, root), { recursive: true }).filter((f) => /\.[ch]$/.test(f));
    assert.notEqual(files.length, 0);
    for (const file of files) {
      const text = readFileSync(new URL(`${folder}/${file}`, root), 'utf8');
      const included = [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map((m) => m[1]);
      const up = included.filter(
        (i) => i !== 'headlight.h' && ![folder, ...allowed].includes(i.split('/')[0]),
      );
      assert.deepEqual(up, [], `core/src/${folder}/${file} may include ${folder} ${allowed.join(' ')}`);
    }
  });
}

test('core/src has no folder that the table does not know', () => {
  const folders = readdirSync(root, { withFileTypes: true }).filter((e) => e.isDirectory());
  assert.deepEqual(folders.map((e) => e.name).sort(), Object.keys(below).sort());
});
