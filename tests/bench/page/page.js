// One engine in one page: hosts.js calls window.bench from outside.

/** @typedef {import('../peers/types.js').Engine} Engine */

/** @type {Record<string, () => Promise<{ create: () => Engine }>>} */
const peers = {
  headlight: () => import('../peers/headlight.js'),
  wllama2: () => import('../peers/wllama2.js'),
  wllama3: () => import('../peers/wllama3.js'),
};

/** @type {any} */
let engine;
/** @type {Blob | undefined} */
let file;

const own = {
  /** @param {string} peer */
  async create(peer) {
    engine = (await peers[peer]()).create();
  },
  /** Holds a file as a page holds one that its user has opened. @param {string} url */
  async fetchFile(url) {
    file = await (await fetch(url)).blob();
  },
};

const bench = {
  /** @param {string} method @param {any} argument */
  call(method, argument) {
    if (method in own) return /** @type {any} */ (own)[method](argument);
    return engine[method]?.(method === 'open' && file ? { ...argument, model: file } : argument);
  },
};

Object.assign(window, { bench });

export {};
