import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { load } from '../../web/src/index.js';
import { slideBy } from '../../web/src/context.js';
import { fixture, golden, inProject } from './helpers.js';

// Forks, saved contexts, reuse of a cached prefix. Cases: tests/cases/kv_cases.json.

const CASES = JSON.parse(readFileSync(inProject('tests/cases/kv_cases.json'), 'utf8'));
/** @param {string} id */
const kase = (id) => CASES.find((/** @type {any} */ c) => c.id === id);

const { tokens } = golden('llama_gqa');
const greedy = { temperature: 0, ignoreEos: true };
/** @type {import('../../web/src/index.js').Model} */
let model;

before(async () => {
  model = await load(fixture('llama_gqa'), { threads: 2, context: 512, kv: 'f32' });
});
after(() => model.dispose());

/** @param {Float32Array} logits */
const bits = (logits) => Buffer.from(logits.buffer).toString('hex');

/** @param {number[]} ids @param {number} [most] fed at a time */
async function cold(ids, most = Infinity) {
  const session = await model.session();
  let logits;
  for (let at = 0; at < ids.length; at += most) logits = await session.feed(ids.slice(at, at + most));
  await session.dispose();
  return bits(/** @type {Float32Array} */ (logits));
}

const long = Array.from({ length: 150 }, (_, i) => 1 + ((i * 37) % 300));

test('a fork goes on where the session was, and each goes its own way', async () => {
  const session = await model.session();
  await session.feed(long.slice(0, 100));
  const fork = await session.fork();
  assert.equal(fork.length, 100);
  const ours = await session.feed([1, 2, 3]);
  const theirs = await fork.feed([4, 5, 6]);
  assert.equal(bits(ours), await cold([...long.slice(0, 100), 1, 2, 3]));
  assert.equal(bits(theirs), await cold([...long.slice(0, 100), 4, 5, 6]));
  await session.dispose();
  await fork.rewind(50);
  assert.equal(bits(await fork.feed(long.slice(50, 100))), await cold(long.slice(0, 100)));
  await fork.dispose();
  await assert.rejects(fork.fork(), { code: 'DISPOSED' });
});

test('a fork that finds no memory says what it is for, how much, and what to do', async () => {
  const context = 1 << 20;
  const small = await load(fixture('llama_gqa'), { threads: 1, maxMemory: 48 << 20 });
  const session = await small.session({ context });
  await session.feed(tokens);
  const forking = async () => {
    for (let i = 0; i < 20; i++) await session.fork();
  };
  await assert.rejects(forking, ({ code, message }) => {
    assert.equal(code, 'NO_MEMORY');
    const [, bytes] =
      /no memory for a fork: (\d+) bytes for the tables of 1048576 positions/.exec(message) ?? [];
    // An id of 4 bytes for each position, and for each 64 a pointer of 4 in each of 2 layers; logits and little else.
    const tables = 4 * context + 2 * 4 * (context / 64);
    assert.ok(Number(bytes) > tables && Number(bytes) < tables + 5000, message);
    assert.match(message, /dispose of sessions that are not needed, or take a smaller context/);
    return true;
  });
  // What was there goes on.
  assert.equal(bits(await session.feed([1, 2, 3])).length > 0, true);
  await small.dispose();
});

test('a session that is gone has no positions', async () => {
  const other = await load(fixture('llama_gqa'), { threads: 1 });
  const [session, second] = [await other.session(), await other.session()];
  await session.feed([1, 2, 3]);
  await second.feed([1, 2, 3]);
  await session.dispose();
  assert.deepEqual([session.length, second.length], [0, 3]);
  await other.dispose();
  assert.equal(second.length, 0);
  await assert.rejects(second.feed([1]), { code: 'DISPOSED', message: /model was disposed/ });
});

test('forks share blocks until one of them writes, and memory counts them once', async () => {
  const session = await model.session();
  await session.feed(long.slice(0, 100));
  const alone = await session.cache();
  const before_ = (await model.memory()).cache;
  const fork = await session.fork();
  assert.equal((await model.memory()).cache, before_);
  assert.equal((await session.cache()).shared, alone.reserved);
  assert.equal((await fork.cache()).shared, alone.reserved);
  await fork.feed([1]);
  assert.equal((await fork.cache()).shared, alone.reserved / 2);
  assert.equal((await model.memory()).cache, before_ + alone.reserved / 2);
  await session.dispose();
  assert.equal((await fork.cache()).shared, 0);
  await fork.dispose();
  assert.equal((await model.memory()).cache, before_ - alone.reserved);
});

test('a fork waits for what was asked of the session before', async () => {
  const session = await model.session();
  const [, fork] = await Promise.all([session.feed(long), session.fork(), session.feed([1])]);
  assert.equal(fork.length, long.length);
  assert.equal(session.length, long.length + 1);
  assert.equal(bits(await fork.feed([7])), await cold([...long, 7]));
  await session.dispose();
  await fork.dispose();
});

test('a saved context goes on where it was, in another session', async () => {
  const session = await model.session();
  await session.feed(long.slice(0, 100));
  const saved = await session.save();
  const other = await model.session();
  await other.feed([9, 9, 9]);
  await other.restore(saved);
  assert.equal(other.length, 100);
  assert.equal(bits(await other.feed(long.slice(100))), await cold(long));
  await session.dispose();
  await other.dispose();
});

test('kv-030, kv-044: an empty saved context clears, and the answer is that of a fresh session', async () => {
  const session = await model.session();
  const empty = await session.save();
  await session.feed(long);
  await session.restore(empty);
  assert.equal(session.length, 0);
  assert.equal((await session.cache()).reserved, 0);
  const cleared = await model.generate(tokens, { ...greedy, maxTokens: 4, logprobs: 3, session });
  assert.equal(cleared.usage.cachedTokens, 0);
  await session.rewind(0);
  const again = await model.generate(tokens, { ...greedy, maxTokens: 4, logprobs: 3, session });
  assert.equal(again.usage.cachedTokens, 0);
  const fresh = await model.session();
  const wanted = await model.generate(tokens, { ...greedy, maxTokens: 4, logprobs: 3, session: fresh });
  assert.deepEqual(cleared.logprobs, wanted.logprobs);
  assert.deepEqual(again.logprobs, wanted.logprobs);
  await session.dispose();
  await fresh.dispose();
});

test('kv-031, kv-035: what was restored is used by the next prompt', async () => {
  const { input, expected } = kase('kv-031');
  const session = await model.session();
  await session.feed(input.saved);
  const saved = await session.save();
  await session.rewind(0);
  await session.restore(saved);
  const { usage } = await model.generate(input.prompt, { ...greedy, maxTokens: 1, session });
  assert.equal(usage.cachedTokens, expected.n_reuse);
  assert.equal(session.length, input.prompt.length);
  await session.dispose();
});

test('damaged and foreign bytes are refused, and nothing changes', async () => {
  const session = await model.session();
  const before_ = await session.feed(long.slice(0, 70));
  const saved = await session.save();
  const after70 = await cold([...long.slice(0, 70), 5]);
  const damaged = saved.slice();
  damaged[damaged.length >> 1] ^= 1;
  const f16 = await model.session({ kv: 'f16' });
  await f16.feed([1, 2, 3]);
  const other = await load(fixture('llama_mha'), { threads: 1, kv: 'f32' });
  const foreign = await other.session();
  await foreign.feed([1, 2, 3]);
  const high = await load(fixture('llama_gqa'), { threads: 1, kv: 'f32', precision: 'high' });
  const exact = await high.session();
  await exact.feed([1, 2, 3]);
  const build = saved.slice();
  build[24] ^= 1;
  for (const [bytes, code, words] of [
    [damaged, 'BAD_FORMAT', /checksum.*damaged/],
    [saved.subarray(0, 1000), 'BAD_FORMAT', /damaged/],
    [new Uint8Array(10), 'BAD_FORMAT', /too few/],
    [new Uint8Array(1000), 'BAD_FORMAT', /not a saved context/],
    [build, 'UNSUPPORTED', /another build/],
    [await f16.save(), 'UNSUPPORTED', /cache in f16, this session has f32/],
    [await exact.save(), 'UNSUPPORTED', /precision high.*fast/],
    [await foreign.save(), 'UNSUPPORTED', /another model/],
    ['text', 'BAD_ARGUMENT', /Uint8Array/],
    [undefined, 'BAD_ARGUMENT', /Uint8Array/],
  ]) {
    await assert.rejects(
      session.restore(/** @type {any} */ (bytes)),
      (/** @type {any} */ e) => e.code === code && words.test(e.message),
    );
  }
  assert.equal(session.length, 70);
  assert.equal(bits(await (await session.fork()).feed([5])), after70);
  const small = await model.session({ context: 69 });
  await assert.rejects(small.restore(saved), { code: 'CONTEXT_FULL' });
  assert.equal(bits(before_), await cold(long.slice(0, 70)));
  await other.dispose();
  await high.dispose();
  for (const s of [session, f16, small]) await s.dispose();
});

test('bytes that are no saved context take no linear memory', async () => {
  const session = await model.session();
  const { wasm } = await model.memory();
  await assert.rejects(session.restore(new Uint8Array(2e8)), { code: 'BAD_FORMAT' });
  assert.equal((await model.memory()).wasm, wasm);
  await session.dispose();
});

test('a context of the same model loaded again is taken', async () => {
  const session = await model.session();
  await session.feed(long.slice(0, 70));
  const saved = await session.save();
  await session.dispose();
  const again = await load(fixture('llama_gqa'), { threads: 1, variant: 'single', kv: 'f32' });
  const other = await again.session();
  await other.restore(saved);
  assert.equal(bits(await other.feed([5])), await cold([...long.slice(0, 70), 5]));
  await again.dispose();
});

for (const id of ['kv-001', 'kv-004', 'kv-005', 'kv-006', 'kv-007', 'kv-008']) {
  const { name, input, expected } = kase(id);
  test(`${id}: ${name}: the cached beginning is reused, and the rest evaluated`, async () => {
    const session = await model.session();
    if (input.cached.length > 0) await session.feed(input.cached);
    /** @type {number[]} */
    const evaluated = [];
    session.watch({}, (step) => evaluated.push(...step.tokens));
    const result = await model.generate(input.prompt, { ...greedy, maxTokens: 1, logprobs: 5, session });
    assert.equal(result.usage.cachedTokens, expected.n_reuse);
    assert.equal(session.length, expected.cache_len_after);
    assert.deepEqual(evaluated, expected.evaluate);
    const fresh = await model.session();
    const wanted = await model.generate(input.prompt, {
      ...greedy,
      maxTokens: 1,
      logprobs: 5,
      session: fresh,
    });
    assert.deepEqual(result.logprobs, wanted.logprobs);
    await session.dispose();
    await fresh.dispose();
  });
}

for (const id of ['kv-015', 'kv-016', 'kv-017']) {
  const { name, input, expected } = kase(id);
  test(`${id}: ${name}: the older half behind the first positions goes`, () => {
    const gone = slideBy(input.n_past, input.n_keep);
    assert.equal(gone, expected.n_discard);
    const held = Array.from({ length: input.n_past }, (_, i) => i);
    held.splice(input.n_keep, gone);
    assert.deepEqual(held, expected.kept_old_positions);
    assert.equal(gone > 0, expected.progress);
  });
}

test('kv-039, kv-041: there is no q4_0 cache: refused by name, with those there are', async () => {
  for (const kv of /** @type {any[]} */ (['q4_0', 'f64', 5, null])) {
    await assert.rejects(
      model.session({ kv }),
      (/** @type {any} */ e) => e.code === 'BAD_ARGUMENT' && /f32, f16, q8_0/.test(e.message),
    );
  }
});

test('what sessions are given is checked by name', async () => {
  const session = await model.session();
  const ring = /** @type {any} */ ({ role: 'user', content: 'x' });
  ring.self = ring;
  const user = { role: 'user', content: 'x' };
  const calls = /** @type {[() => any, RegExp][]} */ ([
    [() => session.watch({}, /** @type {any} */ (undefined)), /watch: the listener/],
    [() => session.watch({}, /** @type {any} */ ({})), /watch: the listener/],
    [() => session.watch(/** @type {any} */ (undefined), () => {}), /watch: options/],
    [() => session.watch(/** @type {any} */ ({ attention: 1 }), () => {}), /watch: attention/],
    [() => session.feed([1], { signal: /** @type {any} */ ({}) }), /feed: signal/],
    [() => model.generate('x', { signal: /** @type {any} */ ('now') }), /generate: signal/],
    [() => model.chat([user], { signal: /** @type {any} */ (null) }), /chat: signal/],
    ...[0, -1, 1.5, 2 ** 24 + 1, 2 ** 32 + 8, '512', NaN].map((context) => [
      () => model.session({ context }),
      /session: context is .*from 1 to 16777216/,
    ]),
    [() => load(fixture('llama_gqa'), { context: 2 ** 24 + 1 }), /load: context/],
    [() => model.chat([ring]), /messages\[0\].*more than 100 levels/],
    [() => model.render([{ ...user, at: new Date() }]), /messages\[0\]\.at is of type Date/],
    [() => model.render([{ ...user, n: 5n }]), /messages\[0\]\.n is of type bigint/],
    [() => model.render([user], { variables: { map: new Map() } }), /variables\.map is of type Map/],
    [() => model.render([user], { variables: { f: () => 0 } }), /cannot be sent/],
  ]);
  for (const [call, words] of calls) {
    await assert.rejects(
      async () => await call(),
      (/** @type {any} */ e) => {
        assert.equal(`${e.code} ${words.test(e.message)}`, 'BAD_ARGUMENT true', `${e.code}: ${e.message}`);
        return true;
      },
    );
  }
  await session.dispose();
});
