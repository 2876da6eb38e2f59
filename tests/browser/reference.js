// What the command line says of the same conversation: the page must show the same numbers.
import assert from 'node:assert/strict';
import { weight } from '../../demo/src/format.js';
import { cli } from '../node/helpers.js';

/**
 * @param {string[]} args @param {unknown} input
 * @returns {Promise<any>} the one line of its answer
 */
async function ask(args, input) {
  const { code, stderr, lines } = await cli(args, { input: [input] });
  assert.equal(code, 0, stderr);
  assert.equal(lines[0].error, undefined, JSON.stringify(lines[0].error));
  return lines[0];
}

/**
 * Tokens that a conversation holds after an answer without chance.
 * @param {string} model path
 * @param {{ role: string, content: string }[]} messages
 * @param {number} positions prompt and answer together
 * @returns {Promise<{ tokens: number[], promptLength: number }>}
 */
export async function conversationTokens(model, messages, positions) {
  const { text } = await ask(['template', model, '--json'], { messages, add_generation_prompt: true });
  const { ids } = await ask(['tokenize', model, '--json'], { text, special: true });
  assert.ok(
    positions >= ids.length,
    `the page evaluated ${positions} positions, the prompt alone has ${ids.length}`,
  );
  const { greedy } = await ask(['eval', model, '--json', '--kv', 'f16'], {
    tokens: ids,
    greedy: positions - ids.length,
  });
  return { tokens: [...ids, ...(greedy ?? [])], promptLength: ids.length };
}

/**
 * @param {string} model path
 * @param {number[]} tokens
 * @param {number[]} layers
 * @returns {Promise<Record<string, number[][][]>>} by layer [head][row][col]
 */
export async function evalAttention(model, tokens, layers) {
  const { attention } = await ask(['eval', model, '--json', '--kv', 'f16'], { tokens, attention: layers });
  return attention;
}

/** A weight as the page writes it. @param {number} value */
export const shown = (value) => weight(Math.fround(value));

/** @param {string} model path @param {number[]} ids */
export async function textOf(model, ids) {
  return (await ask(['detokenize', model, '--json'], { ids })).text;
}
