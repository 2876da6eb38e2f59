/** Cuts GGUF files into the parts of a split set, as llama-gguf-split does: metadata in the first, tensors in each. */

/** Bytes of a value of each type; 8 is a string, 9 an array. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

class Reader {
  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  u32() {
    return this.bytes.readUInt32LE((this.at += 4) - 4);
  }

  u64() {
    return Number(this.bytes.readBigUInt64LE((this.at += 8) - 8));
  }

  string() {
    const n = this.u64();
    return this.bytes.toString('utf8', this.at, (this.at += n));
  }

  /** @param {number} type */
  skip(type) {
    if (type === 8) this.string();
    else if (type === 9) {
      const [of, n] = [this.u32(), this.u64()];
      for (let i = 0; i < n; i++) this.skip(of);
    } else this.at += SIZES[type];
  }
}

const u32 = (/** @type {number} */ n) => Buffer.from(Uint32Array.of(n).buffer);
const u64 = (/** @type {number} */ n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
const string = (/** @type {string} */ s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
const padTo32 = (/** @type {number} */ n) => Buffer.alloc((32 - (n % 32)) % 32);

/**
 * @param {Buffer} bytes a whole model, aligned to 32
 * @param {number[]} cuts number of the tensor that each part after the first begins with
 * @param {{ count?: number }} [options] how many parts the files speak of, when it is not as many as there are
 * @returns {Buffer[]} one more than cuts
 */
export function splitFile(bytes, cuts, { count = cuts.length + 1 } = {}) {
  const r = new Reader(bytes);
  r.at = 8;
  const [nTensors, nValues] = [r.u64(), r.u64()];
  for (let i = 0; i < nValues; i++) {
    r.string();
    r.skip(r.u32());
  }
  const values = bytes.subarray(24, r.at);
  const tensors = Array.from({ length: nTensors }, () => {
    const from = r.at;
    r.string();
    const nDims = r.u32();
    r.at += 8 * nDims + 4;
    return { info: bytes.subarray(from, r.at), offset: r.u64() };
  });
  const data = bytes.subarray(r.at + padTo32(r.at).length);
  const ends = tensors.map((_, i) => tensors[i + 1]?.offset ?? data.length);
  const bounds = [0, ...cuts, nTensors];
  return bounds.slice(1).map((end, part) => {
    const keys = [
      [...[string('split.no'), u32(2)], Buffer.from(Uint16Array.of(part).buffer)],
      [...[string('split.count'), u32(2)], Buffer.from(Uint16Array.of(count).buffer)],
      [...[string('split.tensors.count'), u32(5)], u32(nTensors)],
    ].flat();
    const own = tensors.slice(bounds[part], end);
    const start = own[0]?.offset ?? 0;
    const head = Buffer.concat([
      Buffer.from('GGUF'),
      u32(3),
      u64(own.length),
      u64(part === 0 ? nValues + 3 : 3),
      ...(part === 0 ? [values] : []),
      ...keys,
      ...own.flatMap((t) => [t.info, u64(t.offset - start)]),
    ]);
    const weights = own.length > 0 ? data.subarray(start, ends[end - 1]) : Buffer.alloc(0);
    return Buffer.concat([head, padTo32(head.length), weights]);
  });
}
