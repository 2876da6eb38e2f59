import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { chooseVariant, defaultThreads, features } from '../../web/src/features.js';
import { newerNode } from './helpers.js';

const TABLE = [
  // cores, threads, mobile, expected
  [1, true, false, 1],
  [2, true, false, 2],
  [3, true, false, 2],
  [4, true, false, 3],
  [6, true, false, 3],
  [8, true, false, 4],
  [12, true, false, 6],
  [16, true, false, 8],
  [128, true, false, 8],
  [8, true, true, 4],
  [6, true, true, 3],
  [2, true, true, 1],
  [1, true, true, 1],
  [8, false, false, 1],
  [8, false, true, 1],
  [undefined, true, false, 2],
];
for (const [cores, threads, mobile, expected] of TABLE) {
  test(`${cores} cores, ${threads ? 'threads' : 'no threads'}, ${mobile ? 'a phone' : 'no phone'}: ${expected}`, () => {
    assert.equal(defaultThreads({ cores, threads, mobile }), expected);
  });
}

const all = {
  isolated: true,
  threads: true,
  simd: true,
  relaxed: true,
  variant: 'relaxed',
  defaultThreads: 4,
  buildId: '',
  reasons: [],
};

test('the fastest variant that works is taken, and one thread where there is no shared memory', () => {
  assert.deepEqual(chooseVariant({}, all), { variant: 'relaxed', threads: 4 });
  assert.deepEqual(chooseVariant({ threads: 2, variant: 'simd' }, all), { variant: 'simd', threads: 2 });
  assert.deepEqual(chooseVariant({ threads: 4, variant: 'single' }, all), { variant: 'single', threads: 1 });
  const alone = { ...all, threads: false, variant: 'single', defaultThreads: 1 };
  assert.deepEqual(chooseVariant({}, alone), { variant: 'single', threads: 1 });
  assert.deepEqual(chooseVariant({ threads: 8 }, alone), { variant: 'single', threads: 1 });
});

test('a variant that cannot run is refused with the reason', () => {
  const plain = { ...all, relaxed: false, variant: 'simd', reasons: ['No relaxed SIMD in this engine.'] };
  assert.throws(
    () => chooseVariant({ variant: 'relaxed' }, plain),
    /relaxed does not run here. No relaxed SIMD/,
  );
  assert.throws(() => chooseVariant({ variant: 'simd' }, { ...all, threads: false }), {
    code: 'UNSUPPORTED',
  });
  assert.throws(() => chooseVariant({}, { ...all, simd: false, variant: undefined }), {
    code: 'UNSUPPORTED',
  });
  assert.throws(() => chooseVariant({ variant: 'fastest' }, all), { code: 'BAD_ARGUMENT' });
  for (const threads of [0, 1.5, 65, -1]) {
    assert.throws(() => chooseVariant({ threads }, all), { code: 'BAD_ARGUMENT' });
  }
});

test('Node has threads and SIMD, and says why not more', async () => {
  const found = await features();
  assert.equal(found.isolated, true);
  assert.equal(found.threads, true);
  assert.equal(found.simd, true);
  assert.equal(found.relaxed, found.reasons.length === 0);
});

const script = `import { features } from ${JSON.stringify(new URL('../../web/src/features.js', import.meta.url).href)};
  console.log(JSON.stringify(await features()));`;
/** @param {string} node @param {string[]} flags */
function featuresOf(node, flags) {
  const { stdout } = spawnSync(node, [...flags, '--input-type=module', '-e', script], { encoding: 'utf8' });
  return JSON.parse(stdout);
}

test(
  'the relaxed variant is taken where the sums are right',
  { skip: !newerNode && 'no newer Node here' },
  () => {
    assert.equal(featuresOf(newerNode, []).variant, 'relaxed');
  },
);

const oldNode = /^v2[01]\./.test(process.version);
test(
  'relaxed SIMD that adds up wrongly is not taken',
  { skip: !oldNode && 'needs Node 20, whose sums are wrong' },
  () => {
    const found = featuresOf(process.execPath, ['--experimental-wasm-relaxed-simd']);
    assert.equal(found.variant, 'simd');
    assert.match(found.reasons.join(), /wrong sums/);
  },
);
