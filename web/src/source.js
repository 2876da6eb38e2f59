import { isNode, nodeModule } from './env.js';
import { abortError, HeadlightError } from './errors.js';

/**
 * Where weights come from: a size, when it is known, and the bytes in order.
 * @typedef {object} ByteSource
 * @property {string} name for messages
 * @property {number | undefined} size bytes
 * @property {() => AsyncIterable<Uint8Array>} chunks once only; end early by returning from the loop
 */

/**
 * A source in a shape that can be posted to a worker. A pump's bytes follow in messages.
 * @typedef {{ kind: 'url', url: string, headers: [string, string][] } | { kind: 'path', path: string } |
 *   { kind: 'blob', blob: Blob } | { kind: 'pump', name: string, size: number | undefined }} SourceSpec
 */

/** Attempts without a single new byte before a download is given up; waits double from RETRY_MS on. */
const RETRIES = 5;
const RETRY_MS = 250;
const PIECE = 1 << 20;

/**
 * One file that the caller gave, as a spec for the worker, and for bytes or streams the pieces to pump to it.
 * @param {import('./types.js').SingleSource} source
 * @param {HeadersInit} [headers] for URLs
 * @returns {{ spec: SourceSpec, pieces?: AsyncIterable<Uint8Array> }}
 * @throws {HeadlightError} BAD_ARGUMENT, UNSUPPORTED, NOT_FOUND, NETWORK
 */
export function describeSource(source, headers) {
  if (typeof source === 'string' || source instanceof URL) return { spec: describeAddress(source, headers) };
  if (source instanceof Blob) return { spec: { kind: 'blob', blob: source } };
  if (source instanceof Uint8Array) {
    return { spec: { kind: 'pump', name: 'bytes', size: source.byteLength }, pieces: slices(source) };
  }
  if (typeof Response === 'function' && source instanceof Response) return describeResponse(source);
  if (typeof ReadableStream === 'function' && source instanceof ReadableStream) {
    return { spec: { kind: 'pump', name: 'stream', size: undefined }, pieces: readStream(source) };
  }
  throw new HeadlightError(
    'BAD_ARGUMENT',
    'load: the source must be a URL, File, Blob, Response, ReadableStream or Uint8Array' +
      (isNode ? ', or a path' : ''),
  );
}

/**
 * @param {string | URL} source
 * @param {HeadersInit} [headers]
 * @returns {SourceSpec}
 */
function describeAddress(source, headers) {
  const text = String(source);
  const list = /** @type {[string, string][]} */ (
    orRefuse('the headers cannot be sent', () => [...new Headers(headers)])
  );
  if (text === '') throw new HeadlightError('BAD_ARGUMENT', 'load: the source is an empty string');
  if (!isNode) {
    const base = globalThis.document?.baseURI ?? globalThis.location?.href;
    return {
      kind: 'url',
      url: orRefuse(`"${text}" is no URL`, () => new URL(text, base).href),
      headers: list,
    };
  }
  if (/^file:/i.test(text)) {
    const path = orRefuse(`"${text}" is no file here`, () => nodeModule('url').fileURLToPath(text));
    return { kind: 'path', path };
  }
  if (isUrl(text)) {
    return { kind: 'url', url: orRefuse(`"${text}" is no URL`, () => new URL(text).href), headers: list };
  }
  return { kind: 'path', path: nodeModule('path').resolve(text) };
}

/**
 * In Node, where names of files may have colons too: a file that is there is a file.
 * @param {string} text
 */
function isUrl(text) {
  const [, rest] = /^[a-z][a-z0-9+.-]+:(.*)/is.exec(text) ?? [];
  return rest !== undefined && (rest.startsWith('//') || !nodeModule('fs').existsSync(text));
}

/**
 * @template T
 * @param {string} what
 * @param {() => T} make
 * @returns {T}
 * @throws {HeadlightError} BAD_ARGUMENT in place of what make throws
 */
export function orRefuse(what, make) {
  try {
    return make();
  } catch (cause) {
    throw new HeadlightError('BAD_ARGUMENT', `load: ${what}: ${reasonOf(cause)}`, { cause });
  }
}

/** @param {Response} response */
function describeResponse(response) {
  const name = response.url || 'response';
  refuseStatus(response, name);
  if (response.bodyUsed || !response.body) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      'load: the body of the Response was read already, or there is none',
    );
  }
  /** @type {SourceSpec} */
  const spec = { kind: 'pump', name, size: sizeOf(response, 0) };
  return { spec, pieces: readStream(response.body) };
}

/**
 * @param {SourceSpec} spec
 * @param {() => AsyncIterable<Uint8Array>} pumped the pieces of a pump
 * @returns {Promise<ByteSource>}
 * @throws {HeadlightError} NOT_FOUND, NETWORK, BAD_ARGUMENT
 */
export async function openSource(spec, pumped) {
  switch (spec.kind) {
    case 'url':
      return openUrl(spec.url, spec.headers);
    case 'path':
      return openPath(spec.path);
    case 'blob': {
      const blob = spec.blob;
      const name = 'name' in blob ? String(blob.name) : 'blob';
      return { name, size: blob.size, chunks: () => readBlob(blob, name) };
    }
    default:
      return { name: spec.name, size: spec.size, chunks: pumped };
  }
}

/**
 * Views: the pump copies each, since a transfer would take the caller's whole buffer.
 * @param {Uint8Array} bytes
 */
async function* slices(bytes) {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/**
 * No generator: a stream that was never read from must be cancelled too, so that a download behind it ends.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncIterableIterator<Uint8Array>}
 */
function readStream(stream) {
  const reader = orRefuse('the stream cannot be read', () => stream.getReader());
  return {
    async next() {
      const { done, value } = await reader.read();
      if (done) return { done, value: undefined };
      if (value instanceof Uint8Array) return { done: false, value };
      await this.return?.();
      throw new HeadlightError('BAD_ARGUMENT', 'load: the stream must give Uint8Array pieces');
    },
    async return() {
      await reader.cancel().catch(() => {});
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/**
 * Slices, since a stream of a Blob keeps more of it in memory.
 * @param {Blob} blob
 * @param {string} name
 */
async function* readBlob(blob, name) {
  for (let at = 0; at < blob.size; at += PIECE) {
    const piece = blob.slice(at, Math.min(blob.size, at + PIECE));
    try {
      yield new Uint8Array(await piece.arrayBuffer());
    } catch (cause) {
      throw new HeadlightError('NETWORK', `${name}: reading the file failed at byte ${at}; open it again`, {
        cause,
      });
    }
  }
}

/**
 * @param {string} path
 * @returns {Promise<ByteSource>}
 */
async function openPath(path) {
  const fs = nodeModule('fs').promises;
  let file, stat;
  try {
    // Before it is opened: opening a pipe waits until someone writes to it.
    stat = await fs.stat(path);
    if (stat.isFile()) file = await fs.open(path, 'r');
  } catch (cause) {
    const code = /** @type {any} */ (cause).code;
    if (code === 'ENOENT') throw new HeadlightError('NOT_FOUND', `${path}: there is no such file`, { cause });
    throw new HeadlightError('NETWORK', `${path}: cannot be opened (${code})`, { cause });
  }
  if (!file) {
    const what = stat.isDirectory() ? 'a folder' : 'a pipe or device, which cannot be read twice';
    throw new HeadlightError('BAD_ARGUMENT', `${path}: is no file but ${what}: give a .gguf file`);
  }
  const opened = file;
  return { name: path, size: stat.size, chunks: () => readFile(opened, path) };
}

/**
 * @param {import('node:fs/promises').FileHandle} file
 * @param {string} path
 */
async function* readFile(file, path) {
  const buffer = new Uint8Array(PIECE);
  try {
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, PIECE, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } catch (cause) {
    if (cause instanceof HeadlightError) throw cause;
    throw new HeadlightError('NETWORK', `${path}: reading failed (${/** @type {any} */ (cause).code})`, {
      cause,
    });
  } finally {
    await file.close();
  }
}

/**
 * @param {Response} response
 * @param {string} name
 */
function refuseStatus(response, name) {
  if (response.ok) return;
  const said = `${name}: the server answered ${response.status} ${response.statusText}`.trim();
  if (response.status === 404 || response.status === 410) {
    throw new HeadlightError('NOT_FOUND', `${said}: check the address`);
  }
  throw new HeadlightError('NETWORK', said);
}

/**
 * Bytes of the whole file, by the headers of an answer that begins at byte `from`; undefined when they do not say
 * (a compressed transfer tells another number).
 * @param {Response} response
 * @param {number} from
 */
function sizeOf(response, from) {
  if (response.headers.get('content-encoding')) return undefined;
  const whole = /\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
  if (whole) return Number(whole[1]);
  const length = response.headers.get('content-length');
  if (length === null) return undefined;
  return Number(length) + (response.status === 206 ? from : 0);
}

/**
 * A download goes on only with the file that it began with: bytes of two files never meet.
 * @param {Response} first
 * @param {Response} next begins at byte `at`, or at 0
 * @param {number} at
 * @param {string} url
 * @throws {HeadlightError} NETWORK
 */
function refuseOther(first, next, at, url) {
  /** @param {string} why @returns {never} */
  const refuse = (why) => {
    void next.body?.cancel().catch(() => {});
    throw new HeadlightError(
      'NETWORK',
      `${url}: the file changed during the download (${why}); load it again`,
    );
  };
  const [size, nextSize] = [sizeOf(first, 0), sizeOf(next, at)];
  if (next.headers.get('content-encoding')) refuse('it is compressed now');
  if (isPage(next) && !isPage(first)) refuse('the server sends an HTML page now');
  if (size !== undefined && nextSize !== undefined && size !== nextSize) {
    refuse(`it had ${size} bytes, now ${nextSize}`);
  }
  let known = size !== undefined && size === nextSize;
  for (const name of ['etag', 'last-modified']) {
    const [was, is] = [first.headers.get(name), next.headers.get(name)];
    if (was !== null && is !== null && was !== is) refuse(`${name} was ${was}, is ${is}`);
    known ||= was !== null && was === is;
  }
  if (!known) refuse('neither its size nor an etag says that it is the same');
}

/** @param {Response} response */
const isPage = (response) => /^text\/html/i.test(response.headers.get('content-type') ?? '');

/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * A download that goes on where the connection broke.
 * @param {string} url
 * @param {[string, string][]} headers
 * @returns {Promise<ByteSource>}
 */
async function openUrl(url, headers) {
  if (!/^(https?|blob|data):/i.test(url)) {
    throw new HeadlightError('BAD_ARGUMENT', `${url}: only http, https, blob and data URLs can be fetched`);
  }
  const first = await request(url, headers, 0);
  const size = sizeOf(first, 0);
  return { name: url, size, chunks: () => download(url, headers, first, size) };
}

/**
 * @param {string} url
 * @param {[string, string][]} headers
 * @param {Response} first
 * @param {number | undefined} size
 * @returns {AsyncGenerator<Uint8Array>}
 */
async function* download(url, headers, first, size) {
  const resumable = !first.headers.get('content-encoding');
  /** @type {Response | null} */
  let response = first;
  let at = 0;
  for (let failures = 0; ;) {
    const before = at;
    try {
      if (!response) {
        response = await request(url, headers, at);
        refuseOther(first, response, at, url);
      }
      for await (const piece of fromByte(response, at, url)) {
        at += piece.byteLength;
        yield piece;
      }
      if (size === undefined || at >= size) return;
      throw new TypeError(`the connection ended after ${at} of ${size} bytes`);
    } catch (cause) {
      if (cause instanceof HeadlightError) throw cause;
      failures = at > before ? 1 : failures + 1;
      const why = /** @type {Error} */ (cause).message;
      if (!resumable || failures > RETRIES) {
        throw new HeadlightError('NETWORK', `${url}: the download broke at byte ${at}: ${why}`, { cause });
      }
      response = null;
      await wait(RETRY_MS * 2 ** (failures - 1));
    }
  }
}

/**
 * The bytes of an answer from byte `at` of the file on. A server that sent the whole file again is read past them.
 * @param {Response} response
 * @param {number} at
 * @param {string} url
 */
async function* fromByte(response, at, url) {
  let skip = 0;
  if (at > 0 && response.status === 206) {
    const range = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '');
    if (Number(range?.[1] ?? at) !== at) {
      throw new HeadlightError('NETWORK', `${url}: the server sent another range than byte ${at} on`);
    }
  } else {
    skip = at;
  }
  if (!response.body) return;
  for await (const piece of readStream(response.body)) {
    if (skip >= piece.byteLength) {
      skip -= piece.byteLength;
      continue;
    }
    yield skip > 0 ? piece.subarray(skip) : piece;
    skip = 0;
  }
}

/**
 * @param {string} url
 * @param {[string, string][]} headers
 * @param {number} at first byte wanted
 * @returns {Promise<Response>}
 */
async function request(url, headers, at) {
  const all = new Headers(headers);
  if (at > 0) all.set('range', `bytes=${at}-`);
  for (let attempt = 0; ; attempt++) {
    let response;
    try {
      response = await fetch(url, { headers: all });
    } catch (cause) {
      if (at > 0) throw cause;
      throw new HeadlightError('NETWORK', `${url}: cannot be fetched: ${reasonOf(cause)}`, { cause });
    }
    const passing = response.status === 429 || response.status >= 500;
    if (passing && attempt < 2) {
      await response.body?.cancel();
      await wait(RETRY_MS * 2 ** attempt);
      continue;
    }
    refuseStatus(response, url);
    return response;
  }
}

/** @param {unknown} cause */
function reasonOf(cause) {
  const error = /** @type {any} */ (cause);
  const inner = error?.cause?.code ?? error?.cause?.message;
  return inner ? `${error.message} (${inner})` : String(error?.message ?? error);
}

/**
 * Pieces that arrive in messages; asking for one wakes the sender. One is under way at a time.
 */
export class Pump {
  /** @param {(part: number) => void} ask wants the next piece of this part */
  constructor(ask) {
    this.ask = ask;
    /** @type {((piece: Uint8Array | null) => void) | undefined} */
    this.resolve = undefined;
    /** @type {((error: unknown) => void) | undefined} */
    this.reject = undefined;
  }

  /** @param {Uint8Array | null} piece null at the end */
  give(piece) {
    this.resolve?.(piece);
  }

  /** @param {unknown} error */
  fail(error) {
    this.reject?.(error);
  }

  /**
   * @param {number} part of a split model, from 0
   * @returns {AsyncGenerator<Uint8Array>}
   */
  async *chunks(part) {
    for (;;) {
      const piece = await new Promise((resolve, reject) => {
        this.resolve = resolve;
        this.reject = reject;
        this.ask(part);
      });
      if (piece === null) return;
      yield piece;
    }
  }
}

/**
 * @param {AbortSignal | undefined} signal
 * @param {string} what
 * @throws {DOMException} AbortError
 */
export function throwIfAborted(signal, what) {
  if (signal?.aborted) throw abortError(what);
}
