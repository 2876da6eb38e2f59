// Prints the size of each file and fails when one is over the limit: node tools/check-size.js BYTES FILE...
import { readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const limit = Number(process.argv[2]);
for (const file of process.argv.slice(3)) {
  const { size } = statSync(file);
  console.log(`  ${file}: ${size} bytes, ${gzipSync(readFileSync(file)).length} gzipped`);
  if (size > limit) {
    console.error(`${file} is larger than ${limit} bytes`);
    process.exitCode = 1;
  }
}
