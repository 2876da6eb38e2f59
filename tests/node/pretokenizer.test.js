import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
import { cli, fixture } from './helpers.js';

const whole = readFileSync(fixture('llama_gqa'));
const KEY = 'tokenizer.ggml.pre';

/** The fixture with another name for its pre-tokenizer. @param {string} name */
function renamed(name) {
  const at = whole.indexOf(KEY) + KEY.length + 4;
  const length = Number(whole.readBigUInt64LE(at));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(Buffer.byteLength(name)));
  // The data must begin at a multiple of 32 again: a name as much longer as one of the padding's lengths.
  assert.equal(Buffer.byteLength(name), length);
  return Buffer.concat([whole.subarray(0, at), size, Buffer.from(name), whole.subarray(at + 8 + length)]);
}

const named = whole.toString('utf8', whole.indexOf(KEY) + KEY.length + 12).slice(0, 9);
const unknown = 'x'.repeat(Number(whole.readBigUInt64LE(whole.indexOf(KEY) + KEY.length + 4)));
const own = named.slice(0, unknown.length);
const text = "'the end of 12345 words, isn't it?";

/** @param {any} source @param {object} [options] */
async function idsOf(source, options) {
  const model = await load(source, { threads: 1, ...options });
  try {
    return Array.from(await model.tokenize(text));
  } finally {
    await model.dispose();
  }
}

test('an unknown pre-tokenizer is refused by name, with the option that forces one and what there is', async () => {
  await assert.rejects(load(new Blob([renamed(unknown)])), (e) => {
    assert.equal(e.code, 'UNSUPPORTED');
    assert.ok(e.message.includes(`"${unknown}"`), e.message);
    assert.match(e.message, /option pretokenizer .* gpt-2, smollm, llama-bpe, .*qwen2/);
    return true;
  });
});

test('a pre-tokenizer that is forced cuts as if the file had named it', async () => {
  const expected = await idsOf(fixture('llama_gqa'));
  assert.deepEqual(await idsOf(new Blob([renamed(unknown)]), { pretokenizer: own }), expected);
  assert.notDeepEqual(await idsOf(fixture('llama_gqa'), { pretokenizer: 'deepseek-llm' }), expected);
});

test('a pre-tokenizer that cannot be forced is refused', async () => {
  const code = 'BAD_ARGUMENT';
  await assert.rejects(load(fixture('llama_gqa'), { pretokenizer: 'no such' }), {
    code,
    message: /no pre-tokenizer "no such"; there are gpt-2/,
  });
  await assert.rejects(load(fixture('llama_gqa'), { pretokenizer: /** @type {any} */ (3) }), {
    code,
    message: /pretokenizer must be a string/,
  });
  await assert.rejects(load(fixture('llama_mha'), { pretokenizer: 'qwen2' }), {
    code,
    message: /SentencePiece/,
  });
});

test('the command line forces one with --pretokenizer', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headlight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'renamed.gguf');
  writeFileSync(path, renamed(unknown));
  const expected = await idsOf(fixture('llama_gqa'));
  const args = ['tokenize', path, '--json'];
  const refused = await cli(args, { input: [{ text }] });
  assert.deepEqual([refused.code, refused.stdout], [1, '']);
  assert.match(refused.stderr, /option pretokenizer/);
  const { lines } = await cli([...args, '--pretokenizer', own], { input: [{ text }] });
  assert.deepEqual(lines[0].ids, expected);
});
