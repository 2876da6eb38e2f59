import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { knownName } from '../../web/src/cli/models.js';
import { progressBar } from '../../web/src/cli/progress.js';
import { cli, fixture, golden, inProject } from './helpers.js';

const model = fixture('llama_gqa');

/** One line, no stack. @param {string} stderr @param {RegExp} what */
function oneLine(stderr, what) {
  assert.match(stderr, what);
  assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
  assert.doesNotMatch(stderr, /\n\s+at /);
}

const WRONG = [
  [[], /which command/],
  [['dance'], /no command "dance"/],
  [['eval'], /needs a MODEL/],
  [['eval', model, model, '--json'], /one MODEL/],
  [['eval', model], /--json/],
  [['eval', model, '--json', '--speed'], /unknown option --speed; there are --json/],
  [['eval', model, '--json', '--threads'], /--threads needs a value/],
  [['eval', model, '--json', '--threads', 'many'], /--threads needs a number/],
  [['eval', model, '--json', '--chunk', '0'], /--chunk is at least 1/],
  [['eval', model, '--json', '--chunk', '65'], /--chunk is at most 64/],
  [['eval', model, '--json', '--ctx', '0'], /--ctx is at least 1/],
  [['eval', model, '--json', '--ctx', '4294967304'], /--ctx is at most 2147483647/],
  [['eval', model, '--json', '--kv', 'q4'], /--kv is one of f32, f16, q8_0/],
  [['eval', model, '--json', '--mla', 'absorbed'], /not MLA/],
  [['chat', model, '--overflow', 'glide'], /--overflow is one of stop, slide, error, not "glide"/],
  [['chat', model, '--kv', 'q4'], /--kv is one of f32, f16, q8_0/],
  [['chat', model, '--ctx', '0'], /--ctx is at least 1/],
  [['inspect', model, '--ctx', '0'], /--ctx is at least 1/],
  [['sample', model, '--json'], /no MODEL/],
  [['help', 'nosuch'], /no command "nosuch"; there are chat, eval, .*inspect/],
];
for (const [args, what] of WRONG) {
  test(`headlight ${args.map((a) => a.replace(/.*\//, '')).join(' ')}: exit code 2 and one line`, async () => {
    const { code, stderr, stdout } = await cli(args);
    assert.equal(code, 2);
    assert.equal(stdout, '');
    oneLine(stderr, what);
  });
}

test('bad models: exit code 1 and one line that says what to do', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headlight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const whole = readFileSync(model);
  const files = {
    'page.gguf': ['<!DOCTYPE html><html><body>Not found</body></html>', /HTML/i],
    'empty.gguf': ['', /./],
    'half.gguf': [whole.subarray(0, whole.length / 2), /./],
    'noise.gguf': [Buffer.alloc(100, 7), /./],
  };
  for (const [name, [bytes, what]] of Object.entries(files)) {
    writeFileSync(join(folder, name), bytes);
    const { code, stderr } = await cli(['eval', join(folder, name), '--json'], { input: '{}\n' });
    assert.equal(code, 1, name);
    oneLine(stderr, what);
  }
  const missing = await cli(['chat', join(folder, 'missing.gguf'), '--prompt', 'x']);
  assert.equal(missing.code, 1);
  oneLine(missing.stderr, /no such file/);
  const vocabulary = await cli(['eval', inProject('tests/cases/gguf/n_tensors_zero.gguf'), '--json'], {
    input: '{}\n',
  });
  assert.equal(vocabulary.code, 1);
  oneLine(vocabulary.stderr, /./);
});

test('a file whose name has a colon is a file, and a pipe is refused instead of waited for', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headlight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'c:d.gguf'), readFileSync(model));
  writeFileSync(join(folder, 'model:7b.gguf'), readFileSync(model));
  const cwd = process.cwd();
  t.after(() => process.chdir(cwd));
  process.chdir(folder);
  for (const name of ['model:7b.gguf', 'c:d.gguf']) {
    const { code, stderr } = await cli(['inspect', name, '--check']);
    assert.equal(code, 0, stderr);
  }
  spawnSync('mkfifo', ['pipe.gguf']);
  for (const args of [
    ['inspect', 'pipe.gguf'],
    ['chat', 'pipe.gguf', '--prompt', 'x'],
  ]) {
    const { code, stderr } = await cli(args);
    assert.equal(code, 1);
    oneLine(stderr, /pipe\.gguf: is no file but a pipe/);
  }
});

test('errors of a template file name the file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headlight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'broken.jinja');
  writeFileSync(path, '{% for %}');
  for (const args of [
    ['chat', model, '--prompt', 'x'],
    ['template', '--json'],
  ]) {
    const { code, stderr } = await cli([...args, '--template', path]);
    assert.equal(code, 1);
    oneLine(stderr, /broken\.jinja/);
    const missing = await cli([...args, '--template', `${path}.not`]);
    assert.equal(missing.code, 1);
    oneLine(missing.stderr, /broken\.jinja\.not: the template cannot be read/);
  }
});

test('tokenize and detokenize refuse fields that they do not know, and flags that are none', async () => {
  const tokenized = await cli(['tokenize', model, '--json'], {
    input: [
      { text: 'x', specials: true },
      { text: 'x', special: 'no' },
      { text: 'x', bos: 1 },
      { text: 'x', special: false },
    ],
  });
  assert.deepEqual(
    tokenized.lines.map((line) => line.error?.message ?? line.ids.length > 0),
    [
      'tokenize: unknown "specials"; there are text, special, bos',
      'special is true or false, not "no"',
      'bos is true or false, not 1',
      true,
    ],
  );
  const { lines } = await cli(['detokenize', model, '--json'], {
    input: [{ ids: [5], bos: true }, { ids: [5] }],
  });
  assert.equal(lines[0].error.message, 'detokenize: unknown "bos"; there are ids, special');
  assert.equal(typeof lines[1].text, 'string');
});

test('eval refuses tokens and text together, and flags and lists that are none', async () => {
  const { lines } = await cli(['eval', model, '--json'], {
    input: [
      { tokens: [1], text: 'x' },
      { tokens: [1] },
      { tokens: [1], logits: 1 },
      { tokens: [1], hidden: 'yes' },
      { tokens: [1], attention: null },
    ],
  });
  assert.deepEqual(
    lines.slice(2).map(({ error }) => error.message),
    [
      'logits is true or false, not 1',
      'hidden is true or false, not "yes"',
      'attention must be a list of whole numbers',
    ],
  );
  assert.equal(lines[0].error.code, 'BAD_ARGUMENT');
  assert.match(lines[0].error.message, /"tokens" and "text" are both given/);
  assert.deepEqual(lines[1].tokens, [1]);
});

test('sample refuses fields that it does not know, by name', async () => {
  const { lines } = await cli(['sample', '--json'], {
    input: [
      { logits: [1, 2], temperature: 0 },
      { logits: [1, 2], params: { temperature: 0 } },
    ],
  });
  assert.equal(lines[0].error.code, 'BAD_ARGUMENT');
  assert.match(lines[0].error.message, /"temperature"; there are logits, params, history, draws/);
  assert.deepEqual(lines[1].probs, [0, 1]);
});

test('a bar tells fetching from reading, and quick files need none', async (t) => {
  /** @type {string[]} */
  const shown = [];
  const terminal = { isTTY: true, write: (/** @type {string} */ text) => shown.push(text) };
  t.mock.method(performance, 'now', () => time);
  let time = 0;
  const progress = { stage: 'load', loaded: 5e6, total: 1e7, bytesPerSecond: 1e6, fromStore: false };
  const local = progressBar('model.gguf', terminal);
  local(progress);
  assert.deepEqual(shown, []);
  time = 2000;
  local(progress);
  assert.match(shown[0], /^\rreading \[#{15}\.{15}\] 5 of 10 MB/);
  progressBar('https://host/model.gguf', terminal)(progress);
  assert.match(shown[1], /^\rfetching /);
});

test('files of the manifest are called as it calls them', () => {
  assert.equal(knownName('/x/SmolLM2-135M-Instruct.Q4_1.gguf'), 'SmolLM2 135M Instruct');
  assert.equal(knownName('/x/other.gguf'), undefined);
});

test('--version says which version and build', async () => {
  const { code, stdout } = await cli(['--version']);
  assert.equal(code, 0);
  assert.match(stdout, /^headlight \d+\.\d+\.\d+, build \w+\n$/);
});

test('chat says when a full context cuts an answer off, and goes on where it may slide', async () => {
  const args = ['chat', model, '--prompt', 'hello', '--ctx', '40', '--temperature', '0'];
  const full = await cli(args);
  assert.equal(full.code, 0);
  assert.match(
    full.stderr,
    /\nThe answer is cut off: the context of 40 positions is full\. .*--ctx N .*--overflow slide/,
  );
  // The prompt has 20 tokens. An answer that ends because it was asked to is not cut off.
  const quiet = /^The file has no chat template[^\n]*\n$/;
  const asked = await cli([...args, '--max-tokens', '5']);
  assert.match(asked.stderr, quiet);
  const slid = await cli([...args, '--overflow', 'slide', '--max-tokens', '60']);
  assert.match(slid.stderr, quiet);
  assert.ok(slid.stdout.startsWith(full.stdout.trimEnd()) && slid.stdout.length > full.stdout.length + 20);
  const refused = await cli([...args, '--overflow', 'error']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /\nheadlight: The context of 40 positions is full after/);
  assert.ok(refused.stdout.endsWith('\n'));
});

test('chat with lines from a pipe ends each answer with a line, and with code 1 when one failed', async () => {
  const args = ['chat', model, '--ctx', '40', '--temperature', '0', '--overflow'];
  const failing = await cli([...args, 'error'], { input: 'hello\nhello\n' });
  assert.equal(failing.code, 1);
  assert.ok(failing.stdout.endsWith('\n'));
  const stopping = await cli([...args, 'stop'], { input: 'hello\n' });
  assert.equal(stopping.code, 0);
});

test('help names every option that a command takes', async () => {
  for (const name of ['chat', 'eval', 'tokenize', 'detokenize', 'template', 'sample', 'inspect']) {
    const { stdout } = await cli(['help', name]);
    const { code, stderr } = await cli([name, '--no-such-option']);
    assert.equal(code, 2);
    const options = /there are (.*?);/.exec(stderr)?.[1].split(' ') ?? [];
    assert.ok(options.length > 0, stderr);
    for (const option of options)
      assert.ok(stdout.includes(option), `help ${name} does not tell of ${option}`);
  }
});

test('help documents every command', async () => {
  const { code, stdout } = await cli(['help']);
  assert.equal(code, 0);
  for (const name of ['chat', 'eval', 'tokenize', 'detokenize', 'template', 'sample', 'inspect']) {
    assert.match(stdout, new RegExp(`headlight ${name} `));
    for (const args of [
      ['help', name],
      [name, '--help'],
      [name, '-h'],
    ]) {
      assert.match((await cli(args)).stdout, new RegExp(`^headlight ${name} `));
    }
  }
});

test('eval answers line by line, in order, and goes on after a line that fails', async () => {
  const { tokens } = golden('llama_gqa');
  const { code, lines } = await cli(['eval', model, '--json', '--ctx', '30'], {
    input: [
      { tokens, top: 3 },
      { tokens: [] },
      { tokens: [99999] },
      { tokens: 'x' },
      { tokens: [1.5] },
      { tokens, attention: [7] },
      { tokens, wanted: 1 },
      { tokens: Array(31).fill(5) },
      { tokens, top: 3 },
      { text: 'hello', top: 1 },
      { tokens, positions: 'all', top: 2 },
    ],
  });
  assert.equal(code, 0);
  assert.deepEqual(
    lines.map((l) => l.error?.code ?? 'ok'),
    ['ok', ...Array(6).fill('BAD_ARGUMENT'), 'CONTEXT_FULL', 'ok', 'ok', 'ok'],
  );
  assert.deepEqual(lines[0], lines[8]);
  assert.equal(lines[0].top.length, 3);
  assert.equal(lines[10].top.length, tokens.length);
  assert.ok(lines[10].top.every((best) => best.length === 2));
});

test('eval: a broken line of JSON is answered too, and an empty one', async () => {
  const { lines } = await cli(['eval', model, '--json'], {
    input: '{"tokens":\n[1]\n{"tokens":[1],"greedy":2}\n\n',
  });
  assert.equal(lines.length, 4);
  assert.equal(lines[3].error.code, 'BAD_ARGUMENT');
  assert.equal(lines[0].error.code, 'BAD_ARGUMENT');
  assert.equal(lines[1].error.code, 'BAD_ARGUMENT');
  assert.equal(lines[2].greedy.length, 2);
});

test('eval prints floats that give the same bits back', async () => {
  const { tokens } = golden('llama_gqa');
  const args = ['eval', model, '--json', '--kv', 'f32'];
  const { lines } = await cli(args, { input: [{ tokens, logits: true }] });
  assert.ok(lines[0].logits.every((x) => String(x).length < 18));
  // Log-probabilities are made from the very floats: what was printed must give them.
  const [{ top }] = (await cli(args, { input: [{ tokens, top: 1 }] })).lines;
  assert.equal(top[0][0], lines[0].logits.indexOf(Math.max(...lines[0].logits)));
});

test('tokenize and detokenize give texts back, and read markers only when asked', async () => {
  const texts = ['Hello world', ' two  spaces', 'ünïcödé 🤗', '', '\n\n'];
  const ids = (await cli(['tokenize', model, '--json'], { input: texts.map((text) => ({ text })) })).lines;
  const back = await cli(['detokenize', model, '--json'], { input: ids });
  assert.deepEqual(
    back.lines.map((l) => l.text),
    texts,
  );
  const { lines } = await cli(['tokenize', model, '--json'], {
    input: [{ ids: 1 }, { text: 'x', bos: true }],
  });
  assert.equal(lines[0].error.code, 'BAD_ARGUMENT');
  assert.ok(lines[1].ids.length >= 1);
});

test('template takes a file, and the variables from each line', async () => {
  const { lines } = await cli(
    ['template', '--template', inProject('tests/cases/templates/gemma2.jinja'), '--json'],
    {
      input: [
        { messages: [{ role: 'user', content: 'Hi' }], bos_token: '<bos>', add_generation_prompt: true },
        { messages: [{ role: 'system', content: 's' }], bos_token: '<bos>' },
      ],
    },
  );
  assert.equal(lines[0].text, '<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n');
  assert.equal(lines[1].error.code, 'TEMPLATE');
  assert.match(lines[1].error.message, /System role not supported/);
});

test('inspect reads a header, and --check says why a file cannot be run', async () => {
  const { code, lines } = await cli(['inspect', model, '--json', '--check']);
  assert.equal(code, 0);
  const [all] = lines;
  assert.equal(all.kind, 'GQA');
  assert.deepEqual([all.hyperparameters.n_head, all.hyperparameters.n_head_kv], [8, 2]);
  assert.equal(all.cache_bytes_per_token.f16, 2 * 2 * 16 * 2 * all.hyperparameters.n_layer);
  assert.ok(all.tensors.some((x) => x.name === 'token_embd.weight'));
  assert.equal(all.metadata['general.architecture'], 'llama');
  assert.equal(all.quantization, 'F32');
  const text = await cli(['inspect', model]);
  assert.match(text.stdout, /^architecture {2}llama, GQA\n/);
  const bad = await cli(['inspect', inProject('tests/cases/gguf/missing_norm.gguf'), '--check']);
  assert.equal(bad.code, 1);
  oneLine(bad.stderr, /norm/);
});

test('inspect --check refuses a file that ends inside its weights, and says where', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headlight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const whole = readFileSync(model);
  const { tensors } = (await cli(['inspect', model, '--json'])).lines[0];
  // The last tensor is gone, and the one before it ends early.
  const [before, last] = tensors.slice(-2);
  const size = whole.length - last.bytes - 100;
  writeFileSync(join(folder, 'cut.gguf'), whole.subarray(0, size));
  const { code, stderr } = await cli(['inspect', join(folder, 'cut.gguf'), '--check']);
  assert.equal(code, 1);
  oneLine(stderr, /cut\.gguf: the file is cut short/);
  const start = size - before.bytes + 100;
  const facts = `it has ${size} bytes, and tensor '${before.name}' takes ${before.bytes} from byte ${start} on`;
  assert.ok(stderr.includes(facts), stderr);
  assert.match(stderr, new RegExp(`of which ${before.bytes - 100} are there: download it again\n$`));
  assert.equal((await cli(['inspect', join(folder, 'cut.gguf')])).code, 0);
});

/** @param {string} name @param {string[]} args @returns {Promise<any>} what inspect says of the cache */
async function cacheOf(name, ...args) {
  const { lines, stderr } = await cli(['inspect', fixture(name), '--json', ...args]);
  assert.equal(lines.length, 1, stderr);
  return lines[0];
}

test('inspect tells what the cache takes: a token, at the context, in each type, beside other kinds of attention', async () => {
  // 2 layers, 8 query heads, 2 KV heads of 16, made for 512 positions.
  const gqa = await cacheOf('llama_gqa');
  const bytes = (perToken, n) => ({ bytes_per_token: perToken, bytes: perToken * n });
  assert.deepEqual(gqa.cache_bytes_per_token, { f32: 512, f16: 256, q8_0: null });
  assert.deepEqual(gqa.cache, {
    positions: 512,
    window: 0,
    windowed_layers: 0,
    kinds: [
      { kind: 'GQA 8:2', own: true, f32: bytes(512, 512), f16: bytes(256, 512), q8_0: null },
      { kind: 'MHA 8:8', own: false, f32: bytes(2048, 512), f16: bytes(1024, 512), q8_0: null },
      { kind: 'MQA 8:1', own: false, f32: bytes(256, 512), f16: bytes(128, 512), q8_0: null },
    ],
  });
  // 2 layers, 4 heads with keys of 32 + 16 and values of 32; cached: a latent of 32 and a rope part of 16.
  const mla = await cacheOf('deepseek_v2_q.q8_0', '--ctx', '100');
  assert.deepEqual(mla.cache.kinds, [
    { kind: 'MLA 32 + 16', own: true, f32: bytes(384, 100), f16: bytes(192, 100), q8_0: bytes(132, 100) },
    {
      kind: 'MHA 4:4',
      own: false,
      f32: bytes(2 * 4 * 80 * 4, 100),
      f16: bytes(2 * 4 * 80 * 2, 100),
      q8_0: null,
    },
  ]);
  // 7 layers, 1 KV head of 16; all but the sixth keep 8 positions.
  const { cache } = await cacheOf('gemma3', '--ctx', '200');
  assert.deepEqual([cache.window, cache.windowed_layers], [8, 6]);
  const [own, whole] = cache.kinds;
  assert.deepEqual(own.f16, { bytes_per_token: 7 * 64, bytes: 6 * 8 * 64 + 200 * 64 });
  assert.deepEqual([whole.kind, whole.f16], ['MQA 4:1 without windows', bytes(7 * 64, 200)]);
  const text = await cli(['inspect', fixture('deepseek_v2_q.q8_0'), '--ctx', '100000']);
  assert.match(
    text.stdout,
    /at 100000 positions\n.*\n {2}MLA 32 \+ 16 .* 384 B, 38.4 MB .* 192 B, 19.2 MB .* 132 B, 13.2 MB\n/,
  );
  assert.match((await cli(['inspect', model])).stdout, /q8_0 is refused: it groups 32 values/);
});
