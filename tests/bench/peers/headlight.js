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
  /** @type {number | null} */
  let watched = null;
  const watch = () => {
    unwatch?.();
    unwatch = watched === null ? undefined : session.watch({ attention: [watched] }, () => {});
  };
  /** Rewinding would not do: a session remembers the ends of its turns. */
  const renew = async () => {
    await session.dispose();
    session = await model.session();
    unwatch = undefined;
    watch();
  };
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
      if (!reuse) await renew();
      const clock = stopwatch(limitMs);
      const generation = model.generate(ids, {
        session,
        maxTokens: tokens,
        temperature: 0,
        ignoreEos: true,
      });
      const made = [];
      for await (const { token } of generation) {
        made.push(token);
        if (!clock.tick() || made.length === tokens) break;
      }
      const { usage } = await generation;
      return clock.timing(usage.promptTokens - usage.cachedTokens, made);
    },
    memory: async () => ({ ...(await model.memory()) }),
    async watch(layer) {
      watched = layer;
      watch();
    },
    close: () => model.dispose(),
  };
}
