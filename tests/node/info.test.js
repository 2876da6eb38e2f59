import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
import { fixture } from './helpers.js';

// What model.info says of files that differ in their metadata.

test('quantization is what the file calls itself, else the type of most of its bytes', async () => {
  // Numbers and names: llama.cpp's enum llama_ftype. 5 was given up, 1024 means that it was guessed.
  const names = {
    0: 'F32',
    1: 'F16',
    7: 'Q8_0',
    15: 'Q4_K_M',
    18: 'Q6_K',
    30: 'IQ4_XS',
    32: 'BF16',
    38: 'MXFP4_MOE',
  };
  const cases = Object.entries({ ...names, 5: 'Q4_0', 1024: 'Q4_0' });
  const bytes = readFileSync(fixture('llama_gqa.q4_0'));
  const key = bytes.indexOf('general.file_type');
  const ask = async () => {
    const one = await load(new Uint8Array(bytes), { threads: 1 });
    await one.dispose();
    return one.info.quantization;
  };
  for (const [number, name] of cases) {
    bytes.writeUInt32LE(Number(number), key + 'general.file_type'.length + 4);
    assert.equal(await ask(), name, number);
  }
  bytes.write('general.file_typo', key);
  assert.equal(await ask(), 'Q4_0');
});
