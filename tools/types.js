// Checks the JavaScript's types with tsc: the package first, which also writes web/types/*.d.ts, then what uses it.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';

rmSync('web/types', { recursive: true, force: true });
let failed = 0;
for (const folder of ['web', 'demo', 'tests']) {
  if (!existsSync(`${folder}/tsconfig.json`)) continue;
  console.log(`tsc -p ${folder}`);
  const { status } = spawnSync('node_modules/.bin/tsc', ['-p', folder, '--pretty', 'false'], {
    stdio: 'inherit',
  });
  if (status !== 0) failed++;
}
process.exitCode = failed ? 1 : 0;
