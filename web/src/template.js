import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja';
import { HeadlightError } from './errors.js';

/**
 * Chat templates come with model files, so that nobody has read them. They run here as in Hugging Face's transformers
 * (sandboxed Jinja, trim_blocks, lstrip_blocks), with limits: a template can neither hang the engine nor eat its memory.
 * Each node costs a step, and a string or list as much more as it is long.
 */
const MAX_SOURCE = 64 << 10;
/** The library's lexer takes time with the square of blanks in a row. */
const MAX_BLANKS = 1000;
const MAX_STEPS = 1_000_000;
/** A turn of a loop sets up a scope and a dozen variables. */
const ITEM_STEPS = 16;
const MAX_TEXT = 4 << 20;
const MAX_LIST = 100_000;
const MAX_NODES = 100_000;
/** Calls within calls. */
const MAX_DEPTH = 200;
/** Characters of a message: it may quote a value. */
const MAX_MESSAGE = 500;
/** Filters that sort. */
const SORTING = new Set(['sort', 'dictsort', 'unique', 'groupby']);

const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
);
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** What the limits and the template's own raise_exception throw. */
class TemplateError extends Error {}

/**
 * Python's strftime in the C locale, for the directives that templates use.
 * @param {string} format
 * @param {Date} [now]
 * @returns {string}
 */
export function strftime(format, now = new Date()) {
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  /** @type {Record<string, () => string>} */
  const parts = {
    Y: () => String(now.getFullYear()),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    B: () => MONTHS[now.getMonth()],
    b: () => MONTHS[now.getMonth()].slice(0, 3),
    A: () => DAYS[now.getDay()],
    a: () => DAYS[now.getDay()].slice(0, 3),
    H: () => two(now.getHours()),
    I: () => two(now.getHours() % 12 || 12),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    p: () => (now.getHours() < 12 ? 'AM' : 'PM'),
    '%': () => '%',
  };
  return format.replace(/%([A-Za-z%])/g, (all, c) => parts[c]?.() ?? all);
}

/** A value as Python's str() and repr() write it. @param {any} value @param {boolean} [quoted] @returns {string} */
function pythonText(value, quoted = false) {
  switch (value.type) {
    case 'NullValue':
      return 'None';
    case 'UndefinedValue':
      return '';
    case 'BooleanValue':
      return value.value ? 'True' : 'False';
    case 'StringValue':
      return quoted ? pythonQuoted(value.value) : value.value;
    case 'TupleValue':
    case 'ArrayValue': {
      const items = value.value.map((/** @type {any} */ v) => pythonText(v, true)).join(', ');
      if (value.type === 'ArrayValue') return `[${items}]`;
      return value.value.length === 1 ? `(${items},)` : `(${items})`;
    }
    case 'ObjectValue': {
      const items = [...value.value].map(([k, v]) => `${pythonQuoted(k)}: ${pythonText(v, true)}`);
      return `{${items.join(', ')}}`;
    }
    default:
      return value.toString();
  }
}

/** @param {string} text */
function pythonQuoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

/** Python's names of types, for its messages. @type {Record<string, string>} */
const PYTHON_TYPES = {
  IntegerValue: 'int',
  FloatValue: 'float',
  BooleanValue: 'bool',
  ArrayValue: 'list',
  TupleValue: 'tuple',
  ObjectValue: 'dict',
  NullValue: 'NoneType',
  UndefinedValue: 'Undefined',
  StringValue: 'str',
};

/** @param {any} value */
const isString = (value) => value.type === 'StringValue';
/** @param {any} value */
const isNumber = (value) => value.type === 'IntegerValue' || value.type === 'FloatValue';

/** The library's classes are not exported; values of each kind give them. */
const sample = new Environment();
const StringValue = /** @type {any} */ (sample.set('s', '')).constructor;
const IntegerValue = /** @type {any} */ (sample.set('i', 0)).constructor;
const FloatValue = /** @type {any} */ (sample.set('f', 0.5)).constructor;

/** The library's interpreter with limits, and with Python's ways where a prompt depends on them. */
class BoundedInterpreter extends /** @type {any} */ (Interpreter) {
  /** @param {Environment} env */
  constructor(env) {
    super(env);
    this.steps = 0;
    this.depth = 0;
    /** Expressions that loops run over: each item costs. @type {WeakSet<object>} */
    this.looped = new WeakSet();
  }

  /** @param {number} cost */
  spend(cost) {
    this.steps += cost;
    if (this.steps > MAX_STEPS) throw new TemplateError('it takes too many steps');
  }

  /** @param {number} length of a string to be made */
  allowText(length) {
    if (length > MAX_TEXT) throw new TemplateError(`it makes a text longer than ${MAX_TEXT} characters`);
  }

  /** @param {any} node @param {any} env @returns {any} */
  evaluate(node, env) {
    if (node?.type === 'Given') return node.value;
    this.spend(1);
    const value = super.evaluate(node, env);
    if (isString(value)) {
      this.allowText(value.value.length);
      this.spend(value.value.length >> 8);
      this.guardReplace(value);
    } else if (Array.isArray(value.value)) {
      if (value.value.length > MAX_LIST) throw new TemplateError(`it makes a list longer than ${MAX_LIST}`);
      const { length } = value.value;
      const made = node?.type !== 'Identifier' && node?.type !== 'MemberExpression';
      this.spend(this.looped.has(node) ? ITEM_STEPS * length : made ? length : length >> 4);
    }
    return value;
  }

  /** @param {any} node @param {any} env @returns {any} */
  evaluateCallExpression(node, env) {
    if (this.depth >= MAX_DEPTH)
      throw new TemplateError(`it calls more than ${MAX_DEPTH} macros in each other`);
    this.depth++;
    try {
      return super.evaluateCallExpression(node, env);
    } finally {
      this.depth--;
    }
  }

  /** @param {any} object @param {any} slice @param {any} env @returns {any} */
  evaluateSliceExpression(object, slice, env) {
    this.spend(object.value?.length ?? 0);
    return super.evaluateSliceExpression(object, slice, env);
  }

  /** @param {any} node @param {any} env @returns {any} */
  evaluateFor(node, env) {
    this.looped.add(node.iterable.type === 'SelectExpression' ? node.iterable.lhs : node.iterable);
    return super.evaluateFor(node, env);
  }

  /**
   * replace() can make a text much longer than what goes in: its length is reckoned first.
   * @param {any} value a string
   */
  guardReplace(value) {
    const proto = Object.getPrototypeOf(value);
    const get = /** @type {any} */ (Object.getOwnPropertyDescriptor(proto, 'builtins')).get;
    Object.defineProperty(value, 'builtins', {
      configurable: true,
      get: () => {
        const builtins = get.call(value);
        const replace = builtins.get('replace');
        const Function_ = replace.constructor;
        const guarded = new Function_((/** @type {any[]} */ args, /** @type {any} */ scope) => {
          const [from, to] = args.map((a) => (a && isString(a) ? a.value : ''));
          const times = from === '' ? value.value.length + 1 : value.value.split(from).length - 1;
          this.allowText(value.value.length + times * (to?.length ?? 0));
          return replace.value(args, scope);
        });
        return new Map(builtins).set('replace', guarded);
      },
    });
  }

  /**
   * Text of a value that is printed. Lists inside lists can stand for far more text than they take memory.
   * @param {any} value
   */
  print(value) {
    if (isString(value)) return value.value;
    this.countNodes(value, { left: MAX_NODES });
    const text = pythonText(value);
    this.allowText(text.length);
    this.spend(text.length >> 8);
    return text;
  }

  /** @param {any} value @param {{ left: number }} budget */
  countNodes(value, budget) {
    if (--budget.left < 0) throw new TemplateError('it prints too large a structure');
    if (Array.isArray(value.value)) for (const v of value.value) this.countNodes(v, budget);
    else if (value.value instanceof Map) for (const v of value.value.values()) this.countNodes(v, budget);
  }

  /** @param {any[]} statements @param {any} env */
  evaluateBlock(statements, env) {
    let text = '';
    for (const statement of statements) {
      const value = this.evaluate(statement, env);
      // Statements give null where they print nothing; an expression that is None prints "None".
      const silent = value.type === 'NullValue' && SILENT.has(statement.type);
      if (!silent) text += this.print(value);
      this.allowText(text.length);
    }
    return new StringValue(text);
  }

  /** @param {any} node @param {any} env @returns {any} */
  evaluateBinaryExpression(node, env) {
    const op = node.operator.value;
    if (op !== '~' && op !== '+' && op !== '%') return super.evaluateBinaryExpression(node, env);
    const left = this.evaluate(node.left, env);
    const right = this.evaluate(node.right, env);
    if (op === '~') return this.joined(this.print(left), this.print(right));
    if (op === '+' && (isString(left) || isString(right))) return this.added(left, right);
    if (op === '%' && isNumber(left) && isNumber(right)) return modulo(left, right);
    const known = { ...node, left: given(left), right: given(right) };
    return super.evaluateBinaryExpression(known, env);
  }

  /** @param {string} left @param {string} right */
  joined(left, right) {
    this.allowText(left.length + right.length);
    return new StringValue(left + right);
  }

  /** @param {any} left @param {any} right */
  added(left, right) {
    if (isString(left) && isString(right)) return this.joined(left.value, right.value);
    const name = (/** @type {any} */ v) => PYTHON_TYPES[v.type] ?? v.type;
    if (isString(left)) throw new TemplateError(`can only concatenate str (not "${name(right)}") to str`);
    throw new TemplateError(`unsupported operand type(s) for +: '${name(left)}' and 'str'`);
  }

  /** @param {any} operand @param {any} filter @param {any} env @returns {any} */
  applyFilter(operand, filter, env) {
    const name = filter.type === 'CallExpression' ? filter.callee.value : filter.value;
    const size = operand.value?.length ?? operand.value?.size ?? 0;
    if (SORTING.has(name)) this.spend(Math.ceil(size * Math.log2(size + 1)));
    if (name === 'trim' && !isString(operand)) return new StringValue(this.print(operand).trim());
    if (name === 'string') return new StringValue(this.print(operand));
    if (name === 'tojson' || name === 'join' || name === 'indent')
      this.boundFilter(name, operand, filter, env);
    return super.applyFilter(operand, filter, env);
  }

  /**
   * Refuses filters whose text would be too long before they make it.
   * @param {string} name
   * @param {any} operand
   * @param {any} filter
   * @param {any} env
   */
  boundFilter(name, operand, filter, env) {
    const budget = { left: MAX_NODES };
    this.countNodes(operand, budget);
    if (filter.type !== 'CallExpression') return;
    const [args, kwargs] = this.evaluateArguments(filter.args, env);
    const given_ = [...args, ...kwargs.values()].map((v) =>
      isString(v) ? v.value.length : isNumber(v) ? v.value : 0,
    );
    const most = Math.max(0, ...given_.filter(Number.isFinite));
    const lines = isString(operand) ? operand.value.split('\n').length : MAX_NODES - budget.left;
    const times = name === 'join' && isString(operand) ? operand.value.length : lines;
    this.allowText(times * most);
  }
}

/** Statements that print nothing themselves. */
const SILENT = new Set(['Set', 'Macro', 'Comment', 'If', 'For']);

/** A node that is already evaluated. @param {any} value */
const given = (value) => ({ type: 'Given', value });

/** @param {any} left @param {any} right Python's: the result has the divisor's sign */
function modulo(left, right) {
  const [a, b] = [left.value, right.value];
  if (b === 0) throw new TemplateError('modulo by zero');
  const result = a - b * Math.floor(a / b);
  return left.type === 'FloatValue' || right.type === 'FloatValue'
    ? new FloatValue(result)
    : new IntegerValue(result);
}

/** @param {unknown[]} args of range() in a template */
function boundedRange(...args) {
  // A list is not made a number: that would write out all that it holds.
  const numbers = args.map((a) => (typeof a === 'number' ? a : NaN));
  const [start, stop] = numbers.length > 1 ? numbers : [0, numbers[0]];
  const step = numbers[2] ?? 1;
  if (![start, stop, step].every(Number.isInteger) || step === 0) {
    throw new TemplateError(`range(${numbers.join(', ')}) is no range`);
  }
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_LIST) throw new TemplateError(`it makes a range of ${length} numbers`);
  return Array.from({ length }, (_, i) => start + i * step);
}

/**
 * A list's own text may be without end.
 * @param {unknown} value
 * @param {string} where
 * @returns {string}
 */
function textOf(value, where) {
  if (typeof value !== 'string') throw new TemplateError(`${where} takes a text`);
  return value;
}

/** A compiled chat template. */
export class ChatTemplate {
  /**
   * @param {string} source jinja
   * @param {string} name for messages
   * @throws {HeadlightError} TEMPLATE
   */
  constructor(source, name) {
    this.source = source;
    this.name = name;
    /** @type {any} */
    this.program = this.guard('cannot be read', () => {
      if (source.length > MAX_SOURCE) throw new TemplateError(`it is longer than ${MAX_SOURCE} characters`);
      if (new RegExp(`\\s{${MAX_BLANKS + 1}}`).test(source)) {
        throw new TemplateError(`it has more than ${MAX_BLANKS} blanks in a row`);
      }
      return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
    });
  }

  /**
   * @param {Record<string, unknown>} variables
   * @returns {string}
   * @throws {HeadlightError} TEMPLATE: what the template raises, or where it goes beyond its limits
   */
  render(variables) {
    return this.guard('failed', () => {
      const env = new Environment();
      for (const [name, value] of Object.entries({ ...GLOBALS, ...variables })) env.set(name, value);
      return new BoundedInterpreter(env).run(this.program).value;
    });
  }

  /**
   * @template T
   * @param {string} what
   * @param {() => T} run
   * @returns {T}
   */
  guard(what, run) {
    try {
      return run();
    } catch (cause) {
      const why =
        cause instanceof RangeError
          ? 'it is nested too deeply or too large'
          : /** @type {Error} */ (cause).message.slice(0, MAX_MESSAGE);
      throw new HeadlightError('TEMPLATE', `The chat template (${this.name}) ${what}: ${why}`, { cause });
    }
  }
}

const GLOBALS = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range: boundedRange,
  strftime_now: (/** @type {string} */ format) => strftime(textOf(format, 'strftime_now')),
  raise_exception: (/** @type {string} */ message) => {
    throw new TemplateError(textOf(message, 'raise_exception'));
  },
};
