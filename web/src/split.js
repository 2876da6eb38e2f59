import { isNode, nodeModule } from './env.js';
import { HeadlightError } from './errors.js';
import { describeSource, openSource } from './source.js';

/** Models that are split into several files, as llama-gguf-split names them: NAME-00001-of-00003.gguf. */

/** A URL may have a query behind the name. */
const PART_NAME = /^(.*)-(\d{5})-of-(\d{5})(\.gguf(?:[?#].*)?)$/is;

/**
 * @param {string} name a path or a URL
 * @returns {string[]} names of all parts when this is the first one of several; else the name alone
 */
export function partNames(name) {
  const [, stem, number, count, end] = PART_NAME.exec(name) ?? [];
  if (Number(number) !== 1 || Number(count) < 2) return [name];
  return Array.from(
    { length: Number(count) },
    (_, i) => `${stem}-${String(i + 1).padStart(5, '0')}-of-${count}${end}`,
  );
}

/**
 * @param {import('./source.js').SourceSpec} spec
 * @returns {import('./source.js').SourceSpec[]} of it and of the parts that its name speaks of
 */
function withSisters(spec) {
  if (spec.kind === 'url') return partNames(spec.url).map((url) => ({ ...spec, url }));
  if (spec.kind === 'path') return partNames(spec.path).map((path) => ({ ...spec, path }));
  return [spec];
}

/**
 * What the caller gave, file by file: a list is a split model's parts; a path or URL of a first part stands for all.
 * @param {import('./types.js').Source} source
 * @param {HeadersInit} [headers] for URLs
 * @returns {{ specs: import('./source.js').SourceSpec[], pieces: (AsyncIterable<Uint8Array> | undefined)[] }} pieces: of
 *   those files whose bytes are pumped
 * @throws {HeadlightError} BAD_ARGUMENT, UNSUPPORTED, NOT_FOUND, NETWORK
 */
export function describeSources(source, headers) {
  if (!Array.isArray(source)) {
    const { spec, pieces } = describeSource(source, headers);
    const specs = withSisters(spec);
    return { specs, pieces: [pieces, ...specs.slice(1).map(() => undefined)] };
  }
  if (source.length === 0) throw new HeadlightError('BAD_ARGUMENT', 'load: the list of files is empty');
  if (source.length === 1) return describeSources(source[0], headers);
  const all = source.map((file) => describeSource(file, headers));
  return { specs: all.map((one) => one.spec), pieces: all.map((one) => one.pieces) };
}

/**
 * The files in order; later ones are opened when their turn comes, but what is missing is known at once.
 * @param {import('./source.js').SourceSpec[]} specs
 * @param {(part: number) => AsyncIterable<Uint8Array>} pumped the pieces of a pump
 * @returns {Promise<import('./source.js').ByteSource[]>}
 * @throws {HeadlightError} NOT_FOUND, NETWORK, BAD_ARGUMENT
 */
export async function openSources(specs, pumped) {
  const rest = await Promise.all(specs.slice(1).map((spec, i) => peek(spec, i + 2, specs.length)));
  const first = await openSource(specs[0], () => pumped(0));
  const later = rest.map((known, i) => ({
    ...known,
    async *chunks() {
      yield* (await openSource(specs[i + 1], () => pumped(i + 1))).chunks();
    },
  }));
  return [first, ...later];
}

/**
 * Name and size of a file that is not opened yet.
 * @param {import('./source.js').SourceSpec} spec
 * @param {number} number of the part, from 1
 * @param {number} count of the parts
 * @returns {Promise<{ name: string, size: number | undefined }>}
 */
async function peek(spec, number, count) {
  const missing = (/** @type {string} */ name, /** @type {string} */ where) =>
    new HeadlightError('NOT_FOUND', `${name}: part ${number} of ${count} is not there: ${where}`);
  if (spec.kind === 'path' && isNode) {
    try {
      return { name: spec.path, size: nodeModule('fs').statSync(spec.path).size };
    } catch {
      throw missing(spec.path, 'all parts must lie in one folder');
    }
  }
  if (spec.kind === 'url') {
    // Servers may refuse to be asked so: then its size is known when its turn comes.
    const head = await fetch(spec.url, { method: 'HEAD', headers: spec.headers }).catch(() => undefined);
    if (head?.status === 404 || head?.status === 410) throw missing(spec.url, 'check the address');
    const length = head?.ok && !head.headers.get('content-encoding') && head.headers.get('content-length');
    return { name: spec.url, size: length ? Number(length) : undefined };
  }
  if (spec.kind === 'blob') {
    return { name: 'name' in spec.blob ? String(spec.blob.name) : 'blob', size: spec.blob.size };
  }
  const { name, size } = /** @type {{ name: string, size: number | undefined }} */ (spec);
  return { name, size };
}
