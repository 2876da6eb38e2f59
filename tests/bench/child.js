// One engine in one Node process: hosts.js sends { id, method, argument } and gets { id, result } or { id, error }.

/** @type {any} */
let engine;

/** @param {string} method @param {any} argument */
async function call(method, argument) {
  if (method !== 'create') return engine[method]?.(argument);
  engine = (await import(`./peers/${argument}.js`)).create();
}

process.on('message', async (/** @type {{ id: number, method: string, argument: any }} */ message) => {
  const { id, method, argument } = message;
  try {
    process.send?.({ id, result: await call(method, argument) });
  } catch (error) {
    process.send?.({ id, error: String(/** @type {any} */ (error).stack ?? error) });
  }
});

export {};
