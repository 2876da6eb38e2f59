// Where a model first leaves its golden values: diff.js MODEL.gguf GOLDEN.json [--tolerance X] [options of headlight eval]
// Goes through the model in order: the embedding; of each layer the attention, the router and the residual stream behind
// it; the final norm; the logits. Exit 0: nothing is beyond the tolerance; 1: the first that is; 2: wrong usage.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {{ name: string, off: number, where: string, got: number, want: number }} Step how far one tap is off, at its
 *   worst number
 */

/**
 * The largest difference between two nested arrays of the same shape.
 * @param {any} got @param {any} want @param {number[]} [at]
 * @returns {{ off: number, at: number[], got: number, want: number }}
 */
function worst(got, want, at = []) {
  if (!Array.isArray(want)) {
    const off = typeof got === 'number' ? Math.abs(got - want) : Infinity;
    return { off: Number.isNaN(off) ? Infinity : off, at, got, want };
  }
  let most = { off: got?.length === want.length ? 0 : Infinity, at, got: NaN, want: NaN };
  want.forEach((value, i) => {
    const here = worst(got?.[i], value, [...at, i]);
    if (here.off > most.off) most = here;
  });
  return most;
}

/** Rows sorted by expert: a golden list may be in another order. @param {{ experts: number[][], weights: number[][] }} r */
const byExpert = (r) =>
  r.experts.map((ids, row) => ids.map((id, i) => [id, r.weights[row][i]]).sort((a, b) => a[0] - b[0]));

/**
 * Everything that a golden file holds, in the order in which the model computes it.
 * @param {any} out answer of headlight eval @param {any} golden
 * @returns {Step[]}
 */
export function compare(out, golden) {
  /** @type {Step[]} */
  const steps = [];
  /** @param {string} name @param {string[]} axes @param {any} got @param {any} want */
  const add = (name, axes, got, want) => {
    const { off, at, ...values } = worst(got, want);
    steps.push({ name, off, where: at.map((n, i) => `${axes[i]} ${n}`).join(', '), ...values });
  };
  const { attention, hidden_last: hidden, router = {} } = golden;
  add('embedding', ['column'], out.hidden.embed, hidden.embed);
  for (let layer = 0; hidden[`layer_${layer}`]; layer++) {
    const held = attention.layers.indexOf(layer);
    if (held >= 0) {
      const rows = out.attention[layer]?.map((/** @type {any} */ head) =>
        attention.rows.map((/** @type {number} */ row) => head[row]),
      );
      add(`layer ${layer}, attention`, ['head', 'row', 'key'], rows, attention.weights[held]);
    }
    if (router[layer] && out.router[layer]) {
      const [got, want] = [out.router[layer], router[layer]].map(byExpert);
      add(`layer ${layer}, router`, ['position', 'choice', 'expert or weight'], got, want);
    }
    add(`layer ${layer}, output`, ['column'], out.hidden[`layer_${layer}`], hidden[`layer_${layer}`]);
  }
  add('final norm', ['column'], out.hidden.final_norm, hidden.final_norm);
  add('logits', ['token'], out.logits, golden.logits_last);
  return steps;
}

/** @param {string} model @param {any} golden @param {string[]} options */
function evaluate(model, golden, options) {
  const bin = fileURLToPath(new URL('../../web/bin/headlight.js', import.meta.url));
  const question = {
    tokens: golden.tokens,
    logits: true,
    hidden: true,
    router: true,
    attention: golden.attention.layers,
  };
  const defaults = ['--kv', 'f32', '--precision', 'high'];
  const run = spawnSync(process.execPath, [bin, 'eval', model, '--json', ...defaults, ...options], {
    input: JSON.stringify(question),
    encoding: 'utf8',
    maxBuffer: 2 ** 30,
  });
  const answer = run.status === 0 ? JSON.parse(run.stdout) : { error: { message: run.stderr.trim() } };
  if (answer.error) throw new Error(answer.error.message);
  return answer;
}

/** @param {string[]} args */
function main(args) {
  const at = args.indexOf('--tolerance');
  const tolerance = at < 0 ? 1e-4 : Number(args[at + 1]);
  if (at >= 0) args.splice(at, 2);
  const [model, file, ...options] = args;
  if (!file || !(tolerance >= 0)) {
    console.error('usage: tests/golden/diff MODEL GOLDEN [--tolerance X] [options of headlight eval]');
    return 2;
  }
  const golden = JSON.parse(readFileSync(file, 'utf8'));
  const steps = compare(evaluate(model, golden, options), golden);
  const first = steps.find((step) => !(step.off <= tolerance));
  if (!first) {
    const most = Math.max(...steps.map((step) => step.off));
    console.log(
      `no difference beyond ${tolerance} in ${steps.length} taps; the largest is ${most.toPrecision(3)}`,
    );
    return 0;
  }
  const { name, off, where, got, want } = first;
  console.log(
    `${name} is the first beyond ${tolerance}: off by ${off.toPrecision(3)} at ${where} (${got}, not ${want})`,
  );
  return 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
