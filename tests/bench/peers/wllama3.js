// wllama 3.13.0 through its completion stream, the only way in that it has.
import { Wllama, LoggerWithoutDebug } from '@wllama/wllama';
import { stopwatch } from './types.js';

/** @typedef {import('./types.js').Engine} Engine */

const logger = { ...LoggerWithoutDebug, log() {}, warn() {} };

/** @returns {Engine} */
export function create() {
  /** @type {any} */
  let wllama;
  return {
    async open({ model, threads, context, settings }) {
      wllama = new Wllama(
        { default: '/node_modules/@wllama/wllama/esm/wasm/wllama.wasm' },
        { logger, suppressNativeLog: true },
      );
      const blob = typeof model === 'string' ? await (await fetch(model)).blob() : model;
      await wllama.loadModel([blob], {
        n_threads: threads,
        n_ctx: context,
        n_parallel: 1,
        n_gpu_layers: 0,
        cache_type_k: 'f16',
        cache_type_v: 'f16',
        ...settings,
      });
      const { n_batch, n_ubatch } = wllama.getLoadedContextInfo();
      return { threads: wllama.getNumThreads(), n_batch, n_ubatch };
    },
    async run({ text, tokens, reuse, limitMs }) {
      const abort = new AbortController();
      const watch = stopwatch(limitMs);
      let made = 0;
      /** @type {any} */
      let timings;
      try {
        await wllama.createCompletion({
          prompt: text,
          max_tokens: tokens,
          temperature: 0,
          top_k: 1,
          samplers: ['top_k'],
          ignore_eos: true,
          cache_prompt: Boolean(reuse),
          timings_per_token: true,
          stream: true,
          abortSignal: abort.signal,
          onData(/** @type {any} */ chunk) {
            if (chunk.timings) timings = chunk.timings;
            if (made === timings.predicted_n || abort.signal.aborted) return;
            made = timings.predicted_n;
            if (!watch.tick()) abort.abort();
          },
        });
      } catch (error) {
        if (!abort.signal.aborted) throw error;
      }
      return watch.timing(timings.prompt_n, undefined, made);
    },
    close: () => wllama.exit(),
  };
}
