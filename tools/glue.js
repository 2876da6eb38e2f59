// Puts one variant's linked files into web/dist: node tools/glue.js NAME BUILD_FOLDER DIST_FOLDER
//   NAME.wasm      the same bytes for pages and Node, or this fails
//   NAME.web.mjs   glue for pages and workers
//   NAME.node.mjs  glue for Node
//   NAME.*.d.mts   what tsc needs to know of the glue, so that it does not read it
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';

const [name, build, dist] = process.argv.slice(2);
const TYPES = 'export default function (options: object): Promise<any>;\n';

/**
 * Vite reads `new Worker(new URL('file', import.meta.url), {...})` and wants file and options written out; Emscripten
 * before 4.0.2 passes a variable.
 * @param {string} source
 * @param {string} target file name of this glue
 */
function rewriteWorker(source, target) {
  const renamed = source
    .replaceAll(`"${name}.mjs"`, `"${target}"`)
    .replaceAll(`'${name}.mjs'`, `'${target}'`);
  const options = /\bvar workerOptions\s*=\s*(\{[^}]*\});?/.exec(renamed);
  if (!options) return renamed;
  const literal = options[1].replace(/\s+/g, ' ');
  const written = renamed.replace(options[0], '').replaceAll(/,\s*workerOptions\)/g, `, ${literal})`);
  if (written.includes('workerOptions'))
    throw new Error(`${target}: the worker options are used in a way not known here`);
  return written;
}

for (const environment of ['web', 'node']) {
  const target = `${name}.${environment}.mjs`;
  const source = readFileSync(`${build}/${environment}/${name}.mjs`, 'utf8');
  writeFileSync(`${dist}/${target}`, rewriteWorker(source, target));
  writeFileSync(`${dist}/${target.replace(/mjs$/, 'd.mts')}`, TYPES);
}
const web = readFileSync(`${build}/web/${name}.wasm`);
if (!web.equals(readFileSync(`${build}/node/${name}.wasm`))) {
  throw new Error(`${name}.wasm differs between the web and the node link: they must share one file`);
}
copyFileSync(`${build}/web/${name}.wasm`, `${dist}/${name}.wasm`);
