const SAMPLER_BYTES = 52;

/** A chain of sampling steps in the core: hl_sampler_*. */
export class CoreSampler {
  /**
   * @param {import('./wasm.js').Core} core
   * @param {import('./types.js').SamplerParams} p
   */
  constructor(core, p) {
    this.core = core;
    const bias = Object.entries(p.logitBias);
    const at = core.alloc(SAMPLER_BYTES + 8 * bias.length);
    const { view } = core;
    const ids = at + SAMPLER_BYTES;
    const values = ids + 4 * bias.length;
    const floats = { 0: p.temperature, 8: p.topP, 12: p.minP, 16: p.typicalP, 20: p.repeatPenalty };
    for (const [o, v] of Object.entries(floats)) view.setFloat32(at + Number(o), v, true);
    view.setInt32(at + 4, p.topK, true);
    view.setInt32(at + 24, p.repeatLastN, true);
    view.setFloat32(at + 28, p.frequencyPenalty, true);
    view.setFloat32(at + 32, p.presencePenalty, true);
    view.setUint32(at + 36, p.seed, true);
    view.setInt32(at + 40, bias.length, true);
    view.setUint32(at + 44, ids, true);
    view.setUint32(at + 48, values, true);
    bias.forEach(([id, value], i) => {
      view.setInt32(ids + 4 * i, Number(id), true);
      view.setFloat32(values + 4 * i, value, true);
    });
    try {
      this.pointer = core.checkPointer(core.module._hl_sampler_new(at));
    } finally {
      core.free(at);
    }
  }

  /** @param {number} id */
  accept(id) {
    this.core.check(this.core.module._hl_sampler_accept(this.pointer, id));
  }

  /**
   * @param {number} logits pointer
   * @param {number} n
   * @returns {number} a token id
   */
  sample(logits, n) {
    return this.core.check(this.core.module._hl_sampler_sample(this.pointer, logits, n));
  }

  /**
   * @param {Float32Array} logits
   * @param {number} draws
   * @returns {{ probs: Float32Array, tokens: number[] }}
   */
  distribution(logits, draws) {
    const { core } = this;
    const n = logits.length;
    return core.with(logits, (p) => {
      const out = core.alloc(4 * n);
      try {
        core.check(core.module._hl_sampler_probs(this.pointer, p, n, out));
        const probs = core.floats(out, n);
        const tokens = Array.from({ length: draws }, () => this.sample(p, n));
        return { probs, tokens };
      } finally {
        core.free(out);
      }
    });
  }

  free() {
    if (this.pointer) this.core.module._hl_sampler_free(this.pointer);
    this.pointer = 0;
  }
}
