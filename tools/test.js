// Runs every kind of test, goes on after a failure, and ends with a table and `N passed, N failed`.
//   node tools/test.js [STEP...]   only the named steps
// Counts are read from a step's own closing lines; a step that counts nothing is one test.
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readdirSync } from 'node:fs';

const logs = 'build/test-logs';

/** @param {string} folder @returns {string[]} test files, sorted */
function testFiles(folder) {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder, { recursive: true }).map(String);
  const files = names.filter((name) => name.endsWith('.test.js'));
  return files.sort().map((name) => `${folder}/${name}`);
}

/** @param {string} target */
const make = (target) => ['make', '--no-print-directory', '-j2', target];

// One file after the other: each may use both cores. A file that hangs ends after a quarter of an hour. A test that hangs ends after a quarter of an hour.
const nodeTests = ['node', '--test', '--test-concurrency=1', '--test-timeout=900000', '--test-reporter=spec'];

/** @typedef {{ name: string, command: string[], files?: string[], needsBuild?: boolean }} Step */
/** @type {Step[]} */
const steps = [
  { name: 'native', command: make('native') },
  { name: 'wasm', command: make('wasm') },
  { name: 'ctest-native', command: make('ctest-native') },
  { name: 'ctest-relaxed', command: make('ctest-relaxed') },
  { name: 'ctest-simd', command: make('ctest-simd') },
  { name: 'ctest-single', command: make('ctest-single') },
  { name: 'fuzz', command: [...make('fuzz'), `FUZZ_SECONDS=${process.env.FUZZ_SECONDS ?? 10}`] },
  { name: 'types', command: ['node', 'tools/types.js'] },
  { name: 'format', command: ['tools/format', '--check'] },
  {
    name: 'node',
    command: nodeTests,
    files: ['tests/node', 'demo/test'].flatMap(testFiles),
    needsBuild: true,
  },
  { name: 'browser', command: nodeTests, files: testFiles('tests/browser'), needsBuild: true },
];

/** @typedef {{ name: string, passed: number, failed: number, skipped: number, seconds: number }} Outcome */

/**
 * What a step's output says of itself: `N passed, N failed[, N skipped]`, or the summary of Node's runner.
 * @param {string} text @param {boolean} ok whether it exited with 0
 */
function counts(text, ok) {
  let [passed, failed, skipped] = [0, 0, 0];
  for (const [, p, f, s] of text.matchAll(/^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/gm)) {
    passed += Number(p);
    failed += Number(f);
    skipped += Number(s ?? 0);
  }
  const count = (/** @type {string} */ word) => {
    const found = [...text.matchAll(new RegExp(`^(?:ℹ|#) ${word} (\\d+)$`, 'gm'))].pop();
    return found ? Number(found[1]) : 0;
  };
  passed += count('pass');
  failed += count('fail') + count('cancelled');
  skipped += count('skipped') + count('todo');
  skipped += [...text.matchAll(/^SKIPPED STEP/gm)].length;
  if (passed + failed + skipped === 0 && ok) passed = 1;
  if (!ok && failed === 0) failed = 1;
  return { passed, failed, skipped };
}

/** @param {Step} step @returns {Promise<Outcome>} */
async function run(step) {
  const start = Date.now();
  const [program, ...args] = [...step.command, ...(step.files ?? [])];
  console.log(
    `\n=== ${step.name}: ${step.command.join(' ')}${step.files ? ` (${step.files.length} files)` : ''}`,
  );
  const log = createWriteStream(`${logs}/${step.name}.log`);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  for (const [from, to] of /** @type {const} */ ([
    [child.stdout, process.stdout],
    [child.stderr, process.stderr],
  ])) {
    from.setEncoding('utf8').on('data', (/** @type {string} */ piece) => {
      text += piece;
      log.write(piece);
      to.write(piece);
    });
  }
  const status = await new Promise((resolve) => child.on('error', () => resolve(1)).on('close', resolve));
  log.end();
  return { name: step.name, ...counts(text, status === 0), seconds: (Date.now() - start) / 1000 };
}

mkdirSync(logs, { recursive: true });
const wanted = process.argv.slice(2);
const unknown = wanted.filter((word) => !steps.some((step) => step.name === word));
if (unknown.length) {
  console.error(`no step ${unknown.join(', ')}: there are ${steps.map((step) => step.name).join(' ')}`);
  process.exit(2);
}

/** @type {Outcome[]} */
const outcomes = [];
for (const step of steps) {
  if (wanted.length && !wanted.includes(step.name)) continue;
  const none = { name: step.name, passed: 0, seconds: 0 };
  if (step.files?.length === 0) {
    console.log(`\n=== ${step.name}: SKIPPED, there is no test file`);
    outcomes.push({ ...none, failed: 0, skipped: 1 });
  } else if (step.needsBuild && outcomes.some((o) => o.name === 'wasm' && o.failed)) {
    console.log(`\n=== ${step.name}: not run, the build has failed`);
    outcomes.push({ ...none, failed: 1, skipped: 0 });
  } else {
    outcomes.push(await run(step));
  }
}

const sum = (/** @type {'passed' | 'failed' | 'skipped'} */ key) => outcomes.reduce((n, o) => n + o[key], 0);
console.log('\n=== summary');
for (const { name, passed, failed, skipped, seconds } of outcomes) {
  const skips = skipped ? `${skipped} SKIPPED` : '';
  console.log(
    `${name.padEnd(14)}${String(passed).padStart(5)} passed ${String(failed).padStart(4)} failed ${seconds.toFixed(0).padStart(5)} s  ${skips}`,
  );
}
const skippedInCi = process.env.CI ? sum('skipped') : 0;
if (skippedInCi) console.log('In CI a skipped test is a failure.');
const skipped = sum('skipped') - skippedInCi;
const failed = sum('failed') + skippedInCi;
console.log(`${sum('passed')} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed ? 1 : 0;
