/**
 * Codes of HeadlightError and what they mean.
 * @typedef {'BAD_ARGUMENT' | 'BAD_FORMAT' | 'UNSUPPORTED' | 'TRUNCATED' | 'NO_MEMORY' | 'CONTEXT_FULL'} CoreCode
 * @typedef {'BAD_STATE' | 'NETWORK' | 'NOT_FOUND' | 'CHECKSUM' | 'TEMPLATE' | 'DISPOSED'} CallCode
 * @typedef {'WORKER_LOST' | 'BUILD_MISMATCH' | 'INTERNAL'} EngineCode
 * @typedef {CoreCode | CallCode | EngineCode} ErrorCode
 */

/** What goes wrong, in words that a person can act on, and as a code that a program can. */
export class HeadlightError extends Error {
  /**
   * @param {ErrorCode} code
   * @param {string} message
   * @param {{ cause?: unknown }} [options]
   */
  constructor(code, message, options) {
    super(message, options);
    this.name = 'HeadlightError';
    /** @type {ErrorCode} */
    this.code = code;
  }
}

/** Of hl_status, by its negated value. @type {ErrorCode[]} */
const codes = [
  'INTERNAL',
  'BAD_ARGUMENT',
  'BAD_FORMAT',
  'UNSUPPORTED',
  'TRUNCATED',
  'NO_MEMORY',
  'CONTEXT_FULL',
  'BAD_STATE',
];

/**
 * @param {number} status an hl_status below 0
 * @returns {ErrorCode}
 */
export function codeOfStatus(status) {
  return codes[-status] ?? 'INTERNAL';
}

/**
 * @param {string} [what] that was stopped
 * @returns {DOMException} named AbortError, as fetch() rejects
 */
export function abortError(what = 'The operation') {
  return new DOMException(`${what} was aborted`, 'AbortError');
}

/**
 * @param {unknown} error
 * @returns {boolean}
 */
export function isAbort(error) {
  return error instanceof Error && error.name === 'AbortError';
}

/**
 * An error in a shape that can be posted between threads: class and code survive.
 * @param {unknown} error
 * @returns {{ name: string, code: string, message: string }}
 */
export function toPlain(error) {
  if (error instanceof HeadlightError) return { name: error.name, code: error.code, message: error.message };
  if (error instanceof Error) return { name: error.name, code: 'INTERNAL', message: error.message };
  return { name: 'Error', code: 'INTERNAL', message: String(error) };
}

/**
 * @param {{ name: string, code: string, message: string }} plain
 * @returns {Error}
 */
export function fromPlain(plain) {
  if (plain.name === 'AbortError') return new DOMException(plain.message, 'AbortError');
  const text = plain.name === 'HeadlightError' ? plain.message : `${plain.name}: ${plain.message}`;
  return new HeadlightError(/** @type {ErrorCode} */ (plain.code), text);
}

/**
 * Refuses options that do not exist, by name: a typing mistake is not ignored.
 * @param {object | undefined} options
 * @param {readonly string[]} known
 * @param {string} where the call, for the message
 * @throws {HeadlightError} BAD_ARGUMENT
 */
export function checkOptions(options, known, where) {
  if (options === undefined) return;
  if (options === null || typeof options !== 'object') {
    throw new HeadlightError('BAD_ARGUMENT', `${where}: options must be an object`);
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw new HeadlightError(
        'BAD_ARGUMENT',
        `${where}: unknown option "${name}"; there are ${known.join(', ')}`,
      );
    }
  }
}
