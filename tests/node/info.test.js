import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
import { cli, fixture, golden } from './helpers.js';

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

test('a context larger than the model was trained for is given, and said', async () => {
  // The file says 512.
  const said = (/** @type {number} */ context) =>
    new RegExp(`^The context of ${context} positions is larger than the 512 that the model was trained for`);
  const path = fixture('llama_gqa');
  const large = await load(path, { threads: 1, context: 513 });
  assert.match(large.info.warnings[0], said(513));
  assert.match((await large.session()).warnings[0], said(513));
  assert.deepEqual((await large.session({ context: 512 })).warnings, []);
  await large.dispose();
  const model = await load(path, { threads: 1, context: 512 });
  assert.ok(!model.info.warnings.some((text) => text.includes('trained for:')), model.info.warnings.join());
  assert.deepEqual((await model.session()).warnings, []);
  const session = await model.session({ context: 600 });
  assert.match(session.warnings[0], said(600));
  await session.feed(Array(600).fill(5));
  assert.match((await session.fork()).warnings[0], said(600));
  await model.dispose();
  const { stderr } = await cli(['chat', path, '--prompt', 'x', '--max-tokens', '1', '--ctx', '1000']);
  assert.match(stderr, said(1000));
  const evaluated = await cli(['eval', path, '--json', '--ctx', '1000'], {
    input: [{ tokens: [1] }, { tokens: [2] }],
  });
  assert.match(evaluated.stderr, said(1000));
  assert.equal(evaluated.stderr.split('\n').length, 2);
  const long = await cli(['eval', path, '--json'], {
    input: [{ tokens: [1] }, { tokens: Array(700).fill(5) }],
  });
  assert.match(long.stderr, said(700));
  assert.equal((await cli(['eval', path, '--json'], { input: [{ tokens: [1] }] })).stderr, '');
});

test('a session of a larger context than was planned for grows, and is refused without loss where memory ends', async () => {
  const { tokens, greedy } = golden('llama_mha');
  // 768 bytes a position.
  const most = 6 << 20;
  const model = await load(fixture('llama_mha'), { threads: 1, context: 64, kv: 'f32', maxMemory: most });
  const session = await model.session({ context: 1 << 14 });
  const before = await model.memory();
  const piece = Array.from({ length: 512 }, (_, i) => 1 + (i % 300));
  const feeding = async () => {
    for (;;) await session.feed(piece);
  };
  await assert.rejects(feeding, ({ code, message }) => {
    assert.equal(code, 'NO_MEMORY');
    assert.match(
      message,
      /cache: no memory for positions \d+ to \d+ \(\d+ bytes a layer\): use a smaller context or cache type/,
    );
    return true;
  });
  // Far beyond the 64 that were planned; the chunks before the one that failed stay.
  assert.ok(session.length > 1000 && session.length % 64 === 0, String(session.length));
  const { wasm, cache } = await model.memory();
  assert.ok(wasm <= most && cache > before.cache, `${wasm} ${cache}`);
  await session.rewind(0);
  const { tokens: answer } = await model.generate(tokens, {
    session,
    temperature: 0,
    ignoreEos: true,
    maxTokens: 16,
  });
  assert.deepEqual(Array.from(answer).slice(0, 4), greedy.slice(0, 4));
  await model.dispose();
});
