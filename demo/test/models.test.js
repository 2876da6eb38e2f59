import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ARCHITECTURES } from '../src/models.js';

/** @param {string} path from the project's folder */
const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('the page names the architectures that the engine has', () => {
  const rows = [...read('core/src/model/arch.c').matchAll(/^ {4}\{"(\w+)",/gm)].map(([, name]) => name);
  assert.ok(rows.length > 10);
  assert.deepEqual(ARCHITECTURES, rows);
});

test('the page offers every model of the manifest that it can get', () => {
  const { models } = JSON.parse(read('models/manifest.json'));
  for (const { architecture } of models) assert.ok(ARCHITECTURES.includes(architecture), architecture);
});
