// Prints the list of exported symbols for the linker: what core/include/headlight.h declares HL_API, malloc and free.
import { readFileSync } from 'node:fs';

const header = readFileSync(process.argv[2], 'utf8').replace(/\/\*[\s\S]*?\*\//g, '');
const names = [...header.matchAll(/^HL_API\b[^;(]*?\b(hl_\w+)\s*\(/gm)].map((m) => `_${m[1]}`);
console.log(JSON.stringify([...names, '_malloc', '_free']));
