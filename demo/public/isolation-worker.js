/*
 * Adds the headers of cross-origin isolation to the page and its workers, for hosts that cannot send them.
 * Everything else (models above all) goes past it untouched.
 */
const NEEDS_HEADERS = ['document', 'worker'];

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (url.origin !== location.origin || !NEEDS_HEADERS.includes(request.destination)) return;
  if (url.searchParams.get('isolate') === 'off') return;
  event.respondWith(fetch(request).then(isolated));
});

/** @param {Response} response */
function isolated(response) {
  if (response.type === 'opaqueredirect' || response.status === 0) return response;
  const headers = new Headers(response.headers);
  headers.set('Cross-Origin-Opener-Policy', 'same-origin');
  headers.set('Cross-Origin-Embedder-Policy', 'require-corp');
  headers.set('Cross-Origin-Resource-Policy', 'same-origin');
  const { status, statusText } = response;
  return new Response(response.body, { status, statusText, headers });
}
