// What the bench needs beyond `make setup`: llama.cpp from npm, and models made from the one that is there.
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const root = fileURLToPath(new URL('../../', import.meta.url));
const cache = `${root}models/cache/`;

/** Installs node-llama-cpp beside the bench (83 MB). @returns {string | undefined} why it is not there */
export function prepareLlamaCpp() {
  const folder = `${root}tests/bench`;
  if (existsSync(`${folder}/node_modules/node-llama-cpp/package.json`)) return undefined;
  console.log('bench: installing node-llama-cpp, the native reference (83 MB, about 20 seconds)');
  const args = ['ci', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  return status === 0 ? undefined : 'npm ci in tests/bench failed: there is no native reference in this run';
}

/** Python with numpy and gguf, in an environment of its own. */
function python() {
  const venv = `${root}.toolchain/models-venv`;
  if (!existsSync(`${venv}/bin/.ready`)) {
    console.log('bench: installing numpy and gguf for Python (about 20 seconds)');
    execFileSync('python3', ['-m', 'venv', venv], { stdio: 'inherit' });
    const packages = ['gguf==0.19.0', 'numpy==2.4.6'];
    const args = ['install', '--quiet', '--disable-pip-version-check', ...packages];
    execFileSync(`${venv}/bin/pip`, args, { stdio: 'inherit' });
    execFileSync('touch', [`${venv}/bin/.ready`]);
  }
  return `${venv}/bin/python`;
}

/** @param {string} path @returns {Promise<string>} hex */
function sha256(path) {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha256');
    createReadStream(path)
      .on('data', (piece) => hash.update(piece))
      .on('end', () => resolve(hash.digest('hex')))
      .on('error', reject);
  });
}

/** @param {string} name @param {string} file @returns {Promise<import('./race.js').Model>} */
async function describe(name, file) {
  const path = cache + file;
  return { name, path, url: `/models/cache/${file}`, sha256: await sha256(path) };
}

/**
 * What a file holds.
 * @param {string} path
 * @returns {Promise<{ name: string, type: string, dims: number[], bytes: number }[]>}
 */
export async function tensorsOf(path) {
  const args = [`${root}web/bin/headlight.js`, 'inspect', path, '--json'];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1 << 26 });
  return JSON.parse(stdout).tensors;
}

const smollm2 = 'SmolLM2-135M-Instruct';

/**
 * @param {'Q4_1' | 'Q4_0' | 'Q8_0'} type
 * @returns {Promise<import('./race.js').Model>}
 */
export async function smollm2Model(type) {
  const source = `${cache}${smollm2}.Q4_1.gguf`;
  const file = `${smollm2}.${type}.gguf`;
  if (!existsSync(source)) throw new Error('SmolLM2 is missing: run models/fetch smollm2-135m-instruct-q4_1');
  if (!existsSync(cache + file)) {
    console.log(`bench: making ${file}`);
    execFileSync(python(), [`${root}models/requantize.py`, source, type, cache + file], { stdio: 'inherit' });
  }
  return describe(`SmolLM2-135M ${type}`, file);
}

/** @type {Record<string, { name: string, layers?: number }>} of models/random_model.py */
const shapes = {
  'llama-1b': { name: 'random Llama 1B Q4_0' },
  mla: { name: "random MLA, 2 layers as MiniCPM3's, Q4_0", layers: 2 },
  gqa: { name: 'random GQA, 2 layers of that size, Q4_0', layers: 2 },
};

/**
 * A model of random weights: for speed only.
 * @param {'llama-1b' | 'mla' | 'gqa'} shape
 */
export async function randomModel(shape) {
  const { name, layers } = shapes[shape];
  const file = `random-${shape}${layers ? `-${layers}` : ''}.Q4_0.gguf`;
  if (!existsSync(cache + file)) {
    console.log(`bench: making ${file} (${shape === 'llama-1b' ? 700 : 75} MB)`);
    const source = `${cache}${smollm2}.Q4_1.gguf`;
    const args = [shape, source, cache + file, ...(layers ? [String(layers)] : [])];
    execFileSync(python(), [`${root}models/random_model.py`, ...args], { stdio: 'inherit' });
  }
  return describe(name, file);
}

/** @returns {Promise<import('./race.js').Model | undefined>} when its owner's terms were accepted at set-up */
export async function gemmaModel() {
  const file = 'gemma-3-270m-q4_k_m.gguf';
  return existsSync(cache + file) ? describe('Gemma 3 270M Q4_K_M', file) : undefined;
}
