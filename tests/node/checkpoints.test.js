import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Checkpoints, withRoom } from '../../web/src/checkpoints.js';
import { HeadlightError, load } from '../../web/src/index.js';
import { fixture } from './helpers.js';

// Models with sliding windows give rows back, so a cache cannot be rewound past a window: what is reused after an edit comes
// from checkpoints. The fixture's window is 8 positions, and blocks of 64 are given back.

const greedy = { temperature: 0, ignoreEos: true, logprobs: 5 };
/** @type {import('../../web/src/index.js').Model} */
let model;

before(async () => {
  model = await load(fixture('gemma3'), { threads: 2, context: 4096, kv: 'f32' });
});
after(() => model.dispose());

/** @param {number} n @param {number} seed */
const words = (n, seed) => Array.from({ length: n }, (_, i) => 3 + ((i * 31 + seed * 17) % 250));

/**
 * A chat of some turns: each prompt is all that was said, and a new message.
 * @param {import('../../web/src/index.js').Session} session @param {number} turns
 */
async function chat(session, turns) {
  /** @type {{ prompt: number[], answer: number[], usage: import('../../web/src/index.js').Usage }[]} */
  const said = [];
  for (let turn = 0; turn < turns; turn++) {
    const { prompt = [], answer = [] } = said.at(-1) ?? {};
    const next = [...prompt, ...answer, ...words(40, turn)];
    const { tokens, usage } = await model.generate(next, { ...greedy, maxTokens: 100, session });
    said.push({ prompt: next, answer: Array.from(tokens), usage });
  }
  return said;
}

/** What a fresh session answers. @param {number[]} prompt */
async function freshly(prompt) {
  const session = await model.session();
  const { logprobs } = await model.generate(prompt, { ...greedy, maxTokens: 3, session });
  await session.dispose();
  return logprobs;
}

/** What is answered, what is evaluated for it. @param {import('../../web/src/index.js').Session} session @param {number[]} prompt */
async function ask(session, prompt) {
  const { logprobs, usage } = await model.generate(prompt, { ...greedy, maxTokens: 3, session });
  return { logprobs, evaluated: usage.promptTokens - usage.cachedTokens };
}

test('an edited turn evaluates what is new in it, and the answer is that of a fresh session', async () => {
  const session = await model.session();
  const said = await chat(session, 3);
  // The last token of an answer is not evaluated until something follows.
  assert.deepEqual(
    said.map(({ prompt, usage }) => prompt.length - usage.cachedTokens),
    [40, 41, 41],
  );
  for (const [i, turn] of [2, 1, 2].entries()) {
    const edited = [...said[turn - 1].prompt, ...said[turn - 1].answer, ...words(25, 9 + i)];
    const { logprobs, evaluated } = await ask(session, edited);
    // With the last token of the answer before, or without where a block still holds its window.
    assert.ok(evaluated === 26 || evaluated === 25, `turn ${turn}: ${evaluated}`);
    assert.deepEqual(logprobs, await freshly(edited));
  }
  await session.dispose();
});

test('a restored context answers an edited turn as a fresh session does', async () => {
  const session = await model.session();
  const said = await chat(session, 2);
  const other = await model.session();
  await other.restore(await session.save());
  for (const n of [1, 60, 139]) {
    const all = [...said[1].prompt, ...said[1].answer];
    const edited = [...all.slice(0, all.length - n), ...words(5, n)];
    const { logprobs } = await ask(other, edited);
    assert.deepEqual(logprobs, await freshly(edited));
    await other.restore(await session.save());
  }
  await other.dispose();
  await session.dispose();
});

test('a fork has the checkpoints of its session', async () => {
  const session = await model.session();
  const said = await chat(session, 3);
  const fork = await session.fork();
  const edited = [...said[1].prompt, ...said[1].answer, ...words(25, 9)];
  const { logprobs, evaluated } = await ask(fork, edited);
  assert.ok(evaluated <= 26, `${evaluated}`);
  assert.deepEqual(logprobs, await freshly(edited));
  await fork.dispose();
  await session.dispose();
});

test('an answer that is asked for again evaluates one token', async () => {
  const session = await model.session();
  const said = await chat(session, 2);
  for (const { prompt } of [said[1], said[0], said[1]]) {
    const { logprobs, evaluated } = await ask(session, prompt);
    assert.equal(evaluated, 1);
    assert.deepEqual(logprobs, await freshly(prompt));
  }
  await session.dispose();
});

test('kv-012: without a checkpoint in reach, an edit behind the window evaluates everything', async () => {
  const session = await model.session();
  const prompt = words(300, 1);
  await model.generate(prompt, { ...greedy, maxTokens: 1, session });
  const edited = [...prompt.slice(0, 100), ...words(10, 2)];
  const { logprobs, evaluated } = await ask(session, edited);
  assert.equal(evaluated, edited.length);
  assert.deepEqual(logprobs, await freshly(edited));
  await session.dispose();
});

test('kv-009, kv-013: what windows still hold is reused without a checkpoint', async () => {
  const session = await model.session();
  const prompt = words(300, 1);
  await session.feed(prompt);
  assert.equal((await session.cache()).checkpoints.count, 0);
  assert.equal((await ask(session, prompt)).evaluated, 1);
  await session.rewind(0);
  await session.feed(prompt);
  assert.equal((await ask(session, [...prompt, 5])).evaluated, 1);
  await session.dispose();
});

test('a rewind behind the window evaluates again what it must', async () => {
  const session = await model.session();
  const said = await chat(session, 2);
  const fed = [...said[1].prompt, ...said[1].answer].slice(0, session.length);
  await session.rewind(100);
  assert.equal(session.length, 100);
  const logits = await session.feed([5, 6]);
  const fresh = await model.session();
  assert.deepEqual(logits, await fresh.feed([...fed.slice(0, 100), 5, 6]));
  await session.dispose();
  await fresh.dispose();
});

test('attention is watched on after a checkpoint was taken up', async () => {
  const session = await model.session();
  /** @type {import('../../web/src/index.js').Step[]} */
  const steps = [];
  session.watch({ attention: [5] }, (step) => steps.push(step));
  const [{ prompt }] = await chat(session, 3);
  await ask(session, prompt);
  const { position, attention } = /** @type {any} */ (steps.findLast((step) => step.position === 39));
  assert.equal(position, 39);
  assert.equal(attention[5].cols, 40);
  await session.dispose();
});

test('checkpoints are few, are counted, share blocks, and go with the session', async () => {
  const before_ = await model.memory();
  const session = await model.session();
  await chat(session, 5);
  const { checkpoints, reserved } = await session.cache();
  assert.equal(checkpoints.count, 6);
  const { cache } = await model.memory();
  assert.ok(cache > before_.cache + reserved, 'windows that only checkpoints hold are in memory');
  assert.ok(checkpoints.bytes > 0 && checkpoints.bytes <= cache - before_.cache - reserved);
  await session.dispose();
  assert.equal((await model.memory()).cache, before_.cache);
});

/** A core session that only counts: each fork holds so many bytes alone. @param {number[]} ids @param {number} bytes */
function counted(ids, bytes) {
  const session = {
    freed: 0,
    tokens: () => Int32Array.from(ids),
    fork: () => session,
    cache: () => ({ reserved: 100 + bytes, shared: 100 }),
    free: () => session.freed++,
  };
  return /** @type {any} */ (session);
}

test('the oldest checkpoints go when all together hold too many bytes', () => {
  const checkpoints = new Checkpoints(250);
  const sessions = [1, 2, 3, 4].map((id) => counted([id], 100));
  for (const session of sessions) checkpoints.add(session);
  checkpoints.add(sessions[2]);
  assert.deepEqual(checkpoints.stats(), { count: 2, bytes: 200 });
  assert.deepEqual(
    sessions.map(({ freed }) => freed),
    [1, 1, 0, 0],
  );
  checkpoints.close();
});

test('when memory is short, all checkpoints go, and the call is made again', () => {
  const [mine, other] = [new Checkpoints(250), new Checkpoints(250)];
  const sessions = [counted([1], 100), counted([2], 100)];
  mine.add(sessions[0]);
  other.add(sessions[1]);
  let calls = 0;
  const short = () => {
    if (++calls < 2) throw new HeadlightError('NO_MEMORY', 'no');
    return 'done';
  };
  assert.equal(withRoom(short), 'done');
  assert.deepEqual([mine.stats().count, other.stats().count, calls], [0, 0, 2]);
  assert.deepEqual(
    sessions.map(({ freed }) => freed),
    [1, 1],
  );
  calls = 0;
  assert.throws(() => withRoom(short), { code: 'NO_MEMORY' });
  assert.equal(calls, 1);
  mine.close();
  other.close();
});

test('a model without windows needs no checkpoints', async () => {
  const plain = await load(fixture('llama_gqa'), { threads: 1, context: 256 });
  const session = await plain.session();
  await plain.generate(words(30, 1), { ...greedy, maxTokens: 4, session });
  const stats = await session.cache();
  assert.deepEqual(stats.checkpoints, { count: 0, bytes: 0 });
  assert.equal(stats.shared, 0);
  await plain.dispose();
});
