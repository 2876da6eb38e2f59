const TRIED = 'headlight.isolation-tried';

/**
 * Threads need a page that is cross-origin isolated, which takes two headers. Where the host cannot send them, a service
 * worker adds them, and the page is loaded once more through it.
 *
 * `?isolate=off` leaves the page as it is.
 *
 * @returns {Promise<boolean>} true when the page is about to be loaded again
 */
export async function isolate() {
  if (crossOriginIsolated || !isSecureContext || !('serviceWorker' in navigator)) return false;
  if (new URLSearchParams(location.search).get('isolate') === 'off' || tried()) return false;
  try {
    await navigator.serviceWorker.register('isolation-worker.js');
    await navigator.serviceWorker.ready;
  } catch {
    return false;
  }
  sessionStorage.setItem(TRIED, '1');
  location.reload();
  return true;
}

/** @returns {boolean} true also where nothing can be kept, since the page would then load forever */
function tried() {
  try {
    return sessionStorage.getItem(TRIED) !== null;
  } catch {
    return true;
  }
}
