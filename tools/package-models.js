// Before the package is packed: the names of models that its command line knows, as dist/models.json.
import { copyFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const inProject = (/** @type {string} */ path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
copyFileSync(inProject('models/manifest.json'), inProject('web/dist/models.json'));
