import { checkPlain } from './checks.js';
import { commonPrefix } from './context.js';
import { HeadlightError } from './errors.js';
import { BOS, SPECIAL } from './wasm.js';

/**
 * Messages to token ids. The template's own markers become control tokens; markers in the text of messages stay text:
 * a person who writes <|im_end|> does not end the turn.
 */

/** Where a file has no template. Source: the formats' own descriptions (OpenAI's ChatML, Google's Gemma, Meta's Llama 2). */
const FALLBACKS = {
  chatml:
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}" +
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
  // There is no system turn: its text begins the next one of the user.
  gemma:
    "{% set ns = namespace(system='') %}{% for message in messages %}" +
    "{% if message['role'] == 'system' or message['role'] == 'developer' %}" +
    "{% set ns.system = ns.system + message['content'] + '\\n\\n' %}" +
    "{% elif message['role'] == 'assistant' %}{{ '<start_of_turn>model\\n' + message['content'] | trim + '<end_of_turn>\\n' }}" +
    "{% else %}{{ '<start_of_turn>' + message['role'] + '\\n' + ns.system + message['content'] | trim + '<end_of_turn>\\n' }}" +
    "{% set ns.system = '' %}{% endif %}{% endfor %}" +
    "{% if ns.system %}{{ '<start_of_turn>user\\n' + ns.system | trim + '<end_of_turn>\\n' }}{% endif %}" +
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
  llama2:
    "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' %}" +
    "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}" +
    "{% if system and (not turns or turns[0]['role'] == 'assistant') %}{{ bos_token + '[INST] ' + system + ' [/INST]' }}{% endif %}" +
    "{% for message in turns %}{% if message['role'] == 'assistant' %}{{ ' ' + message['content'] + ' ' + eos_token }}" +
    "{% else %}{{ bos_token + '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}",
};

/** A fallback, and the markers that a vocabulary has for it. */
const GUESSES = /** @type {const} */ ([
  ['chatml', '<|im_start|>', '<|im_end|>'],
  ['gemma', '<start_of_turn>', '<end_of_turn>'],
]);

/** Code points that may stand for a marker's first character: private planes, which text hardly uses. */
const PRIVATE_FIRST = 0xf0000;
const PRIVATE_LAST = 0x10ffff;

/**
 * The chat template of a model, or a fallback.
 * @param {string | undefined} given by the caller
 * @param {string | undefined} stored in the file
 * @param {(text: string) => boolean} hasControl whether a control token has this text
 * @returns {{ source: string, from: import('./types.js').ModelInfo['template'], warning?: string }}
 */
export function pickTemplate(given, stored, hasControl) {
  if (given !== undefined) return { source: given, from: 'option' };
  if (stored !== undefined) return { source: stored, from: 'model' };
  const [from] = GUESSES.find(([, ...markers]) => markers.every(hasControl)) ?? ['llama2'];
  const warning =
    `The file has no chat template: ${from} is taken as a guess. ` +
    'Answers are poor if the model was not trained for it: give the right one (option template).';
  return { source: FALLBACKS[from], from, warning };
}

/** The control tokens of a vocabulary by their text. */
export class Markers {
  /** @param {Map<string, number>} ids */
  constructor(ids) {
    this.ids = ids;
    /** Markers by first character, longest first. @type {Map<string, string[]>} */
    this.byFirst = new Map();
    for (const text of ids.keys()) {
      const first = text.slice(0, 1);
      this.byFirst.set(first, [...(this.byFirst.get(first) ?? []), text]);
    }
    for (const list of this.byFirst.values()) list.sort((a, b) => b.length - a.length);
  }

  /**
   * @param {import('./wasm.js').Core} core
   * @returns {Markers}
   */
  static of(core) {
    const { nVocab } = core.info();
    /** @type {Map<string, number>} */
    const ids = new Map();
    for (let id = 0; id < nVocab; id++) {
      if (core.isControl(id)) {
        const text = core.tokenText(id);
        if (text !== '') ids.set(text, id);
      }
    }
    return new Markers(ids);
  }

  /**
   * @param {string} text
   * @param {number} at
   * @returns {string | undefined} the longest marker that begins at this place
   */
  at(text, at) {
    return this.byFirst.get(text[at])?.find((m) => text.startsWith(m, at));
  }

  /**
   * Whether a marker begins here and runs past the end of text: what follows in the prompt could complete it.
   * @param {string} text
   * @param {number} at
   */
  begunAt(text, at) {
    const rest = text.length - at;
    return this.byFirst.get(text[at])?.some((m) => m.length > rest && m.startsWith(text.slice(at))) ?? false;
  }

  /**
   * Control tokens and the text between them.
   * @param {string} text
   * @returns {(number | string)[]}
   */
  split(text) {
    /** @type {(number | string)[]} */
    const parts = [];
    let from = 0;
    for (let at = 0; at < text.length;) {
      const marker = this.at(text, at);
      if (marker === undefined) {
        at++;
        continue;
      }
      if (at > from) parts.push(text.slice(from, at));
      parts.push(/** @type {number} */ (this.ids.get(marker)));
      at += marker.length;
      from = at;
    }
    if (from < text.length) parts.push(text.slice(from));
    return parts;
  }
}

/** Hides markers in strings before the template runs, and brings them back afterwards. */
export class Disguise {
  /**
   * @param {Markers} markers
   * @param {string} everything all text that takes part, for private code points that occur in it
   */
  constructor(markers, everything) {
    this.markers = markers;
    /** First characters of markers to private ones, and back. @type {Map<string, string>} */
    this.to = new Map();
    /** @type {Map<string, string>} */
    this.back = new Map();
    const used = new Set(everything.match(/[\u{f0000}-\u{10ffff}]/gu));
    let point = PRIVATE_FIRST;
    for (const first of markers.byFirst.keys()) {
      while (used.has(String.fromCodePoint(point))) point++;
      if (point >= PRIVATE_LAST) {
        throw new HeadlightError('BAD_ARGUMENT', 'chat: the messages use every private character of Unicode');
      }
      const stand = String.fromCodePoint(point++);
      this.to.set(first, stand);
      this.back.set(stand, first);
    }
    this.pattern = new RegExp(`[${[...this.back.keys()].join('')}]`, 'gu');
  }

  /**
   * @template T
   * @param {T} value strings in it, at any depth; keys stay
   * @returns {T}
   */
  hide(value) {
    if (typeof value === 'string') return /** @type {any} */ (this.#hideText(value));
    if (Array.isArray(value)) return /** @type {any} */ (value.map((v) => this.hide(v)));
    if (value !== null && typeof value === 'object') {
      return /** @type {any} */ (
        Object.fromEntries(Object.entries(value).map(([k, v]) => [k, this.hide(v)]))
      );
    }
    return value;
  }

  /** @param {string} text */
  #hideText(text) {
    let out = '';
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const stand = this.to.get(text[at]);
      if (stand === undefined) continue;
      if (this.markers.at(text, at) === undefined && !this.markers.begunAt(text, at)) continue;
      out += text.slice(from, at) + stand;
      from = at + 1;
    }
    return out + text.slice(from);
  }

  /**
   * @param {string} text
   * @returns {string}
   */
  restore(text) {
    if (this.back.size === 0) return text;
    return text.replace(this.pattern, (c) => this.back.get(c) ?? c);
  }
}

/**
 * @param {unknown} messages
 * @returns {asserts messages is import('./types.js').Message[]}
 * @throws {HeadlightError} BAD_ARGUMENT
 */
function checkMessages(messages) {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new HeadlightError(
      'BAD_ARGUMENT',
      'chat: messages must be a list with at least one message { role, content }',
    );
  }
  messages.forEach((m, i) => {
    if (m === null || typeof m !== 'object' || typeof m.role !== 'string' || m.role === '') {
      throw new HeadlightError('BAD_ARGUMENT', `chat: message ${i} must be { role, content }, role a string`);
    }
    if (typeof m.content !== 'string' && !Array.isArray(m.content)) {
      throw new HeadlightError(
        'BAD_ARGUMENT',
        `chat: message ${i} (${m.role}): content must be a string or a list of parts`,
      );
    }
  });
}

/**
 * Text parts become one string for templates that know only strings.
 * @param {import('./types.js').Message[]} messages
 * @param {string} source of the template
 */
function joinParts(messages, source) {
  const knowsParts =
    /content\s+is\s+(not\s+)?(string|iterable|sequence|mapping)|\.type\b|\[['"]type['"]\]/.test(source);
  return messages.map((m) => {
    if (knowsParts || typeof m.content === 'string') return m;
    const parts = /** @type {{ type?: string, text?: string }[]} */ (m.content);
    const odd = parts.find((p) => p?.type !== 'text' || typeof p.text !== 'string');
    if (odd !== undefined) {
      throw new HeadlightError(
        'UNSUPPORTED',
        `chat: this model takes text only, and a part is of type "${odd?.type}"`,
      );
    }
    return { ...m, content: parts.map((p) => p.text).join('') };
  });
}

/** Renders chats for one model. */
export class Chat {
  /** @type {import('./template.js').ChatTemplate | undefined} */
  #template;
  /** @type {Markers | undefined} */
  #markers;
  /** Markers to whether they take the white space behind them. @type {Map<number, boolean>} */
  #stripping = new Map();

  /**
   * @param {import('./wasm.js').Core} core with a header
   * @param {string | undefined} given a template of the caller's
   */
  constructor(core, given) {
    this.core = core;
    const stored = core.meta('tokenizer.chat_template');
    const has = (/** @type {string} */ text) => {
      const ids = core.tokenize(text, SPECIAL);
      return (
        ids.length > 0 && core.isControl(ids[ids.length - 1]) && core.tokenText(ids[ids.length - 1]) === text
      );
    };
    const picked = pickTemplate(given, typeof stored === 'string' ? stored : undefined, has);
    this.source = picked.source;
    this.from = picked.from;
    this.warning = picked.warning;
  }

  /** @returns {Markers} */
  get markers() {
    return (this.#markers ??= Markers.of(this.core));
  }

  /** The library and the template are taken when the first chat needs them. */
  async template() {
    if (!this.#template) {
      const { ChatTemplate } = await import('./template.js');
      this.#template = new ChatTemplate(this.source, `from ${this.from}`);
    }
    return this.#template;
  }

  /** @param {number} id */
  #tokenText(id) {
    return id < 0 ? '' : this.core.tokenText(id);
  }

  /**
   * Whether a marker takes the white space behind it, as Phi-3's do.
   * @param {number} id
   */
  #strips(id) {
    let known = this.#stripping.get(id);
    if (known === undefined) {
      known = this.core.tokenize(`${this.core.tokenText(id)}\n`, SPECIAL).length === 1;
      this.#stripping.set(id, known);
    }
    return known;
  }

  /**
   * @param {unknown} messages
   * @param {import('./types.js').TemplateOptions} options
   * @returns {Promise<{ text: string, disguise: Disguise }>} text with markers of messages still hidden
   */
  async #run(messages, { addGenerationPrompt = true, variables = {} }) {
    checkMessages(messages);
    checkPlain(messages, 'chat: messages');
    checkPlain(variables, 'chat: variables');
    const template = await this.template();
    const joined = joinParts(messages, this.source);
    const disguise = new Disguise(this.markers, JSON.stringify([joined, variables]) + this.source);
    const { bos, eos } = this.core.info();
    const text = template.render({
      bos_token: this.#tokenText(bos),
      eos_token: this.#tokenText(eos),
      ...disguise.hide(variables),
      messages: disguise.hide(joined),
      add_generation_prompt: addGenerationPrompt,
    });
    return { text, disguise };
  }

  /**
   * @param {unknown} messages
   * @param {import('./types.js').TemplateOptions} options
   * @returns {Promise<string>} the prompt as text
   */
  async render(messages, options) {
    const { text, disguise } = await this.#run(messages, options);
    return disguise.restore(text);
  }

  /**
   * @param {unknown} messages
   * @param {import('./types.js').TemplateOptions} options
   * @returns {Promise<Int32Array>} the prompt as ids; BOS once, where the tokenizer wants it
   */
  async encode(messages, options) {
    const { text, disguise } = await this.#run(messages, options);
    /** @type {number[]} */
    const ids = [];
    let strips = false;
    for (const part of this.markers.split(text)) {
      if (typeof part === 'number') {
        ids.push(part);
        strips = this.#strips(part);
        continue;
      }
      const words = strips ? part.replace(/^\p{White_Space}+/u, '') : part;
      strips = false;
      for (const id of this.core.tokenize(disguise.restore(words), 0)) ids.push(id);
    }
    const { bos, addBos } = this.core.info();
    if (addBos && bos >= 0 && ids[0] !== bos) ids.unshift(bos);
    return Int32Array.from(ids);
  }

  /**
   * How much of a prompt comes before what the first message that is not the system's says: the system message, in
   * whatever way the template writes it, or the one that the template itself brings.
   * @param {import('./types.js').Message[]} messages
   * @param {import('./types.js').TemplateOptions} options
   * @param {Int32Array} ids what encode() makes of them
   * @returns {Promise<number>} tokens
   */
  async head(messages, options, ids) {
    const first = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer');
    if (first < 0) return ids.length;
    const begun = messages.slice(0, first + 1);
    begun[first] = { ...messages[first], content: otherThan(messages[first].content) };
    try {
      return commonPrefix(ids, await this.encode(begun, options));
    } catch (error) {
      // Some templates want more than a beginning.
      if (error instanceof HeadlightError && error.code === 'TEMPLATE') return 0;
      throw error;
    }
  }
}

/**
 * @param {import('./types.js').Message['content']} content
 * @returns {string} one that begins otherwise
 */
function otherThan(content) {
  const text = typeof content === 'string' ? content : JSON.stringify(content.map((p) => Object(p).text));
  return text.replace(/^[\s["]+/, '').startsWith('A') ? 'B' : 'A';
}

/** Flags of the tokenizer for a raw prompt: markers count, and BOS comes first where the tokenizer adds it. */
export const RAW_PROMPT = SPECIAL | BOS;
