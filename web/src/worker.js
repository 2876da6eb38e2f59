import { buildId } from '../dist/build-id.js';
import { Chat, RAW_PROMPT } from './chat.js';
import { isNode, nodeModule } from './env.js';
import { abortError, HeadlightError, toPlain } from './errors.js';
import { Answer } from './generate.js';
import { openCore } from './instance.js';
import { contextOf, loadInto, planMemory } from './loader.js';
import { WorkerSession } from './sessions.js';
import { Pump } from './source.js';
import { openSources } from './split.js';
import { BOS, KV_TYPES, SPECIAL } from './wasm.js';
import { describeModel } from './describe.js';

/**
 * The worker's half: one wasm instance, its model and sessions. Requests come as { id, method, args } and are answered
 * with { id, result } or { id, error }, and in between with { id, event }. A request is stopped by { id, abort }.
 * Events wait when the page has not said { id, credit } for WINDOW of them: a slow reader slows the engine.
 */
const WINDOW = 16;
/** How long, in ms, a reader may take nothing before calls that wait for its generation are refused. */
const STALL_MS = 1000;

/** @type {{ postMessage: (message: any, transfer?: any[]) => void }} */
const port = isNode
  ? /** @type {any} */ (nodeModule('worker_threads').parentPort)
  : /** @type {any} */ (globalThis);

/** @type {import('./wasm.js').Core | undefined} */
let core;
/** @type {Chat | undefined} */
let chat;
/** What sessions get when they ask for nothing. */
let defaults = {
  context: 0,
  kv: /** @type {import('./types.js').KvType} */ ('f16'),
  overflow: /** @type {import('./types.js').Overflow} */ ('stop'),
};
/** @type {Map<number, WorkerSession>} */
const sessions = new Map();
let lastSession = 0;

/** A request that is being worked on. */
class Request {
  /**
   * @param {number} id
   * @param {string} method
   * @param {number | undefined} session
   */
  constructor(id, method, session) {
    this.id = id;
    this.method = method;
    this.session = session;
    this.controller = new AbortController();
    this.credit = WINDOW;
    /** @type {(() => void)[]} */
    this.waiting = [];
    this.pump = new Pump((part) => this.post('pull', part));
  }

  get signal() {
    return this.controller.signal;
  }

  /**
   * @param {string} event
   * @param {unknown} data
   * @param {any[]} [transfer]
   */
  post(event, data, transfer) {
    port.postMessage({ id: this.id, event, data }, transfer);
  }

  /**
   * Posts, and waits while too many are not taken yet.
   * @param {string} event
   * @param {unknown} data
   * @param {any[]} [transfer]
   * @param {() => void} [stalled] called every STALL_MS of waiting
   */
  async say(event, data, transfer, stalled) {
    this.credit--;
    this.post(event, data, transfer);
    if (this.credit > 0 || this.signal.aborted) return;
    const timer = stalled && setInterval(stalled, STALL_MS);
    while (this.credit <= 0 && !this.signal.aborted) {
      await new Promise((resolve) => this.waiting.push(() => resolve(undefined)));
    }
    clearInterval(timer);
  }

  /** @param {number} n */
  allow(n) {
    this.credit += n;
    this.wake();
  }

  abort() {
    this.controller.abort();
    this.wake();
  }

  wake() {
    for (const go of this.waiting.splice(0)) go();
  }
}

/** @type {Map<number, Request>} */
const requests = new Map();

/** @returns {import('./wasm.js').Core} */
function loaded() {
  if (!core) throw new HeadlightError('BAD_STATE', 'There is no model yet');
  return core;
}

/**
 * @param {number} id
 * @returns {WorkerSession}
 */
function sessionOf(id) {
  const session = sessions.get(id);
  if (!session) throw new HeadlightError('DISPOSED', 'The session was disposed');
  return session;
}

/**
 * @param {WorkerSession} session
 * @returns {number} its id
 */
function enter(session) {
  sessions.set(++lastSession, session);
  return lastSession;
}

/**
 * Finds faults of the caller's template before a model is fetched for it.
 * @param {string} source
 * @throws {HeadlightError} TEMPLATE
 */
async function checkTemplate(source) {
  const { ChatTemplate } = await import('./template.js');
  new ChatTemplate(source, 'from option');
}

/** What can be asked; each gets its arguments and the request. @type {Record<string, (args: any, request: Request) => Promise<any>>} */
const methods = {
  async load({ specs, options }, request) {
    if (options.buildId !== buildId) {
      throw new HeadlightError(
        'BUILD_MISMATCH',
        `The page's JavaScript is of build ${options.buildId}, the worker's of ${buildId}: an old file is cached; reload`,
      );
    }
    const { variant, threads, precision, maxMemory, assets, pretokenizer, kv, context, overflow } = options;
    if (options.template !== undefined) await checkTemplate(options.template);
    const progress = (/** @type {import('./types.js').Progress} */ p) => request.post('progress', p);
    progress({ stage: 'start', loaded: 0, total: undefined, bytesPerSecond: 0, fromStore: false });
    const opening = openCore({ variant, threads, precision, maxMemory, assets, pretokenizer });
    opening.catch(() => {});
    const sources = await openSources(specs, (part) => request.pump.chunks(part));
    const opened = await opening;
    await loadInto(opened, sources, {
      sha256: options.sha256,
      onProgress: progress,
      onHeader: (info, rest) => {
        opened.checkModel();
        planMemory(opened, contextOf(info, context), kv, rest);
      },
    });
    core = opened;
    chat = new Chat(core, options.template);
    defaults = { context: contextOf(core.info(), context), kv, overflow };
    const first = new WorkerSession(core, defaults);
    sessions.set(0, first);
    return describeModel(core, chat, { ...options, context: defaults.context });
  },

  async tokenize({ text, special, bos }) {
    return loaded().tokenize(text, (special ? SPECIAL : 0) | (bos ? BOS : 0));
  },

  async detokenize({ ids, special }) {
    const detokenizer = loaded().detokenizer(special ? SPECIAL : 0);
    try {
      let text = '';
      for (const id of ids) text += detokenizer.push(id);
      return text + detokenizer.flush();
    } finally {
      detokenizer.free();
    }
  },

  async render({ messages, options }) {
    loaded();
    return /** @type {Chat} */ (chat).render(messages, options);
  },

  async memory() {
    return loaded().memoryUse();
  },

  async open({ context = defaults.context, kv = defaults.kv, overflow = defaults.overflow }) {
    if (!KV_TYPES.includes(kv))
      throw new HeadlightError('BAD_ARGUMENT', `kv is "${kv}"; there are f32, f16, q8_0`);
    return enter(new WorkerSession(loaded(), { context, kv, overflow }));
  },

  async close({ session }) {
    const closing = sessions.get(session);
    if (!closing) return;
    for (const r of requests.values()) if (r.method === 'generate' && r.session === session) r.abort();
    await closing.inOrder(async () => {
      sessions.delete(session);
      closing.close();
    });
  },

  async feed({ session, tokens }, request) {
    const s = sessionOf(session);
    return s.inOrder(async () => {
      if (request.signal.aborted) throw abortError('feed');
      if (tokens.length === 0) throw new HeadlightError('BAD_ARGUMENT', 'feed: there are no tokens');
      await s.feed(tokens, request.signal);
      return { logits: s.inner.logits(), length: s.length };
    });
  },

  async rewind({ session, length }, request) {
    const s = sessionOf(session);
    return s.inOrder(async () => s.rewind(length, request.signal));
  },

  async fork({ session }) {
    const s = sessionOf(session);
    return s.inOrder(async () => ({ session: enter(s.fork()), length: s.length }));
  },

  async save({ session }) {
    const s = sessionOf(session);
    return s.inOrder(async () => s.save());
  },

  async restore({ session, saved }) {
    const s = sessionOf(session);
    return s.inOrder(async () => {
      s.restore(saved);
      return s.length;
    });
  },

  async cache({ session }) {
    return sessionOf(session).cache();
  },

  async watch({ session, attention }, request) {
    const s = sessionOf(session);
    await new Promise((resolve) => {
      const tell = (/** @type {import('./types.js').Step} */ step, /** @type {ArrayBuffer[]} */ transfer) =>
        request.say('step', step, transfer);
      const end = s.watch({ layers: attention, tell, closed: () => resolve(undefined) });
      request.signal.addEventListener('abort', () => resolve(end()));
    });
  },

  async generate({ session, prompt, messages, options, aborted }, request) {
    // The message that says so could come after the first token.
    if (aborted) request.abort();
    const s = sessionOf(session);
    return s.inOrder(async () => {
      const { addGenerationPrompt, variables } = options;
      const ids =
        messages !== undefined
          ? await /** @type {Chat} */ (chat).encode(messages, { addGenerationPrompt, variables })
          : typeof prompt === 'string'
            ? loaded().tokenize(prompt, RAW_PROMPT)
            : prompt;
      const say = (/** @type {import('./types.js').Chunk} */ chunk) =>
        request.say('chunk', chunk, undefined, () => s.refuseQueued());
      const answer = new Answer(s, ids, options, request.signal, say, {
        continues: messages === undefined,
        head: messages && (() => /** @type {Chat} */ (chat).head(messages, options, ids)),
      });
      const result = await answer.run();
      return { result, length: s.length };
    });
  },
};

/**
 * @param {number} id
 * @param {string} method
 * @param {any} args
 */
async function serve(id, method, args) {
  const request = new Request(id, method, args?.session);
  requests.set(id, request);
  try {
    const result = await methods[method](args, request);
    // Saved contexts are large: they move instead of being copied.
    port.postMessage({ id, result }, result instanceof Uint8Array ? [result.buffer] : []);
  } catch (error) {
    // A trap leaves the instance in a state that nobody knows: it must not be used again.
    if (error instanceof WebAssembly.RuntimeError) port.postMessage({ fatal: error.message });
    else port.postMessage({ id, error: { ...toPlain(error), length: sessions.get(args?.session)?.length } });
  } finally {
    requests.delete(id);
  }
}

/** @param {any} message from the page */
export function receive(message) {
  const request = requests.get(message.id);
  if (message.method) void serve(message.id, message.method, message.args);
  else if (message.abort) request?.abort();
  else if (message.credit) request?.allow(message.credit);
  else if (message.error) request?.pump.fail(message.error);
  else if ('piece' in message) request?.pump.give(message.piece);
}

if (isNode) nodeModule('worker_threads').parentPort?.on('message', receive);
