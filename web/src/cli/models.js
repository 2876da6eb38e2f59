import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { HeadlightError } from '../errors.js';
import { openSource } from '../source.js';
import { progressBar } from './progress.js';

/**
 * @typedef {{ id: string, name: string, file: string, sha256: string, size: number, urls: string[],
 *   terms?: { url: string, accept: string } }} Entry of models/manifest.json
 * @typedef {object} Catalogue models that have a short name
 * @property {Entry[]} entries
 * @property {string} cache folder of the files
 * @property {(entry: Entry, path: string) => Promise<void>} bring the file to this path
 */

/** @param {string} manifest @returns {Entry[]} */
const entriesOf = (manifest) => JSON.parse(readFileSync(manifest, 'utf8')).models;

/**
 * The project that this file is a part of, or that the current folder lies in: models/ has its manifest and fetches.
 * @returns {string | undefined} that folder
 */
function projectModels() {
  const own = fileURLToPath(new URL('../../../models', import.meta.url));
  const isIt = (/** @type {string} */ models) =>
    existsSync(join(models, 'manifest.json')) && existsSync(join(models, 'fetch'));
  if (isIt(own)) return own;
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    if (isIt(join(folder, 'models'))) return join(folder, 'models');
    if (folder === dirname(folder)) return undefined;
  }
}

/** Where programs keep what they can fetch again. */
function userCache() {
  const { platform, env } = process;
  const home = homedir();
  if (platform === 'win32') return env.LOCALAPPDATA ?? join(home, 'AppData', 'Local');
  if (platform === 'darwin') return join(home, 'Library', 'Caches');
  return env.XDG_CACHE_HOME ?? join(home, '.cache');
}

/** @returns {Catalogue} of the project; or of the installed package, which has a copy of the manifest */
function catalogue() {
  const models = projectModels();
  if (models) {
    const entries = entriesOf(join(models, 'manifest.json'));
    return { entries, cache: join(models, 'cache'), bring: (entry) => fetchByProject(models, entry) };
  }
  const copy = fileURLToPath(new URL('../../dist/models.json', import.meta.url));
  const entries = existsSync(copy) ? entriesOf(copy) : [];
  return { entries, cache: join(userCache(), 'headlight'), bring: download };
}

/**
 * @param {string} model a path or a URL
 * @returns {string | undefined} what models/manifest.json calls a file of this name
 */
export function knownName(model) {
  return catalogue().entries.find((entry) => entry.file === basename(model))?.name;
}

/**
 * @param {string} models folder
 * @param {Entry} entry
 */
async function fetchByProject(models, { id, file }) {
  const { status } = spawnSync(join(models, 'fetch'), [id], { stdio: ['ignore', 2, 2] });
  if (status !== 0 || !existsSync(join(models, 'cache', file))) {
    throw new HeadlightError('NETWORK', `${id}: it could not be fetched; models/fetch ${id} says why`);
  }
}

/**
 * @param {Entry} entry
 * @param {string} path of the file, which is there when it is whole and the right one
 * @returns {Promise<void>}
 * @throws {HeadlightError} NOT_FOUND, NETWORK, CHECKSUM
 */
export async function download(entry, path) {
  const { id, name, urls, terms } = entry;
  if (terms && process.env[terms.accept] !== '1') {
    const what = `${name} has terms of use: read ${terms.url}, then set the environment variable ${terms.accept}=1`;
    throw new HeadlightError('NOT_FOUND', `${id}: ${what}`);
  }
  if (urls.length === 0) {
    const what = `it can be fetched from a clone of the project only (models/fetch ${id}): give a path or a URL`;
    throw new HeadlightError('NOT_FOUND', `${id}: no address of a single file is known; ${what}`);
  }
  const part = `${path}.part`;
  mkdirSync(dirname(path), { recursive: true });
  try {
    await copyTo(part, urls[0]);
    const found = await sha256Of(part);
    if (found !== entry.sha256) {
      const why = `${urls[0]}: sha256 is ${found}, not ${entry.sha256}: the server has another file`;
      throw new HeadlightError('CHECKSUM', why);
    }
    renameSync(part, path);
  } finally {
    rmSync(part, { force: true });
  }
}

/**
 * @param {string} path
 * @param {string} url
 */
async function copyTo(path, url) {
  const source = await openSource({ kind: 'url', url, headers: [] }, () => {
    throw new Error('a URL is fetched, not pumped');
  });
  const tell = progressBar(url);
  const begun = performance.now();
  let loaded = 0;
  const say = (/** @type {'load' | 'ready'} */ stage) => {
    const bytesPerSecond = (1000 * loaded) / Math.max(1, performance.now() - begun);
    tell({ stage, loaded, total: source.size, bytesPerSecond, fromStore: false });
  };
  await pipeline(async function* () {
    for await (const piece of source.chunks()) {
      loaded += piece.byteLength;
      say('load');
      yield piece;
    }
  }, createWriteStream(path));
  say('ready');
}

/** @param {string} path */
async function sha256Of(path) {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece);
  return hash.digest('hex');
}

/**
 * Checks a fetched file once: a small file beside it remembers of which size and time.
 * @param {string} path
 * @param {Entry} entry
 */
async function verify(path, entry) {
  const stat = statSync(path);
  const seen = `${entry.sha256} ${stat.size} ${stat.mtimeMs}`;
  const mark = `${path}.verified.tmp`;
  if (existsSync(mark) && readFileSync(mark, 'utf8') === seen) return;
  const found = await sha256Of(path);
  if (found !== entry.sha256) {
    throw new HeadlightError(
      'CHECKSUM',
      `${path}: sha256 is ${found}, not ${entry.sha256}: delete the file and try again`,
    );
  }
  try {
    writeFileSync(mark, seen);
  } catch {
    // A folder that cannot be written to: it is checked again next time.
  }
}

/**
 * What MODEL on the command line means.
 * @param {string} model a path, a URL, or a name of models/manifest.json
 * @returns {Promise<string>} a path or a URL
 * @throws {HeadlightError} NOT_FOUND, CHECKSUM, NETWORK
 */
export async function findModel(model) {
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(model) || existsSync(model)) return model;
  const { entries, cache, bring } = catalogue();
  const entry = entries.find((e) => e.id === model || e.file === model);
  if (!entry) {
    const names = entries.map((e) => e.id).join(', ');
    throw new HeadlightError(
      'NOT_FOUND',
      `${model}: there is no such file` + (names ? `, nor a model of that name; the names are ${names}` : ''),
    );
  }
  const path = join(cache, entry.file);
  if (!existsSync(path)) await bring(entry, path);
  await verify(path, entry);
  return path;
}
