// Headlight through its public API, in a page and in Node.
import { buildId, load } from 'headlight-wasm';
import { stopwatch } from './types.js';

/** @typedef {import('./types.js').Engine} Engine */

/** @returns {Engine} */
export function create() {
  /** @type {import('headlight-wasm').Model} */
  let model;
  /** @type {import('headlight-wasm').Session} */
  let session;
  /** @type {(() => void) | undefined} */
  let unwatch;
  return {
    async open({ model: source, threads, context, settings, sha256 }) {
      model = await load(source, { threads, context, sha256, ...settings });
      const loaded = await model.memory();
      session = await model.session();
      const { variant, precision, kv, fileBytes, packedBytes } = model.info;
      return { threads: model.info.threads, variant, precision, kv, fileBytes, packedBytes, loaded, buildId };
    },
    tokenize: async (text) => [...(await model.tokenize(text))],
    async run({ ids, tokens, reuse, limitMs }) {
      if (!reuse) await session.rewind(0);
      const watch = stopwatch(limitMs);
      const generation = model.generate(ids, {
        session,
        maxTokens: tokens,
        temperature: 0,
        ignoreEos: true,
      });
      const made = [];
      for await (const { token } of generation) {
        made.push(token);
        if (!watch.tick() || made.length === tokens) break;
      }
      const { usage } = await generation;
      return watch.timing(usage.promptTokens - usage.cachedTokens, made);
    },
    memory: async () => ({ ...(await model.memory()) }),
    async watch(layer) {
      unwatch?.();
      unwatch = layer === null ? undefined : session.watch({ attention: [layer] }, () => {});
    },
    close: () => model.dispose(),
  };
}
