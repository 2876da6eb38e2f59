// The bench: node tests/bench/run.js [--quick] [--only a,b] [--rounds n] [--big]
//   --quick   SmolLM2 Q4_1 with 2 threads in Chromium and Node, prefill and decode only
//   --only    some of plan.js's experiments, by name
//   --rounds  of each, instead of its own number
//   --big     a model of 1.1 B random weights too
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { newestNode, startBrowser } from './hosts.js';
import * as machine from './machine.js';
import { buildPage } from './page/build.js';
import { peers, planExperiments, quickNames } from './plan.js';
import { prepareLlamaCpp, root, smollm2Model } from './prepare.js';
import { promptFor, watchSteal, withRunners } from './race.js';
import { reasonsNotToQuote, textTable } from './report.js';
import { saveResult } from './save.js';
import { startServer } from './server.js';
import { candidates, tune } from './tune.js';

const begun = Date.now();

/** @param {string} text */
function log(text) {
  const seconds = Math.round((Date.now() - begun) / 1000);
  console.log(`${String(seconds).padStart(5)} s  ${text}`);
}

/** @param {string} folder with a package.json @returns {string} */
function packageVersion(folder) {
  return JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8')).version;
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      big: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
    },
  });
  return { ...values, rounds: values.rounds ? Number(values.rounds) : undefined };
}

/**
 * Tries the peers' settings.
 * @param {import('./plan.js').Bench} bench @param {import('./race.js').Model} model @param {boolean} native
 * @returns {Promise<{ best: Record<string, Record<string, any>>, trials: import('./tune.js').Trial[] }>}
 */
async function tunePeers(bench, model, native) {
  const { wllama2, wllama3, native: llamaCpp } = peers;
  const sizes = { threads: 2, context: 512 };
  const prompt = await withRunners(bench, [wllama2], model, sizes, (runners) => promptFor(runners, 128));
  const trials = [];
  /** @type {Record<string, Record<string, any>>} */
  const best = {};
  for (const peer of native ? [wllama2, wllama3, llamaCpp] : [wllama2, wllama3]) {
    const tried = await tune(bench, peer, model, { threads: 2, prompt });
    best[peer.peer] = tried[0].settings;
    trials.push(...tried);
  }
  return { best, trials };
}

async function main() {
  const options = readOptions();
  const described = machine.describeMachine();
  const loadBefore = await machine.foreignLoad(3000);
  const averageBefore = machine.loadAverage();
  log(`${described.cpu}, ${described.cores} cores, ${(100 * loadBefore).toFixed(0)} % busy before the run`);

  const smollm2 = await smollm2Model('Q4_1');
  const noNative = prepareLlamaCpp();
  if (noNative) log(noNative);
  const experiments = planExperiments({ ...options, native: !noNative }, smollm2);
  const usual = options.quick ? quickNames : Object.keys(experiments);
  const names = options.only ? options.only.split(/[\s,]+/) : usual;
  const unknown = names.filter((name) => !(name in experiments));
  if (unknown.length) {
    throw new Error(`no experiment ${unknown.join(', ')}: there are ${Object.keys(experiments).join(' ')}`);
  }

  await buildPage(`${root}build/bench/page`);
  const server = await startServer(root);
  const browser = await startBrowser(server.origin);
  const stolen = watchSteal();
  const whole = !options.quick && !options.only;
  /** @type {Record<string, Record<string, any>>} */
  let best = {};
  /** @type {import('./plan.js').Bench} */
  const bench = {
    openPage: browser.openPage,
    takeFetched: server.takeFetched,
    log,
    tables: [],
    pauses: [],
    says: {},
    settingsOf: (peer) => best[peer] ?? candidates[peer]?.[0] ?? {},
  };
  /** @type {import('./tune.js').Trial[]} */
  let trials = [];
  if (whole) ({ best, trials } = await tunePeers(bench, smollm2, !noNative));

  /** @type {import('./report.js').Figure[]} */
  const figures = [];
  /** @type {string[]} */
  const failures = [];
  for (const name of names) {
    log(`--- ${name}`);
    try {
      figures.push(...(await experiments[name](bench)));
    } catch (error) {
      failures.push(`${name} failed: ${/** @type {Error} */ (error).message.split('\n')[0]}`);
      log(failures[failures.length - 1]);
    }
  }
  await browser.close();
  await server.close();

  const steal = stolen();
  const pauses = bench.pauses.length ? bench.pauses : [loadBefore];
  const reasons = [...reasonsNotToQuote({ loadBefore, pauses, steal, cores: described.cores }), ...failures];
  const { buildId } = await import('headlight-wasm');
  const git = (/** @type {string[]} */ ...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
  const result = {
    date: new Date().toISOString().slice(0, 10),
    quick: options.quick,
    quotable: reasons.length === 0,
    reasons,
    seconds: Math.round((Date.now() - begun) / 1000),
    machine: described,
    load: { loadBefore, averageBefore, averageAfter: machine.loadAverage(), steal, pauses },
    versions: {
      headlight: packageVersion('web'),
      buildId,
      commit: git('rev-parse', '--short', 'HEAD').trim(),
      chromium: browser.version,
      node: machine.versionOf(newestNode()),
      wllama2: packageVersion('node_modules/wllama-2'),
      wllama3: packageVersion('node_modules/@wllama/wllama'),
      nodeLlamaCpp: noNative ? 'not there' : packageVersion('tests/bench/node_modules/node-llama-cpp'),
    },
    model: { name: smollm2.name, sha256: smollm2.sha256 },
    engines: bench.says,
    trials,
    figures,
    tables: bench.tables,
  };
  console.log(`\n${textTable(figures, bench.tables)}\n`);
  for (const file of saveResult(result, root, whole)) console.log(`wrote ${file}`);
  if (reasons.length) console.log(`NOT QUOTABLE:\n  ${reasons.join('\n  ')}`);
  if (failures.length) process.exitCode = 1;
}

await main();
