// Writes the build id, a hash over the core's sources and the flags: node tools/build-id.js HEADER MODULE
// A file is only written when the id has changed, so that nothing is built again without need.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** @param {string} path @param {string} text */
function writeIfChanged(path, text) {
  let old = '';
  try {
    old = readFileSync(path, 'utf8');
  } catch {
    mkdirSync(dirname(path), { recursive: true });
  }
  if (old !== text) writeFileSync(path, text);
}

const hash = createHash('sha256').update(readFileSync('Makefile'));
for (const folder of ['core/include', 'core/src']) {
  const names = readdirSync(folder, { recursive: true }).map(String);
  for (const name of names.filter((n) => /\.[ch]$/.test(n)).sort()) {
    hash.update(`${folder}/${name}\0`).update(readFileSync(`${folder}/${name}`));
  }
}
const id = hash.digest('hex').slice(0, 16);
const [header, module] = process.argv.slice(2);
writeIfChanged(header, `#define HL_BUILD_ID "${id}"\n`);
writeIfChanged(module, `export const buildId = '${id}';\n`);
writeIfChanged(
  module.replace(/\.js$/, '.d.ts'),
  '/** Of the core that these files were built with. */\nexport const buildId: string;\n',
);
