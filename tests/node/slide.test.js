import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dropOf, keepOf } from '../../web/src/context.js';
import { load } from '../../web/src/index.js';
import { fixture, golden, manifest } from './helpers.js';

// overflow: 'slide'. What stays is evaluated again, so everything must equal a fresh session's, bit for bit.

const greedy = { temperature: 0, ignoreEos: true, overflow: /** @type {const} */ ('slide') };
const { tokens } = golden('llama_gqa');
/** @type {import('../../web/src/index.js').Model} */
let model;

before(async () => {
  model = await load(fixture('llama_gqa'), { threads: 2, context: 512, kv: 'f32', overflow: 'slide' });
});
after(() => model.dispose());

/**
 * Follows what a session's context holds, and how many positions before each step.
 * @param {import('../../web/src/index.js').Session} session
 */
function follow(session) {
  const seen = { held: /** @type {number[]} */ ([]), starts: /** @type {number[]} */ ([]) };
  session.watch({}, ({ position, tokens: fed }) => {
    seen.starts.push(position);
    seen.held = [...seen.held.slice(0, position), ...fed];
  });
  return seen;
}

/**
 * The context before each token of an answer, by the rule: a full one keeps `keep` positions and the newer half of the
 * others.
 * @param {ArrayLike<number>} prompt @param {ArrayLike<number>} answer @param {number} context @param {number} keep
 * @returns {number[][]}
 */
function contextsOf(prompt, answer, context, keep) {
  let held = Array.from(prompt);
  return Array.from(answer, (id) => {
    const now = held;
    const half = Math.ceil((held.length - keep) / 2);
    held = held.length < context ? [...held, id] : [...held.slice(0, keep), ...held.slice(-half), id];
    return now;
  });
}

/**
 * The first token of the answer to a context, from a fresh session.
 * @param {import('../../web/src/index.js').Model} of @param {number[]} context
 */
async function freshly(of, context) {
  const session = await of.session();
  const { logprobs } = await of.generate(context, { ...greedy, maxTokens: 1, logprobs: 5, session });
  await session.dispose();
  return logprobs?.[0];
}

for (const { name, golden: like = name } of manifest.models) {
  // Windows have given back blocks of 64 positions when they slide.
  const [context, maxTokens] = /gemma/.test(name) ? [150, 250] : [40, 60];
  const id = name === 'gemma3' ? 'kv-022: ' : '';
  test(`${id}${name}: what follows a slide is what a fresh session says`, async () => {
    const of = await load(fixture(name), { threads: 2, context: 200, kv: 'f32' });
    const session = await of.session({ context });
    const seen = follow(session);
    const prompt = golden(like).tokens.slice(0, 16);
    const result = await of.generate(prompt, { ...greedy, maxTokens, logprobs: 5, session });
    assert.equal(result.finishReason, 'length');
    assert.equal(result.tokens.length, maxTokens);
    const contexts = contextsOf(prompt, result.tokens, context, 4);
    const slid = contexts.flatMap((c, i) => (i > 0 && c.length < contexts[i - 1].length ? [i] : []));
    assert.ok(slid.length >= 2, `${slid.length} slides`);
    assert.equal(result.usage.droppedTokens, slid.length * Math.floor((context - 4) / 2));
    assert.deepEqual(seen.held, contexts.at(-1));
    assert.equal(session.length, seen.held.length);
    for (const i of [slid[0], slid[1], maxTokens - 1]) {
      assert.deepEqual(result.logprobs?.[i], await freshly(of, contexts[i]), `token ${i}`);
    }
    await of.dispose();
  });
}

test('each of stop, slide and error is the choice of load, of session, or of generate', async () => {
  /** @param {object} options @param {object} [of] */
  const ends = async (options, of) => {
    const session = await model.session({ context: 30, ...of });
    const ask = { ...greedy, overflow: undefined, maxTokens: 30, session, ...options };
    const end = await model.generate(tokens, ask).then(
      ({ tokens: { length } }) => length,
      ({ code }) => code,
    );
    await session.dispose();
    return end;
  };
  assert.equal(await ends({}), 30);
  assert.equal(await ends({}, { overflow: 'stop' }), 7);
  assert.equal(await ends({}, { overflow: 'error' }), 'CONTEXT_FULL');
  assert.equal(await ends({ overflow: 'slide' }, { overflow: 'error' }), 30);
  assert.equal(await ends({ overflow: 'error' }), 'CONTEXT_FULL');
  assert.equal(await ends({ overflow: 'stop' }), 7);
});

test('kv-017: a context that has nothing to give ends the answer with length', async () => {
  const session = await model.session({ context: 1 });
  const result = await model.generate([5], { ...greedy, maxTokens: 9, session });
  assert.deepEqual([result.finishReason, result.tokens.length], ['length', 1]);
  await session.dispose();
});

test('the first positions that stay are the system message, 4 at least and half of the context at most', () => {
  assert.equal(keepOf(0, 100), 4);
  assert.equal(keepOf(30, 100), 30);
  assert.equal(keepOf(80, 100), 50);
  assert.equal(keepOf(3, 5), 2);
});

test('a chat keeps its system message when it slides', async () => {
  const system = { role: 'system', content: 'Answer in rhymes.' };
  const session = await model.session({ context: 160 });
  const seen = follow(session);
  const ask = { ...greedy, maxTokens: 150, session };
  const { usage } = await model.chat([system, { role: 'user', content: 'Say 1 2 3' }], ask);
  assert.ok(usage.droppedTokens > 0);
  const text = await model.detokenize(seen.held, { special: true });
  assert.ok(text.includes('Answer in rhymes.'), text.slice(0, 80));
  assert.ok(!text.includes('Say 1 2 3'));
  await session.dispose();
});

test('a prompt longer than the context keeps its beginning and its newest half, and says how much went', async () => {
  const session = await model.session({ context: 40 });
  const seen = follow(session);
  const prompt = Array.from({ length: 100 }, (_, i) => 1 + i);
  const { usage, logprobs } = await model.generate(prompt, { ...greedy, maxTokens: 1, logprobs: 5, session });
  const fitting = [...prompt.slice(0, 4), ...prompt.slice(-18)];
  assert.deepEqual(seen.held, fitting);
  assert.deepEqual(usage, { promptTokens: 100, cachedTokens: 0, droppedTokens: 78, completionTokens: 1 });
  assert.deepEqual(logprobs?.[0], await freshly(model, fitting));
  await assert.rejects(session.feed(prompt), { code: 'CONTEXT_FULL' });
  await session.dispose();
});

test('a conversation that has slid goes on from what is left of it', async () => {
  const session = await model.session({ context: 60 });
  const seen = follow(session);
  const first = await model.generate(tokens, { ...greedy, maxTokens: 50, session });
  assert.equal(first.usage.droppedTokens, 28);
  const prompt = [...tokens, ...first.tokens, 7, 8, 9];
  const held = [...seen.held];
  const next = await model.generate(prompt, { ...greedy, maxTokens: 1, session });
  assert.equal(next.usage.cachedTokens, held.length);
  assert.equal(next.usage.droppedTokens, 28);
  assert.deepEqual(seen.held, [...held, first.tokens.at(-1), 7, 8, 9]);
  // Another one of the same length is cut anew.
  const other = await model.generate(
    prompt.map((id) => id + 1),
    { ...greedy, maxTokens: 1, session },
  );
  assert.equal(other.usage.droppedTokens, prompt.length - 4 - 28);
  await session.dispose();
});

test('what went before goes again only when most of the rest is cached', () => {
  const prompt = Int32Array.from({ length: 100 }, (_, i) => i);
  const held = prompt.filter((i) => i < 4 || i >= 44).slice(0, 50);
  const room = { context: 64, keep: 4, dropped: 40 };
  assert.equal(dropOf(prompt.subarray(0, 64), held, room), 0);
  assert.equal(dropOf(prompt, held, room), 40);
  assert.equal(dropOf(prompt, held.subarray(0, 20), room), 100 - 34);
  assert.equal(dropOf(prompt, held, { ...room, dropped: 20 }), 100 - 34);
  assert.equal(dropOf(prompt, held, { ...room, dropped: 99 }), 100 - 34);
});

test('attention maps go on after a slide, with the rows of what is left', async () => {
  const session = await model.session({ context: 40 });
  /** @type {import('../../web/src/index.js').Step[]} */
  const steps = [];
  session.watch({ attention: [1] }, (step) => steps.push(step));
  await model.generate(tokens, { ...greedy, maxTokens: 40, session });
  const slid = steps.findIndex((step, i) => i > 0 && step.position < steps[i - 1].position);
  assert.ok(slid > 0);
  for (const { position, tokens: fed, attention, cache } of steps) {
    const { rows, cols, data } = attention[1];
    assert.deepEqual([rows, cols], [fed.length, position + fed.length]);
    assert.equal(cache.positions, cols);
    const row = data.subarray((rows - 1) * cols, rows * cols).reduce((a, b) => a + b, 0);
    assert.ok(Math.abs(row - 1) < 1e-4, String(row));
  }
  assert.equal(steps[slid].position, 4);
  await session.dispose();
});

test('an abort during a slide ends it after a chunk', async () => {
  const session = await model.session({ context: 512 });
  const controller = new AbortController();
  let steps = 0;
  session.watch({}, ({ position }) => {
    if (position === 4 && steps++ === 0) controller.abort();
  });
  const prompt = Array.from({ length: 510 }, (_, i) => 1 + (i % 300));
  const options = { ...greedy, maxTokens: 100, session, signal: controller.signal };
  const result = await model.generate(prompt, options);
  assert.equal(result.finishReason, 'abort');
  // Of 512 positions 4 stay, and half of the others.
  assert.equal(result.usage.droppedTokens, 254);
  assert.equal(steps, 1);
  assert.ok(session.length <= 4 + 128, String(session.length));
  const next = await model.generate(tokens, { ...greedy, maxTokens: 1, session });
  assert.equal(next.tokens[0], golden('llama_gqa').greedy[0]);
  await session.dispose();
});

test('a restored context that has slid goes on as the session and its fork do', async () => {
  const session = await model.session({ context: 64 });
  const prompt = tokens.slice(0, 20);
  const { tokens: answer } = await model.generate(prompt, { ...greedy, maxTokens: 90, session });
  const restored = await model.session({ context: 64 });
  await restored.restore(await session.save());
  const next = [...prompt, ...answer, 5, 6, 7];
  const results = [];
  for (const s of [await session.fork(), restored, session])
    results.push(await model.generate(next, { ...greedy, maxTokens: 5, logprobs: 5, session: s }));
  for (const { tokens: made, logprobs, usage } of results) {
    assert.deepEqual(made, results[2].tokens);
    assert.deepEqual(logprobs, results[2].logprobs);
    assert.deepEqual(usage, results[2].usage);
  }
  assert.ok(results[1].usage.cachedTokens > 0 && (results[1].usage.droppedTokens ?? 0) > 0);
});
