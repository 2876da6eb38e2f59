import { UsageError } from './args.js';

/** What `headlight help` prints. @type {Record<string, string>} */
const TOPICS = {
  chat: `headlight chat MODEL [--prompt TEXT] [--system TEXT] [--temperature X] [--top-k N] [--top-p X] [--min-p X]
               [--seed N] [--max-tokens N] [--ctx N] [--overflow stop|slide|error] [--kv f32|f16|q8_0]
               [--precision fast|high] [--threads N] [--template FILE] [--pretokenizer NAME]
    Answers --prompt, or chats in the terminal: Ctrl-C stops an answer, /help lists commands. Defaults: temperature
    0.2, top-p 0.9, as on the page. --overflow: a full context ends the answer (stop, the default), goes on without the
    oldest text behind the system prompt (slide), or is an error.`,
  eval: `headlight eval MODEL --json [--kv f32|f16|q8_0] [--precision fast|high] [--variant relaxed|simd|single]
               [--threads N] [--ctx N] [--chunk N] [--mla auto|absorbed|expanded] [--pretokenizer NAME]
    JSON lines. In: "tokens" (ids) or "text"; "positions": "last" (default) or "all"; and any of "logits": true,
    "top": k, "attention": [layers], "hidden": true, "router": true, "greedy": n.
    Out: "tokens", "logits", "top" ([id, natural-log probability]; for "all" a list for each position),
    "attention" ({layer: [head][row][column]}), "hidden" (of the last token), "router"
    ({layer: {"experts": [position][k], "weights": [position][k]}}), "greedy" (ids).
    Each line is a new context. --chunk feeds n tokens at a time, at most 64.`,
  tokenize: `headlight tokenize MODEL --json [--pretokenizer NAME]
    JSON lines. In: "text", "special": true parses control markers in it, "bos": true begins as a text begins.
    Out: "ids".`,
  detokenize: `headlight detokenize MODEL --json [--pretokenizer NAME]
    JSON lines. In: "ids", "special": true shows control tokens. Out: "text".`,
  template: `headlight template MODEL --json [--pretokenizer NAME]
headlight template --template FILE --json
    JSON lines. In: the template's variables (messages, tools, add_generation_prompt, ..). Out: "text".`,
  sample: `headlight sample --json
    JSON lines. In: "logits" (numbers, or "-inf", "inf", "nan"), "params" (temperature, top_k, top_p, min_p, typical_p,
    repeat_penalty, repeat_last_n, frequency_penalty, presence_penalty, logit_bias, seed), "history" (ids), "draws": n.
    Out: "probs", the distribution that is drawn from, and "tokens", the draws. Steps that are not named are off.`,
  inspect: `headlight inspect MODEL [--json] [--check] [--ctx N] [--pretokenizer NAME]
    Metadata, hyperparameters, tensors, packed size; what the cache takes a token, and in all at the model's context or
    at N positions, in each type, beside what other kinds of attention would take (docs/kv-cache.md). --check: exit code 1
    and the reason where the file cannot be run, or is cut short, as far as the header and the file's size tell.`,
};

/**
 * @param {string | undefined} topic a command
 * @returns {string}
 * @throws {UsageError} there is no such command
 */
export function help(topic) {
  if (topic !== undefined) {
    if (Object.hasOwn(TOPICS, topic)) return `${TOPICS[topic]}\n`;
    throw new UsageError(`there is no command "${topic}"; there are ${Object.keys(TOPICS).join(', ')}`);
  }
  return `${Object.values(TOPICS).join('\n\n')}

headlight help [COMMAND], or COMMAND --help; headlight --version

MODEL is a path, a URL, or a name of models/manifest.json (fetched once, verified; the installed package keeps it in the
user's cache folder). Of a model that is split into files it
is the first one, NAME-00001-of-0000N.gguf; the others are found beside it. --pretokenizer NAME, for every command with a MODEL,
cuts text as that pre-tokenizer does (llama-bpe, qwen2, ..) instead of the one that the file names.
Exit code: 0; 1 with one line on stderr when the input is at fault; 2 for wrong usage.
JSON lines: one object a line on stdin, one answer a line on stdout, in order; a line that fails answers
{"error": {"code", "message"}}.
`;
}
