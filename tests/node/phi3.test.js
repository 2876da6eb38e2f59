import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from '../../web/src/index.js';
import { fixture } from './helpers.js';

/** Of the tiny vocabulary, </s> is a marker that takes white space with it, <|endoftext|> is one that does not. */
const TEMPLATE =
  "{% for m in messages %}</s>\n{{ m['content'] }}<|endoftext|>\n{% endfor %}{% if add_generation_prompt %}</s>\n{% endif %}";

for (const [name, strips] of [
  ['phi3', true],
  ['llama_mha', false],
]) {
  test(`${name}: a chat has the ids of its text, where markers ${strips ? '' : 'do not '}take white space with them`, async (t) => {
    const model = await load(fixture(name), { variant: 'single', template: TEMPLATE });
    t.after(() => model.dispose());
    const messages = [
      { role: 'user', content: ' hello' },
      { role: 'assistant', content: 'there ' },
      { role: 'user', content: '\n\u00a0 on' },
    ];
    const text = await model.render(messages);
    const { usage } = await model.chat(messages, { maxTokens: 1, temperature: 0 });
    const ids = await model.tokenize(text, { special: true, bos: true });
    assert.equal(usage.promptTokens, ids.length);
    const bare = await model.tokenize('</s>hello', { special: true });
    const spaced = await model.tokenize('</s> \n hello', { special: true });
    assert.equal(bare.length === spaced.length, strips);
  });
}
