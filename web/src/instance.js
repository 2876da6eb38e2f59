import { buildId } from '../dist/build-id.js';
import { isNode } from './env.js';
import { HeadlightError } from './errors.js';
import { Core } from './wasm.js';

const PAGE = 65536;
/** What the modules are linked with (INITIAL_MEMORY). */
const INITIAL_PAGES = 64;
/** Some browsers refuse to reserve 4 GiB of addresses. */
const MAXIMUM_PAGES = [65536, 32768, 16384];

/**
 * @param {boolean} shared
 * @param {number | undefined} maxBytes
 */
function makeMemory(shared, maxBytes) {
  const most = maxBytes === undefined ? Infinity : Math.floor(maxBytes / PAGE);
  if (most < INITIAL_PAGES) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      `maxMemory is ${maxBytes} bytes; the engine alone needs ${INITIAL_PAGES * PAGE}`,
    );
  }
  let refused;
  for (const pages of MAXIMUM_PAGES) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum: Math.min(pages, most), shared });
    } catch (cause) {
      refused = cause;
    }
  }
  throw new HeadlightError(
    'NO_MEMORY',
    'This browser gives no room for WebAssembly memory, not even 1 GiB of addresses',
    {
      cause: refused,
    },
  );
}

/**
 * The linker's glue of a variant. Literal imports for pages, so that bundlers find the files; a computed one for Node,
 * so that they do not.
 * @param {import('./types.js').Variant} variant
 * @param {string | undefined} assets
 * @returns {Promise<{ default: (options: object) => Promise<any> }>}
 */
function importGlue(variant, assets) {
  if (assets !== undefined || isNode) {
    const base = assets ?? new URL('../dist/', import.meta.url).href;
    const url = new URL(`headlight-${variant}.${isNode ? 'node' : 'web'}.mjs`, base).href;
    return import(/* @vite-ignore */ /* webpackIgnore: true */ url);
  }
  switch (variant) {
    case 'relaxed':
      return import('../dist/headlight-relaxed.web.mjs');
    case 'simd':
      return import('../dist/headlight-simd.web.mjs');
    default:
      return import('../dist/headlight-single.web.mjs');
  }
}

/**
 * Starts an instance with an empty model.
 * @param {object} options
 * @param {import('./types.js').Variant} options.variant
 * @param {number} [options.threads] the calling one counted
 * @param {import('./types.js').Precision} [options.precision]
 * @param {number} [options.maxMemory] bytes
 * @param {string} [options.pretokenizer] instead of the one that the file names
 * @param {string} [options.assets] folder of the glue, a URL that ends in /
 * @returns {Promise<Core>}
 * @throws {HeadlightError} NO_MEMORY, BAD_ARGUMENT, BUILD_MISMATCH, NETWORK
 */
export async function openCore({
  variant,
  threads = 1,
  precision = 'fast',
  maxMemory,
  assets,
  pretokenizer,
}) {
  const memory = makeMemory(variant !== 'single', maxMemory);
  let module;
  try {
    const glue = await importGlue(variant, assets);
    const noise = () => {};
    module = await glue.default({ wasmMemory: memory, nthreads: threads - 1, print: noise, printErr: noise });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new HeadlightError(
      'NETWORK',
      `The engine's files (headlight-${variant}) cannot be loaded: ${why}`,
      { cause },
    );
  }
  const core = new Core(module, memory);
  const built = core.buildId();
  if (built !== buildId) {
    throw new HeadlightError(
      'BUILD_MISMATCH',
      `The JavaScript is of build ${buildId}, the .wasm of ${built}: an old file is cached or was left behind; reload or rebuild`,
    );
  }
  core.start(threads, precision === 'high' ? 1 : 0);
  if (pretokenizer !== undefined) core.forcePretokenizer(pretokenizer);
  return core;
}
