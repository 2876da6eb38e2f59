// wllama 2.3.1 by its low-level calls, which are what its own completion loop makes.
import { Wllama, LoggerWithoutDebug } from 'wllama-2/esm/index.js';
import { commonPrefix, stopwatch } from './types.js';

/** @typedef {import('./types.js').Engine} Engine */

const logger = { ...LoggerWithoutDebug, log() {}, warn() {} };

/** @returns {Engine} */
export function create() {
  /** @type {any} */
  let wllama;
  /** @type {number[]} */
  let cached = [];
  return {
    async open({ model, threads, context, settings }) {
      const at = '/node_modules/wllama-2/esm';
      wllama = new Wllama(
        {
          'single-thread/wllama.wasm': `${at}/single-thread/wllama.wasm`,
          'multi-thread/wllama.wasm': `${at}/multi-thread/wllama.wasm`,
        },
        { logger, suppressNativeLog: true },
      );
      const blob = typeof model === 'string' ? await (await fetch(model)).blob() : model;
      await wllama.loadModel([blob], {
        n_threads: threads,
        n_ctx: context,
        cache_type_k: 'f16',
        cache_type_v: 'f16',
        ...settings,
      });
      const { n_batch, n_ubatch } = wllama.getLoadedContextInfo();
      return { threads: wllama.getNumThreads(), n_batch, n_ubatch };
    },
    tokenize: (text) => wllama.tokenize(text, false),
    async run({ ids, tokens, reuse, limitMs }) {
      const keep = reuse ? Math.min(commonPrefix(cached, ids), ids.length - 1) : 0;
      if (keep === 0) await wllama.kvClear();
      else if (keep < cached.length) await wllama.kvRemove(keep, cached.length - keep);
      await wllama.samplingInit({ temp: 0, top_k: 1, penalty_repeat: 1 });
      const watch = stopwatch(limitMs);
      await wllama.decode(ids.slice(keep), {});
      const made = [];
      for (;;) {
        const { token } = await wllama.samplingSample();
        made.push(token);
        if (!watch.tick() || made.length === tokens) break;
        await wllama.samplingAccept([token]);
        await wllama.decode([token], {});
      }
      cached = [...ids, ...made.slice(0, -1)];
      return watch.timing(ids.length - keep, made);
    },
    close: () => wllama.exit(),
  };
}
