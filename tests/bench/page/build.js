// Bundles the page with Vite as an app would bundle the package, so that what is fetched is what users fetch.
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

/** @param {string} folder that is written */
export async function buildPage(folder) {
  await build({
    root: fileURLToPath(new URL('.', import.meta.url)),
    configFile: false,
    base: './',
    logLevel: 'error',
    worker: { format: 'es' },
    build: {
      outDir: folder,
      emptyOutDir: true,
      target: 'es2022',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      chunkSizeWarningLimit: 2000,
    },
  });
}
