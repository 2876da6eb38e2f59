import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { HeadlightError, kvPlan, load, Model } from '../../web/src/index.js';
import { cli, fixture, golden } from './helpers.js';

const path = fixture('llama_gqa');
const { tokens } = golden('llama_gqa');
/** @type {Model} */
let model;

before(async () => {
  model = await load(path, { threads: 2, context: 512, kv: 'f32' });
});
after(() => model.dispose());

/** Sampling that needs no luck. */
const greedy = { temperature: 0, ignoreEos: true };

/** @param {AsyncIterable<any>} generation */
async function chunksOf(generation) {
  const chunks = [];
  for await (const chunk of generation) chunks.push(chunk);
  return chunks;
}

test('info tells what the file is', () => {
  const { info } = model;
  assert.equal(info.architecture, 'llama');
  assert.equal(info.kind, 'GQA');
  assert.deepEqual([info.layers, info.heads, info.kvHeads, info.vocabulary], [2, 8, 2, 320]);
  assert.equal(info.context, 512);
  assert.equal(info.quantization, 'F32');
  assert.deepEqual(info.shape, { layers: 2, kvHeads: 2, keyDim: 16, valueDim: 16 });
  assert.equal(info.threads, 2);
  assert.ok(info.parameters > 10000);
});

test('a generation can be awaited', async () => {
  const result = await model.generate(tokens, { ...greedy, maxTokens: 16 });
  assert.deepEqual(Array.from(result.tokens), golden('llama_gqa').greedy);
  assert.equal(result.finishReason, 'length');
  assert.equal(result.usage.promptTokens, tokens.length);
  assert.equal(result.usage.completionTokens, 16);
  assert.ok(result.timings.promptMs > 0 && result.timings.decodePerSecond > 0);
});

test('a generation can be iterated, and then awaited: the chunks are the text', async () => {
  const generation = model.generate(tokens, { ...greedy, maxTokens: 40 });
  const chunks = await chunksOf(generation);
  const result = await generation;
  assert.equal(chunks.map((c) => c.text).join(''), result.text);
  assert.deepEqual(
    chunks.slice(0, 3).map((c) => c.position),
    [24, 25, 26],
  );
  assert.equal(await model.detokenize(result.tokens), result.text);
});

test('a generation that was awaited first can still be iterated whole', async () => {
  const generation = model.generate(tokens, { ...greedy, maxTokens: 40 });
  const result = await generation;
  const chunks = await chunksOf(generation);
  assert.equal(chunks.map((c) => c.text).join(''), result.text);
  await assert.rejects(chunksOf(generation), { code: 'BAD_STATE' });
});

test('a reader that stops reading stops the engine after a few tokens', async () => {
  const session = await model.session();
  const generation = model.generate(tokens, { ...greedy, maxTokens: 400, session });
  const reader = generation[Symbol.asyncIterator]();
  await reader.next();
  let length = -1;
  const seen = [];
  const stop = session.watch({ attention: [0] }, (step) => seen.push(step.position));
  while (length !== seen.length) {
    length = seen.length;
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  assert.ok(length < 40, `${length} tokens were made ahead`);
  stop();
  await reader.return();
  assert.equal((await generation).finishReason, 'abort');
  await session.dispose();
});

/** @param {PromiseLike<any>} work @param {string} what */
function soon(work, what) {
  const late = new Promise((_, reject) =>
    setTimeout(reject, 10000, new Error(`${what} does not end`)).unref(),
  );
  return Promise.race([work, late]);
}

test('only a lone reader holds a generation back: awaiting it, or not reading it, lets it run', async () => {
  const session = await model.session();
  const options = { ...greedy, maxTokens: 60, session };
  const loop = async () => {
    for await (const _chunk of model.generate(tokens, options)) await session.cache();
    const g = model.generate(tokens, options);
    for await (const _chunk of g) assert.equal((await g).tokens.length, 60);
  };
  await soon(loop(), 'a loop that asks and awaits');
  const begun = model.generate(tokens, options);
  await begun[Symbol.asyncIterator]().next();
  assert.equal((await soon(begun, 'a generation whose reader has left')).tokens.length, 60);
  const unread = model.generate(tokens, options);
  await soon(model.generate(tokens, options), 'a generation behind an unread one');
  const last = model.generate(tokens, options);
  assert.equal(
    (await soon(chunksOf(last), 'the second of two')).filter((c) => c.text !== undefined).length >= 60,
    true,
  );
  assert.equal((await soon(chunksOf(unread), 'the first of two')).length >= 60, true);
  await session.dispose();
});

test('a call that waits for its own reader is refused', async () => {
  const session = await model.session();
  const options = { ...greedy, maxTokens: 60, session };
  const busy = { code: 'BAD_ARGUMENT', message: /busy with a generation/ };
  for await (const _chunk of model.generate(tokens, options)) {
    await soon(assert.rejects(session.rewind(3), busy), 'rewind');
    await soon(assert.rejects(session.feed([5]), busy), 'feed');
    await soon(assert.rejects(model.generate(tokens, options).then(), busy), 'generate');
    break;
  }
  await session.rewind(3);
  assert.equal(session.length, 3);
  await session.dispose();
});

test('disposing of a session aborts its generations, running or waiting', async () => {
  const session = await model.session();
  const read = model.generate(tokens, { ...greedy, maxTokens: 400, session });
  const reader = read[Symbol.asyncIterator]();
  await reader.next();
  const waiting = model.generate(tokens, { ...greedy, maxTokens: 400, session });
  await soon(session.dispose(), 'dispose');
  assert.equal((await waiting).finishReason, 'abort');
  await assert.rejects(
    async () => {
      while (!(await reader.next()).done);
    },
    { name: 'AbortError' },
  );
});

test('leaving the loop stops the work, and the next call works', async () => {
  const generation = model.generate(tokens, { ...greedy, maxTokens: 400 });
  let n = 0;
  for await (const _chunk of generation) if (++n === 3) break;
  const result = await generation;
  assert.equal(result.finishReason, 'abort');
  assert.ok(result.tokens.length < 40, `${result.tokens.length}`);
  const again = await model.generate(tokens, { ...greedy, maxTokens: 16 });
  assert.deepEqual(Array.from(again.tokens), golden('llama_gqa').greedy);
});

test('an abort: the loop throws AbortError, awaiting gives the text so far', async () => {
  const controller = new AbortController();
  const generation = model.generate(tokens, { ...greedy, maxTokens: 400, signal: controller.signal });
  let text = '';
  let n = 0;
  await assert.rejects(
    async () => {
      for await (const chunk of generation) {
        text += chunk.text;
        if (++n === 5) controller.abort();
      }
    },
    { name: 'AbortError' },
  );
  const result = await generation;
  assert.equal(result.finishReason, 'abort');
  assert.ok(result.text.startsWith(text));
  assert.ok(n <= result.tokens.length + 1);
});

test('aborts before the start, twice, and when idle do no harm', async () => {
  const early = await model.generate(tokens, { ...greedy, signal: AbortSignal.abort() });
  assert.deepEqual([early.finishReason, early.text, early.tokens.length], ['abort', '', 0]);
  const controller = new AbortController();
  const done = await model.generate(tokens, { ...greedy, maxTokens: 2, signal: controller.signal });
  controller.abort();
  controller.abort();
  assert.equal(done.finishReason, 'length');
  const fresh = await model.generate(tokens, { ...greedy, maxTokens: 16 });
  assert.deepEqual(Array.from(fresh.tokens), golden('llama_gqa').greedy);
});

test('an aborted feed keeps whole chunks, and length says how many', async () => {
  const session = await model.session();
  const controller = new AbortController();
  let steps = 0;
  session.watch({ attention: [] }, () => ++steps === 2 && controller.abort());
  const long = Array.from({ length: 500 }, (_, i) => i % 300);
  await assert.rejects(session.feed(long, { signal: controller.signal }), { name: 'AbortError' });
  assert.equal(session.length % 64, 0);
  assert.ok(session.length >= 128 && session.length < 500, String(session.length));
  await session.feed(long.slice(session.length));
  assert.equal(session.length, 500);
  await session.dispose();
});

test('a prompt that is cached is reused but for its last token, bit for bit', async () => {
  const session = await model.session();
  const cold = await model.generate(tokens, { ...greedy, maxTokens: 1, logprobs: 5, session });
  assert.equal(cold.usage.cachedTokens, 0);
  const warm = await model.generate(tokens, { ...greedy, maxTokens: 1, logprobs: 5, session });
  assert.equal(warm.usage.cachedTokens, tokens.length - 1);
  assert.deepEqual(warm.logprobs, cold.logprobs);
  const edited = [...tokens.slice(0, 10), 7, 8, 9];
  const changed = await model.generate(edited, { ...greedy, maxTokens: 3, logprobs: 5, session });
  assert.equal(changed.usage.cachedTokens, 10);
  const other = await model.session();
  const fresh = await model.generate(edited, { ...greedy, maxTokens: 3, logprobs: 5, session: other });
  assert.deepEqual(changed.logprobs, fresh.logprobs);
  await session.dispose();
  await other.dispose();
});

test('sessions give the logits that eval gives, in one piece and token by token', async () => {
  const [{ logits }] = (
    await cli(['eval', path, '--json', '--kv', 'f32'], { input: [{ tokens, logits: true }] })
  ).lines;
  const whole = await model.session();
  assert.deepEqual(Array.from(await whole.feed(tokens)), logits.map(Math.fround));
  const single = await model.session();
  let last;
  for (const id of tokens) last = await single.feed([id]);
  assert.deepEqual(Array.from(last), logits.map(Math.fround));
  await single.rewind(10);
  assert.equal(single.length, 10);
  assert.deepEqual(Array.from(await single.feed(tokens.slice(10))), logits.map(Math.fround));
  await whole.dispose();
  await single.dispose();
});

test('watching shows the attention that eval shows, a step for each chunk', async () => {
  const [{ attention }] = (
    await cli(['eval', path, '--json', '--kv', 'f32'], { input: [{ tokens, attention: [0, 1] }] })
  ).lines;
  const session = await model.session();
  /** @type {any[]} */
  const steps = [];
  const stop = session.watch({ attention: [1] }, (step) => steps.push(step));
  await session.feed(tokens.slice(0, 20));
  for (const id of tokens.slice(20)) await session.feed([id]);
  stop();
  stop();
  await session.feed([1]);
  assert.deepEqual(
    steps.map((s) => [s.position, s.tokens.length]),
    [
      [0, 20],
      [20, 1],
      [21, 1],
      [22, 1],
      [23, 1],
    ],
  );
  for (const step of steps) {
    const map = step.attention[1];
    assert.deepEqual(Object.keys(step.attention), ['1']);
    assert.deepEqual(
      [map.heads, map.rows, map.cols],
      [8, step.tokens.length, step.position + step.tokens.length],
    );
    for (let h = 0; h < map.heads; h++) {
      for (let r = 0; r < map.rows; r++) {
        const row = map.data.subarray((h * map.rows + r) * map.cols, (h * map.rows + r + 1) * map.cols);
        const expected = attention[1][h][step.position + r].slice(0, map.cols);
        assert.deepEqual(Array.from(row), expected.map(Math.fround));
      }
    }
    assert.equal(step.cache.positions, map.cols);
  }
  await session.dispose();
});

test('the cache takes what kvPlan says, and blocks round up', async () => {
  const session = await model.session({ kv: 'f16' });
  for (const [n, blocks] of [
    [1, 1],
    [63, 1],
    [1, 2],
    [100, 3],
  ]) {
    await session.feed(Array(n).fill(5));
    const stats = await session.cache();
    const plan = kvPlan(model.info.shape, session.length, 'f16');
    assert.equal(stats.used, plan.bytes);
    assert.deepEqual(
      stats.perLayer.map((l) => l.used),
      plan.perLayer,
    );
    assert.equal(stats.positions, session.length);
    assert.equal(stats.reserved, kvPlan(model.info.shape, 64 * blocks, 'f16').bytes);
    assert.equal(stats.shared, 0);
  }
  await session.rewind(10);
  assert.equal((await session.cache()).reserved, kvPlan(model.info.shape, 64, 'f16').bytes);
  const { cache } = await model.memory();
  await session.dispose();
  assert.equal((await model.memory()).cache, cache - kvPlan(model.info.shape, 64, 'f16').bytes);
});

test('stop strings end the text before them, over the borders of tokens', async () => {
  const whole = await model.generate(tokens, { ...greedy, maxTokens: 30 });
  const stop = whole.text.slice(5, 8);
  const at = whole.text.indexOf(stop);
  const generation = model.generate(tokens, { ...greedy, maxTokens: 30, stop: ['\u0001never', stop] });
  const chunks = await chunksOf(generation);
  const result = await generation;
  assert.equal(result.finishReason, 'stop');
  assert.equal(result.text, whole.text.slice(0, at));
  assert.equal(chunks.map((c) => c.text).join(''), result.text);
});

test('a seed repeats an answer; without one two answers differ', async () => {
  const ask = (options) =>
    model.generate(tokens, {
      maxTokens: 30,
      temperature: 2,
      topK: 0,
      topP: 1,
      minP: 0,
      ignoreEos: true,
      ...options,
    });
  const [a, b] = [await ask({ seed: 5 }), await ask({ seed: 5 })];
  assert.deepEqual(a.tokens, b.tokens);
  assert.notDeepEqual(a.tokens, (await ask({ seed: 6 })).tokens);
  assert.notDeepEqual((await ask({})).tokens, (await ask({})).tokens);
});

test('logprobs are natural logarithms that add up to one', async () => {
  const result = await model.generate(tokens, { ...greedy, maxTokens: 2, logprobs: 320 });
  for (const { token, logprob, top } of result.logprobs) {
    const sum = top.reduce((s, t) => s + Math.exp(t.logprob), 0);
    assert.ok(Math.abs(sum - 1) < 1e-4);
    assert.equal(top[0].token, token);
    assert.equal(top[0].logprob, logprob);
    assert.ok(top.every((t, i) => i === 0 || t.logprob <= top[i - 1].logprob));
  }
});

test('logit bias forbids and forces tokens', async () => {
  const free = await model.generate(tokens, { ...greedy, maxTokens: 1 });
  const [best] = free.tokens;
  const banned = await model.generate(tokens, { ...greedy, maxTokens: 1, logitBias: { [best]: -Infinity } });
  assert.notEqual(banned.tokens[0], best);
  const forced = await model.generate(tokens, { ...greedy, maxTokens: 1, logitBias: { 99: 1000 } });
  assert.equal(forced.tokens[0], 99);
});

test('the context ends an answer with length, or with an error where that is asked', async () => {
  const session = await model.session({ context: 30 });
  const ended = await model.generate(tokens, { ...greedy, session });
  assert.equal(ended.finishReason, 'length');
  assert.equal(ended.tokens.length, 30 - tokens.length + 1);
  await assert.rejects(async () => model.generate(tokens, { ...greedy, session, overflow: 'error' }), {
    code: 'CONTEXT_FULL',
  });
  const after_ = await model.generate(tokens, { ...greedy, session, maxTokens: 1 });
  assert.equal(after_.tokens[0], golden('llama_gqa').greedy[0]);
  await session.dispose();
});

test('a prompt longer than the context is refused with both numbers, and nothing changes', async () => {
  const session = await model.session({ context: 16 });
  await session.feed([1, 2, 3]);
  await assert.rejects(
    async () => model.generate(tokens, { session }),
    (e) => e.code === 'CONTEXT_FULL' && /24.*16/.test(e.message),
  );
  await assert.rejects(session.feed(tokens), { code: 'CONTEXT_FULL' });
  assert.equal(session.length, 3);
  await session.dispose();
});

test('calls of one session run in order, those of two in turn', async () => {
  const [a, b] = [await model.session(), await model.session()];
  const order = [];
  const run = async (name, session) => {
    for await (const _chunk of model.generate(tokens, { ...greedy, maxTokens: 30, session }))
      order.push(name);
  };
  await Promise.all([run('a', a), run('b', b)]);
  const changes = order.filter((name, i) => i > 0 && name !== order[i - 1]).length;
  assert.ok(changes > 10, order.join(''));
  const first = model.generate(tokens, { ...greedy, maxTokens: 5, session: a });
  const fed = a.feed([1]);
  const [result] = await Promise.all([first, fed]);
  assert.deepEqual(Array.from(result.tokens), golden('llama_gqa').greedy.slice(0, 5));
  assert.equal(a.length, tokens.length + 4 + 1);
  await a.dispose();
  await b.dispose();
});

const MESSAGES = [{ role: 'user', content: 'Hi' }];
const REFUSED = [
  ['no messages', () => model.chat([]), 'BAD_ARGUMENT', /at least one message/],
  ['messages that are none', () => model.chat(['hello']), 'BAD_ARGUMENT', /message 0/],
  ['a message without content', () => model.chat([{ role: 'user' }]), 'BAD_ARGUMENT', /content/],
  ['an empty prompt', () => model.generate([]), 'BAD_ARGUMENT', /empty/],
  [
    'an unknown option',
    () => model.generate('x', { temprature: 1 }),
    'BAD_ARGUMENT',
    /"temprature"; there are maxTokens/,
  ],
  ['tools, which are not built in yet', () => model.chat(MESSAGES, { tools: [] }), 'BAD_ARGUMENT', /"tools"/],
  [
    'an overflow that is none',
    () => model.generate('x', { overflow: 'wrap' }),
    'BAD_ARGUMENT',
    /stop, slide, error/,
  ],
  ['an id out of the vocabulary', () => model.generate([1, 320]), 'BAD_ARGUMENT', /token 1 is 320/],
  ['an id that is none', () => model.generate([1, 'x']), 'BAD_ARGUMENT', /token 1/],
  [
    'a temperature that is no number',
    () => model.generate('x', { temperature: 'hot' }),
    'BAD_ARGUMENT',
    /temperature/,
  ],
  ['a negative temperature', () => model.generate('x', { topP: -1 }), 'BAD_ARGUMENT', /./],
  ['a seed out of range', () => model.generate('x', { seed: -1 }), 'BAD_ARGUMENT', /seed/],
  ['half a token', () => model.generate('x', { maxTokens: 1.5 }), 'BAD_ARGUMENT', /maxTokens/],
  ['a stop that is no text', () => model.generate('x', { stop: [1] }), 'BAD_ARGUMENT', /stop/],
  ['a session of nobody', () => model.generate('x', { session: {} }), 'BAD_ARGUMENT', /session/],
  ['a session with strange options', () => model.session({ size: 1 }), 'BAD_ARGUMENT', /"size"/],
  ['a session of no positions', () => model.session({ context: 0 }), 'BAD_ARGUMENT', /context/],
  [
    'a function as a message',
    () => model.chat([{ role: 'user', content: 'x', f: () => 0 }]),
    'BAD_ARGUMENT',
    /cannot be sent/,
  ],
  ['a number as text', () => model.tokenize(5), 'BAD_ARGUMENT', /string/],
];
for (const [what, call, code, words] of REFUSED) {
  test(`${what}: ${code}, and the next call works`, async () => {
    await assert.rejects(
      async () => call(),
      (e) => e instanceof HeadlightError && e.code === code && words.test(e.message),
    );
    assert.ok((await model.tokenize('x')).length > 0);
  });
}

test('load refuses what it does not know', async () => {
  for (const [options, words] of [
    [{ speed: 1 }, /"speed"/],
    [{ kv: 'q4' }, /kv/],
    [{ precision: 'low' }, /precision/],
    [{ overflow: 'wrap' }, /wrap/],
    [{ threads: 0 }, /threads/],
    [{ variant: 'gpu' }, /variant/],
    [{ context: -5 }, /context/],
    [{ sha256: 'abc' }, /sha256/],
  ]) {
    await assert.rejects(load(path, options), (e) => e.code === 'BAD_ARGUMENT' && words.test(e.message));
  }
});

test('load finds a template that cannot be read', async () => {
  await assert.rejects(load(path, { template: '{% for m in messages %}' }), { code: 'TEMPLATE' });
});

test('watch refuses layers that are not there, and what is not built in', async () => {
  const session = await model.session();
  assert.throws(() => session.watch({ attention: [2] }, () => {}), { code: 'BAD_ARGUMENT' });
  assert.throws(() => session.watch({ lens: true }, () => {}), { code: 'UNSUPPORTED' });
  await session.dispose();
  assert.throws(() => session.watch({}, () => {}), { code: 'DISPOSED' });
  await assert.rejects(session.feed([1]), { code: 'DISPOSED' });
  await session.dispose();
});

test('dispose rejects what is under way and what comes later; twice is no error', async () => {
  const other = await load(path);
  const running = other.generate(tokens, { ...greedy, maxTokens: 400 });
  const pending = assert.rejects(other.session(), { code: 'DISPOSED' });
  await other.dispose();
  await other.dispose();
  await assert.rejects(async () => running, { code: 'DISPOSED' });
  await pending;
  await assert.rejects(other.tokenize('x'), { code: 'DISPOSED' });
  await assert.rejects(async () => other.generate('x'), { code: 'DISPOSED' });
});

test('a worker that dies rejects what is pending with WORKER_LOST, and load works again', async () => {
  const other = await load(path);
  const running = other.generate(tokens, { ...greedy, maxTokens: 400 });
  const iterating = chunksOf(running);
  Model.engineOf(other).link.worker.terminate();
  await assert.rejects(iterating, { code: 'WORKER_LOST' });
  await assert.rejects(async () => running, { code: 'WORKER_LOST' });
  await assert.rejects(other.memory(), { code: 'WORKER_LOST' });
  await (await load(path)).dispose();
});

test('a program that forgets dispose ends when its work is done', () => {
  const script = `import { load } from ${JSON.stringify(new URL('../../web/src/index.js', import.meta.url).href)};
    const model = await load(${JSON.stringify(path)}, { threads: 2 });
    const { tokens } = await model.generate([1, 2, 3], { maxTokens: 3, temperature: 0, ignoreEos: true });
    console.log(tokens.length);`;
  const { stdout, status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    timeout: 120000,
  });
  assert.deepEqual([stdout.trim(), status], ['3', 0]);
});

test('a program that never reads its generation ends when that is done', () => {
  const script = `import { load } from ${JSON.stringify(new URL('../../web/src/index.js', import.meta.url).href)};
    const model = await load(${JSON.stringify(path)}, { threads: 2 });
    model.generate([1, 2, 3], { maxTokens: 60, temperature: 0, ignoreEos: true });`;
  const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 20000 });
  assert.equal(status, 0);
});

test('options of load that are of the wrong kind are refused by name, and leave nothing behind', async (t) => {
  const wrong = {
    signal: [{}, 'now', null],
    onProgress: ['yes', {}, null],
    context: [0, 1.5, 2 ** 31, 2 ** 32 + 8, '512'],
    threads: [0, 1.5, 2 ** 32 + 1],
    assets: ['http://['],
    headers: [5, { 'a b': 'c' }],
    template: [5],
    maxMemory: ['5', NaN],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      await t.test(`${name}: ${JSON.stringify(value)}`, async () => {
        await assert.rejects(
          load(path, { [name]: value }),
          (e) => e instanceof HeadlightError && e.code === 'BAD_ARGUMENT' && e.message.includes(name),
        );
      });
    }
  }
});

test('what onProgress throws rejects the load', async () => {
  const error = new Error('no more');
  const onProgress = () => {
    throw error;
  };
  await assert.rejects(load(path, { onProgress }), (e) => e === error);
});

test('sampling options out of range are refused by name', async (t) => {
  const wrong = {
    logitBias: [
      [1],
      'x',
      new Map(),
      { 1.5: 1 },
      { '-1': 1 },
      { 99999: 1 },
      { 1: NaN },
      { 1: Infinity },
      { 1: '2' },
    ],
    topK: [1.5, 2 ** 32, -2],
    repeatLastN: [1.5, 2 ** 32 + 4, -2],
    seed: [1.5, -1, 2 ** 32],
    minP: [-1, NaN],
    topP: [1.5, -1],
    typicalP: [1.5, -1],
    temperature: [-1, Infinity],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      await t.test(`${name}: ${JSON.stringify(value)}`, async () => {
        await assert.rejects(
          async () => await model.generate(tokens, { maxTokens: 1, [name]: value }),
          (e) => e.code === 'BAD_ARGUMENT' && e.message.includes(name),
        );
      });
    }
  }
  await model.generate(tokens, { maxTokens: 1, logitBias: { 1: -Infinity, 2: 3 } });
});

test('a message of private characters is rendered in no time', async () => {
  const all = Array.from({ length: 65000 }, (_, i) => String.fromCodePoint(0xf0000 + i)).join('');
  const begun = performance.now();
  const text = await model.render([{ role: 'user', content: all }]);
  assert.ok(text.includes(all));
  assert.ok(performance.now() - begun < 3000);
});
