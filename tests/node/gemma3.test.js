import { test } from 'node:test';
import { cached } from './helpers.js';
import { bestTokens, BOUNDS, expectNear, expectSameContinuation, reference } from './real-models.js';

const { path, skip } = cached(
  'gemma-3-270m-q4_k_m.gguf',
  'HEADLIGHT_ACCEPT_GEMMA=1 make setup fetches it, which accepts https://ai.google.dev/gemma/terms',
);
const { cases } = reference('gemma3');

for (const precision of /** @type {const} */ (['fast', 'high'])) {
  for (const kv of /** @type {const} */ (['f32', 'f16', 'q8_0'])) {
    // Eight bits of a cache are not nearer than eight bits of activations.
    const bounds = kv === 'q8_0' ? BOUNDS.fast : BOUNDS[precision];
    // The vocabulary is large: other caches are tried on one of the two texts.
    const texts = kv === 'f32' ? cases : cases.slice(0, 1);
    test(
      `Gemma 3 270M, ${precision}, with a cache in ${kv} is as near to transformers as promised`,
      { skip },
      async (t) => {
        expectNear(t, await bestTokens(path, texts, { kv, precision, threads: '2' }), texts, bounds);
      },
    );
  }
}

test(
  'Gemma 3 270M at high precision goes on as transformers does, as far as its choice is clear',
  { skip },
  () => expectSameContinuation(path, cases, 24),
);
