import { isNode, nodeModule } from './env.js';
import { fromPlain, HeadlightError, toPlain } from './errors.js';

/**
 * A request on the page's side.
 * @typedef {object} Pending
 * @property {(result: any) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {((event: string, data: any) => void) | undefined} onEvent
 * @property {boolean} background does not keep the program running
 */

/**
 * @typedef {object} Call
 * @property {number} id
 * @property {Promise<any>} done rejects with the worker's error, DISPOSED or WORKER_LOST
 */

/** @returns {{ post: (message: any, transfer?: any[]) => void, end: () => Promise<unknown>, hold: (busy: boolean) => void, worker: any }} */
function startWorker() {
  if (isNode) {
    const { Worker: NodeWorker } = nodeModule('worker_threads');
    const worker = new NodeWorker(new URL('./worker.js', import.meta.url), {
      // Flags of the program, such as --input-type, are not for this file.
      execArgv: [],
    });
    return {
      worker,
      post: (message, transfer) => worker.postMessage(message, transfer),
      end: () => worker.terminate(),
      // A program ends by itself when nothing is asked of the engine any more.
      hold: (busy) => (busy ? worker.ref() : worker.unref()),
    };
  }
  const worker = new Worker(new URL('./page-worker.js', import.meta.url), {
    type: 'module',
    name: 'headlight',
  });
  return {
    worker,
    post: (message, transfer) => worker.postMessage(message, transfer ?? []),
    end: async () => worker.terminate(),
    hold: () => {},
  };
}

/** The page's half: one worker, requests with ids, and an AbortSignal that really stops the work. */
export class Engine {
  constructor() {
    /** @type {Map<number, Pending>} */
    this.pending = new Map();
    this.lastId = 0;
    /** Why there is no worker any more. @type {HeadlightError | undefined} */
    this.ended = undefined;
    this.link = startWorker();
    const lost = (/** @type {string} */ why) =>
      this.end(
        new HeadlightError(
          'WORKER_LOST',
          `The engine's worker ended unexpectedly (${why}): load the model again`,
        ),
      );
    const { worker } = this.link;
    if (isNode) {
      worker.on('message', (/** @type {any} */ m) => this.receive(m));
      worker.on('error', (/** @type {Error} */ e) => lost(e.message));
      worker.on('exit', (/** @type {number} */ code) => lost(`exit code ${code}`));
      this.link.hold(false);
    } else {
      worker.onmessage = (/** @type {MessageEvent} */ e) => this.receive(e.data);
      worker.onerror = (/** @type {ErrorEvent} */ e) => {
        e.preventDefault();
        lost(e.message || 'its script cannot be loaded');
      };
      worker.onmessageerror = () => lost('a message could not be read');
    }
  }

  /** @param {any} message */
  receive(message) {
    if (message.fatal) {
      this.end(
        new HeadlightError('WORKER_LOST', `The engine failed (${message.fatal}): load the model again`),
      );
      return;
    }
    const pending = this.pending.get(message.id);
    if (!pending) return;
    if (message.event) {
      pending.onEvent?.(message.event, message.data);
      return;
    }
    this.settle(message.id);
    if (message.error)
      pending.reject(Object.assign(fromPlain(message.error), { sessionLength: message.error.length }));
    else pending.resolve(message.result);
  }

  /** @param {number} id */
  settle(id) {
    this.pending.delete(id);
    this.#hold();
  }

  /** A program stays while something is asked of the engine. */
  #hold() {
    this.link.hold([...this.pending.values()].some((p) => !p.background));
  }

  /**
   * @param {string} method of the worker
   * @param {object} args
   * @param {{ onEvent?: (event: string, data: any) => void, signal?: AbortSignal, background?: boolean }} [options]
   *   background: does not keep the program running
   * @returns {Call}
   */
  call(method, args, { onEvent, signal, background } = {}) {
    const id = ++this.lastId;
    const done = new Promise((resolve, reject) => {
      if (this.ended) {
        reject(this.ended);
        return;
      }
      this.pending.set(id, { resolve, reject, onEvent, background: background ?? false });
      this.#hold();
      try {
        this.link.post({ id, method, args });
      } catch (cause) {
        this.settle(id);
        const why = /** @type {Error} */ (cause).message;
        reject(
          new HeadlightError('BAD_ARGUMENT', `${method}: an argument cannot be sent to the worker: ${why}`, {
            cause,
          }),
        );
      }
    });
    if (signal) this.#followSignal(id, signal, done);
    return { id, done };
  }

  /**
   * @param {number} id
   * @param {AbortSignal} signal
   * @param {Promise<any>} done
   */
  #followSignal(id, signal, done) {
    const stop = () => this.abort(id);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop);
    const forget = () => signal.removeEventListener('abort', stop);
    done.then(forget, forget);
  }

  /** @param {number} id of a call */
  abort(id) {
    if (!this.ended) this.link.post({ id, abort: true });
  }

  /**
   * @param {number} id of a call
   * @param {number} n events more may come
   */
  credit(id, n) {
    if (!this.ended) this.link.post({ id, credit: n });
  }

  /**
   * Sends the next piece of a stream that the worker takes in.
   * @param {number} id
   * @param {AsyncIterator<Uint8Array>} pieces
   */
  async pump(id, pieces) {
    try {
      const { done, value } = await pieces.next();
      if (this.ended) return;
      if (done) {
        this.link.post({ id, piece: null });
        return;
      }
      // A copy: the piece may be part of what the caller goes on using, and slice() of a Buffer is a view.
      const own = new Uint8Array(value);
      this.link.post({ id, piece: own }, [own.buffer]);
    } catch (error) {
      const plain =
        error instanceof HeadlightError
          ? error
          : new HeadlightError('NETWORK', `load: the stream broke: ${toPlain(error).message}`);
      if (!this.ended) this.end(plain);
    }
  }

  /**
   * Ends the worker, and with it all memory and threads.
   * @param {HeadlightError | DOMException} reason what pending and later calls reject with
   * @returns {Promise<void>} when it is gone
   */
  async end(reason) {
    if (this.ended) return;
    this.ended = /** @type {HeadlightError} */ (reason);
    const gone = this.link.end();
    const open = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of open) reject(reason);
    await gone;
  }
}
