import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { kvPlan, load } from '../../web/src/index.js';
import { fixture, manifest } from './helpers.js';

// What a session's allocator counts is what the formula says, for every small model that is loaded.

const BLOCK = 64;
/** Ends and beginnings of blocks, of the fixtures' windows (8 positions), and of blocks that a window leaves behind. */
const LENGTHS = [1, 7, 8, 9, 63, 64, 65, 71, 72, 73, 135, 136, 137, 200];
const TYPES = /** @type {const} */ (['f32', 'f16', 'q8_0']);

/** @param {import('../../web/src/index.js').KvShape} shape @returns {boolean} rows can be cut in groups of 32 */
const inGroups = ({ rank, keyDim, valueDim = keyDim }) =>
  rank ? rank % 32 === 0 : keyDim % 32 === 0 && valueDim % 32 === 0;

/** Blocks that a layer holds at n positions. @param {any} shape @param {number} layer @param {number} n */
function blocks(shape, layer, n) {
  const window = shape.windowed?.[layer] ? shape.window : Infinity;
  const behind = n > window ? Math.floor((n - window) / BLOCK) : 0;
  return Math.ceil(n / BLOCK) - behind;
}

const refused = new Set();
after(() => assert.ok(refused.size >= 3, 'some fixtures have heads that q8_0 refuses'));

for (const { name } of manifest.models) {
  test(`${name}: used and reserved bytes of every layer are the formula's, in every type that it allows`, async (t) => {
    const model = await load(fixture(name), { variant: 'single' });
    t.after(() => model.dispose());
    const { shape, trainedContext, vocabulary } = model.info;
    const context = Math.min(trainedContext, LENGTHS.at(-1));
    for (const type of TYPES) {
      if (type === 'q8_0' && !inGroups(shape)) {
        const wanted = { code: /UNSUPPORTED|BAD_ARGUMENT/, message: /32.*f16/ };
        await assert.rejects(model.session({ kv: type }), wanted);
        await assert.rejects(load(fixture(name), { kv: type, variant: 'single' }), wanted);
        assert.throws(() => kvPlan(shape, 1, type), wanted);
        refused.add(name);
        continue;
      }
      const session = await model.session({ context, kv: type });
      for (const length of LENGTHS.filter((n) => n <= context)) {
        await session.feed(
          Array.from({ length: length - session.length }, (_, i) => (7 * i + length) % vocabulary),
        );
        const cache = await session.cache();
        const plan = kvPlan(shape, length, type);
        const { perLayer: whole } = kvPlan({ ...shape, window: undefined, windowed: undefined }, BLOCK, type);
        const expected = plan.perLayer.map((used, layer) => ({
          positions: length,
          used,
          reserved: blocks(shape, layer, length) * whole[layer],
          shared: 0,
        }));
        assert.deepEqual(cache.perLayer, expected, `${type}, ${length} positions`);
        const sum = (/** @type {'used' | 'reserved'} */ what) =>
          expected.reduce((n, layer) => n + layer[what], 0);
        assert.equal(cache.used, plan.bytes);
        assert.deepEqual(
          [cache.used, cache.reserved, cache.positions],
          [sum('used'), sum('reserved'), length],
        );
        assert.equal((await model.memory()).cache, cache.reserved, 'nothing else is held');
      }
      await session.rewind(0);
      assert.deepEqual((({ used, reserved }) => [used, reserved])(await session.cache()), [0, 0]);
      await session.dispose();
    }
  });
}
