import { buildId } from '../dist/build-id.js';
import { isNode, nodeModule } from './env.js';
import { HeadlightError } from './errors.js';

/* A module by hand: (func $name (param i32 i32) (result i32)) that splats both arguments to bytes and takes lane 0 of
 *   dot8   i16x8.relaxed_dot_i8x16_i7x16_s                 two products
 *   dot32  i32x4.relaxed_dot_i8x16_i7x16_add_s onto zero   four products */
const SPLATS = [0x20, 0x00, 0xfd, 0x0f, 0x20, 0x01, 0xfd, 0x0f];
const DOT16 = [...SPLATS, 0xfd, 0x92, 0x02, 0xfd, 0x18, 0x00, 0x0b];
const DOT32 = [...SPLATS, 0x41, 0x00, 0xfd, 0x11, 0xfd, 0x93, 0x02, 0xfd, 0x1b, 0x00, 0x0b];
/* () -> i32: i32x4.splat(0), lane 0 */
const PLAIN = [0x41, 0x00, 0xfd, 0x11, 0xfd, 0x1b, 0x00, 0x0b];

/**
 * A module with one type and some functions of it, exported as "0", "1", ..
 * @param {number[]} type
 * @param {number[][]} bodies
 */
function moduleOf(type, bodies) {
  const section = (/** @type {number} */ id, /** @type {number[]} */ bytes) => [id, bytes.length, ...bytes];
  const n = bodies.length;
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, [1, ...type]),
    ...section(3, [n, ...bodies.map(() => 0)]),
    ...section(7, [n, ...bodies.flatMap((_, i) => [1, 0x30 + i, 0x00, i])]),
    ...section(10, [n, ...bodies.flatMap((b) => [b.length + 1, 0x00, ...b])]),
  ]);
}

/** @returns {boolean} */
function probeSimd() {
  return WebAssembly.validate(moduleOf([0x60, 0, 1, 0x7f], [PLAIN]));
}

/**
 * Runs the two dot products with operands in the range that every engine must agree on, and compares the sums:
 * some engines accept the instructions and add up something else.
 * @returns {'right' | 'wrong' | 'absent'}
 */
function probeRelaxed() {
  const bytes = moduleOf([0x60, 2, 0x7f, 0x7f, 1, 0x7f], [DOT16, DOT32]);
  if (!WebAssembly.validate(bytes)) return 'absent';
  try {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    for (const a of [-128, -127, -1, 0, 1, 127]) {
      for (const b of [0, 1, 15, 31, 63, 127]) {
        const two = /** @type {Function} */ (exports['0'])(a, b);
        const four = /** @type {Function} */ (exports['1'])(a, b);
        if (two !== 2 * a * b || four !== 4 * a * b) return 'wrong';
      }
    }
    return 'right';
  } catch {
    return 'absent';
  }
}

/** @returns {boolean} whether a shared linear memory can be made and posted */
function probeShared() {
  try {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    return memory.buffer instanceof SharedArrayBuffer && typeof Atomics.wait === 'function';
  } catch {
    return false;
  }
}

/**
 * Threads that serve best: decoding is bound by memory, so that more than a few cores bring little; a phone's small
 * cores slow the others down; and a machine of some cores keeps one for the page.
 * @param {{ cores: number, threads: boolean, mobile: boolean }} machine cores as the system counts them
 * @returns {number} 1 .. 8
 */
export function defaultThreads({ cores, threads, mobile }) {
  if (!threads) return 1;
  const n = Number.isInteger(cores) && cores > 0 ? cores : 2;
  if (mobile) return Math.min(4, Math.max(1, Math.floor(n / 2)));
  if (n <= 2) return n;
  if (n <= 4) return n - 1;
  return Math.min(8, Math.max(3, Math.floor(n / 2)));
}

/** @returns {{ cores: number, mobile: boolean }} */
function machine() {
  if (isNode) return { cores: nodeModule('os').availableParallelism(), mobile: false };
  const nav = /** @type {any} */ (globalThis.navigator ?? {});
  const mobile =
    nav.userAgentData?.mobile ??
    (/Android|iPhone|iPad|Mobile/.test(nav.userAgent ?? '') ||
      (nav.platform === 'MacIntel' && nav.maxTouchPoints > 1));
  return { cores: nav.hardwareConcurrency ?? 1, mobile };
}

/** @returns {import('./types.js').Features} */
function probe() {
  const isolated = isNode || globalThis.crossOriginIsolated === true;
  const simd = probeSimd();
  const sums = probeRelaxed();
  const shared = probeShared();
  const threads = isolated && shared;
  /** @type {string[]} */
  const reasons = [];
  if (!simd) reasons.push('This engine has no WebAssembly SIMD: a newer browser is needed.');
  if (!isolated) {
    reasons.push(
      globalThis.location?.protocol === 'file:'
        ? 'One thread only: the page was opened from a file. Serve it over http (npx vite, for one).'
        : 'One thread only: the page is not cross-origin isolated. The server must send Cross-Origin-Opener-Policy: ' +
            'same-origin and Cross-Origin-Embedder-Policy: require-corp (or credentialless), over https or localhost.',
    );
  } else if (!shared) {
    reasons.push('One thread only: this browser gives no shared WebAssembly memory.');
  }
  if (sums === 'absent') reasons.push('No relaxed SIMD in this engine: the plain SIMD variant runs.');
  if (sums === 'wrong')
    reasons.push('Relaxed SIMD gives wrong sums in this engine: the plain SIMD variant runs.');
  const relaxed = sums === 'right';
  const variant = !simd ? undefined : !threads ? 'single' : relaxed ? 'relaxed' : 'simd';
  return {
    isolated,
    threads,
    simd,
    relaxed,
    variant,
    defaultThreads: defaultThreads({ ...machine(), threads }),
    buildId,
    reasons,
  };
}

/** @type {import('./types.js').Features | undefined} */
let found;

/**
 * What this machine and page can do, found by trying it; and why not more.
 * @returns {Promise<import('./types.js').Features>}
 */
export async function features() {
  return detect();
}

/**
 * The same at once.
 * @returns {import('./types.js').Features}
 */
export function detect() {
  found ??= probe();
  return { ...found, reasons: [...found.reasons] };
}

/**
 * The variant and thread count for what was asked, or a refusal that says why.
 * @param {{ variant?: string, threads?: number }} asked
 * @param {import('./types.js').Features} [have]
 * @returns {{ variant: import('./types.js').Variant, threads: number }}
 * @throws {HeadlightError} BAD_ARGUMENT, UNSUPPORTED
 */
export function chooseVariant({ variant, threads }, have = detect()) {
  if (!have.variant)
    throw new HeadlightError('UNSUPPORTED', have.reasons[0] ?? 'WebAssembly SIMD is missing here');
  const chosen = variant ?? have.variant;
  if (chosen !== 'relaxed' && chosen !== 'simd' && chosen !== 'single') {
    throw new HeadlightError('BAD_ARGUMENT', `variant is "${chosen}"; there are relaxed, simd, single`);
  }
  const why = have.reasons.join(' ');
  if (chosen === 'relaxed' && !have.relaxed) {
    throw new HeadlightError('UNSUPPORTED', `variant relaxed does not run here. ${why}`.trim());
  }
  if (chosen !== 'single' && !have.threads) {
    throw new HeadlightError('UNSUPPORTED', `variant ${chosen} needs shared memory. ${why}`.trim());
  }
  if (threads !== undefined && (!Number.isInteger(threads) || threads < 1 || threads > 64)) {
    throw new HeadlightError('BAD_ARGUMENT', `threads is ${threads}, must be a whole number from 1 to 64`);
  }
  return { variant: chosen, threads: chosen === 'single' ? 1 : (threads ?? have.defaultThreads) };
}
