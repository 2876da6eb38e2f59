import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HeadlightError } from '../errors.js';

/**
 * @typedef {{ id: string, name: string, file: string, sha256: string, size: number }} Entry of models/manifest.json
 */

/** The folder models/ of the project that this file is a part of, or that the current folder lies in. */
function modelsFolder() {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const start of [join(here, '../../..'), process.cwd()]) {
    for (let folder = start; ; folder = dirname(folder)) {
      if (existsSync(join(folder, 'models/manifest.json'))) return join(folder, 'models');
      if (folder === dirname(folder)) break;
    }
  }
  return undefined;
}

/** @param {string} folder @returns {Entry[]} */
function entries(folder) {
  return JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')).models;
}

/**
 * @param {string} model a path or a URL
 * @returns {string | undefined} what models/manifest.json calls a file of this name
 */
export function knownName(model) {
  const folder = modelsFolder();
  return folder && entries(folder).find((entry) => entry.file === basename(model))?.name;
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
  const folder = modelsFolder();
  const list = folder ? entries(folder) : [];
  const entry = list.find((e) => e.id === model || e.file === model);
  if (!folder || !entry) {
    const names = list.map((e) => e.id).join(', ');
    throw new HeadlightError(
      'NOT_FOUND',
      `${model}: there is no such file` + (names ? `, nor a model of that name; the names are ${names}` : ''),
    );
  }
  const path = join(folder, 'cache', entry.file);
  if (!existsSync(path)) {
    const { status } = spawnSync(join(folder, 'fetch'), [entry.id], { stdio: ['ignore', 2, 2] });
    if (status !== 0 || !existsSync(path)) {
      throw new HeadlightError(
        'NETWORK',
        `${model}: it could not be fetched; models/fetch ${entry.id} says why`,
      );
    }
  }
  await verify(path, entry);
  return path;
}
