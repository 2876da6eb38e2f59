import { createInterface } from 'node:readline';
import { isAbort } from '../errors.js';
import { load } from '../index.js';
import { OVERFLOWS } from '../model.js';
import { KV_TYPES } from '../wasm.js';
import { checkChoice, oneModel, parseArgs } from './args.js';
import { findModel, knownName } from './models.js';
import { progressBar } from './progress.js';
import { readTemplate } from './text.js';
import { write } from './json.js';

const OPTIONS = /** @type {const} */ ({
  prompt: 'text',
  system: 'text',
  temperature: 'number',
  'top-k': 'count',
  'top-p': 'number',
  'min-p': 'number',
  seed: 'seed',
  'max-tokens': 'count',
  ctx: 'size',
  kv: 'text',
  overflow: 'text',
  precision: 'text',
  threads: 'size',
  template: 'text',
  pretokenizer: 'text',
});

const HELP = `/help     this list
/new      begin a new chat
/system TEXT   set the system prompt and begin a new chat
/exit     end (Ctrl-D too); Ctrl-C stops an answer
`;

/**
 * headlight chat: one answer with --prompt, else a chat in the terminal.
 * @param {string[]} argv
 * @returns {Promise<number>} exit code
 */
export async function chatCommand(argv) {
  const { options, rest } = parseArgs(argv, OPTIONS);
  const model = oneModel(rest, 'chat');
  checkChoice(options.kv, KV_TYPES, 'kv');
  checkChoice(options.precision, ['fast', 'high'], 'precision');
  checkChoice(options.overflow, OVERFLOWS, 'overflow');
  return chat(await findModel(model), options);
}

/**
 * @param {string} path of the model, or its URL
 * @param {Record<string, any>} options
 * @returns {Promise<number>} exit code
 */
async function chat(path, options) {
  const template = options.template === undefined ? undefined : readTemplate(options.template).source;
  const model = await load(path, {
    context: options.ctx,
    kv: options.kv,
    precision: options.precision,
    threads: options.threads,
    overflow: options.overflow,
    template,
    pretokenizer: options.pretokenizer,
    onProgress: progressBar(path),
  });
  for (const warning of model.info.warnings) process.stderr.write(`${warning}\n`);
  // As on the page: small models wander at the package's defaults.
  const sampling = {
    temperature: options.temperature ?? 0.2,
    topK: options['top-k'],
    topP: options['top-p'] ?? 0.9,
    minP: options['min-p'],
    seed: options.seed,
    maxTokens: options['max-tokens'],
  };
  const talk = new Talk(model, knownName(path) ?? model.info.name, sampling, options.system);
  try {
    if (options.prompt === undefined) return await talk.interactive();
    await talk.say(options.prompt);
    return 0;
  } finally {
    await model.dispose();
  }
}

/** A chat: its messages, and how the next answer is made. */
class Talk {
  /**
   * @param {import('../types.js').Model} model
   * @param {string} name of the model
   * @param {import('../types.js').GenerateOptions} sampling
   * @param {string | undefined} system
   */
  constructor(model, name, sampling, system) {
    this.model = model;
    this.name = name;
    this.sampling = sampling;
    this.system = system;
    /** @type {import('../types.js').Message[]} */
    this.messages = [];
    /** @type {AbortController | undefined} */
    this.answering = undefined;
    this.begin();
  }

  begin() {
    this.messages = this.system === undefined ? [] : [{ role: 'system', content: this.system }];
  }

  /**
   * @param {import('../types.js').Result} result
   * @returns {boolean} whether the context ended it, and not --max-tokens
   */
  #isFull({ finishReason, tokens }) {
    return finishReason === 'length' && tokens.length < (this.sampling.maxTokens ?? Infinity);
  }

  /** @param {string} prompt */
  async say(prompt) {
    this.messages.push({ role: 'user', content: prompt });
    this.answering = new AbortController();
    const answer = this.model.chat(this.messages, { ...this.sampling, signal: this.answering.signal });
    let begun = false;
    try {
      for await (const { text } of answer) {
        await write(text);
        begun = true;
      }
    } catch (error) {
      if (begun && !isAbort(error)) await write('\n');
      if (!isAbort(error)) {
        this.messages.pop();
        throw error;
      }
    } finally {
      this.answering = undefined;
    }
    await write('\n');
    const result = await answer;
    this.messages.push({ role: 'assistant', content: result.text });
    if (this.#isFull(result)) {
      const { context } = this.model.info;
      process.stderr.write(
        `The answer is cut off: the context of ${context} positions is full. --ctx N makes it larger; --overflow slide goes on ` +
          'without the oldest text.\n',
      );
    }
    return result.timings;
  }

  /**
   * Reads lines until the end.
   * @returns {Promise<number>} exit code: 1 when a line that no person typed had no answer
   */
  async interactive() {
    const terminal = Boolean(process.stdin.isTTY);
    let failed = false;
    const lines = createInterface({
      input: process.stdin,
      output: terminal ? process.stderr : undefined,
      terminal,
    });
    lines.on('SIGINT', () => {
      if (this.answering) this.answering.abort();
      else lines.close();
    });
    lines.setPrompt(terminal ? '> ' : '');
    if (terminal) process.stderr.write(`${this.name}. /help lists the commands.\n`);
    lines.prompt();
    for await (const line of lines) {
      if (line.trim() === '/exit') break;
      if (line.startsWith('/')) this.command(line.trim());
      else if (line.trim() !== '' && !(await this.turn(line))) failed = true;
      lines.prompt();
    }
    lines.close();
    return failed && !terminal ? 1 : 0;
  }

  /** @param {string} line @returns {Promise<boolean>} false: an error, which is on stderr */
  async turn(line) {
    try {
      const { promptPerSecond, decodePerSecond } = await this.say(line);
      if (process.stderr.isTTY) {
        const rates = `${promptPerSecond.toFixed(0)} tokens/s prompt, ${decodePerSecond.toFixed(1)} tokens/s answer`;
        process.stderr.write(`(${rates})\n`);
      }
      return true;
    } catch (error) {
      process.stderr.write(`${/** @type {Error} */ (error).message}\n`);
      return false;
    }
  }

  /** @param {string} line */
  command(line) {
    const [name, ...words] = line.split(' ');
    if (name === '/new') this.begin();
    else if (name === '/system') {
      this.system = words.join(' ') || undefined;
      this.begin();
    } else process.stderr.write(name === '/help' ? HELP : `there is no ${name}\n${HELP}`);
  }
}
