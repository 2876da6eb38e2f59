// llama.cpp, native, through node-llama-cpp's prebuilt binary: in Node only.
import { stopwatch } from './types.js';

/** @typedef {import('./types.js').Engine} Engine */

/** @returns {Engine} */
export function create() {
  /** @type {any} */
  let model;
  /** @type {any} */
  let sequence;
  return {
    async open({ model: path, threads, context, settings }) {
      // Installed by the bench alone: no type checker has to know it.
      const { getLlama } = await import(/** @type {string} */ ('node-llama-cpp'));
      const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads, progressLogs: false });
      model = await llama.loadModel({ modelPath: String(path), useMmap: false });
      const opened = await model.createContext({ contextSize: context, threads, ...settings });
      sequence = opened.getSequence();
      return { threads: opened.currentThreads, features: llama.systemInfo };
    },
    tokenize: async (text) => model.tokenize(text, false),
    async run({ ids, tokens, reuse, limitMs }) {
      if (!reuse) await sequence.clearHistory();
      else await sequence.adaptStateToTokens(ids.slice(0, -1), false);
      const evaluated = ids.length - sequence.nextTokenIndex;
      const made = [];
      const watch = stopwatch(limitMs);
      const stream = sequence.evaluate(ids.slice(-evaluated), { temperature: 0, yieldEogToken: true });
      for await (const token of stream) {
        made.push(Number(token));
        if (!watch.tick() || made.length === tokens) break;
      }
      return watch.timing(evaluated, made);
    },
    async close() {
      await model.dispose();
    },
  };
}
