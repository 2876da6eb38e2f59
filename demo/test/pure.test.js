import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addRows, emptyMap, missing, picture, rowOf, truncate } from '../src/attention-map.js';
import { share } from '../src/colour.js';
import { explain } from '../src/errors.js';
import { bytes, seconds, visible, weight } from '../src/format.js';
import { windowOf } from '../src/heatmap.js';
import { loadWords } from '../src/model-picker.js';
import { fromHash, initialState, toHash } from '../src/state.js';
import { shows } from '../src/tabs-view.js';

/** Two heads; a prompt of two positions, then one generated: head 0 looks at itself, head 1 evenly at all. */
function sample() {
  const map = emptyMap(3);
  addRows(map, 0, { heads: 2, rows: 2, cols: 2, data: Float32Array.of(1, 0, 0, 1, 1, 0, 0.5, 0.5) });
  addRows(map, 2, { heads: 2, rows: 1, cols: 3, data: Float32Array.of(0, 0, 1, 0.25, 0.25, 0.5) });
  return map;
}

test('rows of a prompt chunk and of a generated token land at their positions', () => {
  const map = sample();
  assert.deepEqual([...(rowOf(map, 0, 1, false) ?? [])], [0, 1]);
  assert.deepEqual([...(rowOf(map, 1, 1, false) ?? [])], [0.5, 0.5]);
  assert.deepEqual([...(rowOf(map, 1, 2, false) ?? [])], [0.25, 0.25, 0.5]);
});

test('the mean of the heads is the mean of their weights', () => {
  assert.deepEqual([...(rowOf(sample(), -1, 2, false) ?? [])], [0.125, 0.125, 0.75]);
});

test('hiding the first token scales the rest to a sum of 1', () => {
  const row = rowOf(sample(), 1, 2, true) ?? new Float32Array();
  assert.ok(Number.isNaN(row[0]));
  assert.ok(Math.abs(row[1] + row[2] - 1) < 1e-6);
});

test('a row that is evaluated again replaces the rows after it', () => {
  const map = sample();
  addRows(map, 1, { heads: 2, rows: 1, cols: 2, data: Float32Array.of(0.75, 0.25, 1, 0) });
  assert.equal(map.rows.length, 2);
  assert.deepEqual([...(rowOf(map, 0, 1, false) ?? [])], [0.75, 0.25]);
  assert.equal(map.floats, 2 * (1 + 2));
});

test('positions without a row are counted until they are computed', () => {
  const map = emptyMap(0);
  addRows(map, 2, { heads: 1, rows: 1, cols: 3, data: Float32Array.of(1, 0, 0) });
  assert.equal(missing(map), 2);
  truncate(map, 0);
  assert.equal(missing(map), 0);
});

test('a picture smaller than the map keeps the largest weight of each bin', () => {
  const view = {
    head: 0,
    hideSink: false,
    from: { row: 0, col: 0 },
    to: { row: 3, col: 3 },
    height: 1,
    width: 2,
  };
  const { data, top } = picture(sample(), view);
  assert.deepEqual([...data], [1, 1]);
  assert.equal(top, 1);
});

test('a picture has no weight above the diagonal', () => {
  const view = {
    head: 1,
    hideSink: false,
    from: { row: 0, col: 0 },
    to: { row: 3, col: 3 },
    height: 9,
    width: 9,
  };
  const { data, width } = picture(sample(), view);
  assert.equal(width, 3);
  assert.ok(Number.isNaN(data[1]) && Number.isNaN(data[2]) && Number.isNaN(data[5]));
});

test('a zoomed window holds the cursor and stays inside the map', () => {
  assert.deepEqual(windowOf(100, 4, { row: 99, col: 0 }), {
    from: { row: 75, col: 0 },
    to: { row: 100, col: 25 },
  });
  assert.deepEqual(windowOf(3, 8, null), { from: { row: 0, col: 0 }, to: { row: 3, col: 3 } });
});

test('both colour scales go from nothing to the largest weight', () => {
  for (const scale of /** @type {const} */ (['linear', 'log'])) {
    assert.equal(share(0, 0.5, scale), 0);
    assert.equal(share(0.5, 0.5, scale), 1);
    assert.equal(share(0.9, 0.5, scale), 1);
  }
  assert.ok(share(0.01, 1, 'log') > share(0.01, 1, 'linear'));
});

test('bytes are told in SI units with three figures', () => {
  assert.equal(bytes(0), '0 B');
  assert.equal(bytes(98362432), '98.4 MB');
  assert.equal(bytes(1520640), '1.52 MB');
  assert.equal(bytes(999_600), '1.00 MB');
  assert.equal(seconds(200), '3 min 20 s');
});

test('weights that four decimals would show as zero are told as powers of ten', () => {
  assert.equal(weight(0.43219), '0.4322');
  assert.equal(weight(0.00001234), '1.2 × 10⁻⁵');
  assert.equal(weight(NaN), 'hidden');
  assert.equal(visible(' a\n'), '·a↵');
});

test('the address holds panel, layer, head and view, and nonsense in it is ignored', () => {
  const state = initialState();
  state.panel = 'cache';
  Object.assign(state.attention, { layer: 12, head: 3, view: 'text' });
  assert.deepEqual(fromHash(`#${toHash(state)}`), { panel: 'cache', layer: 12, head: 3, view: 'text' });
  assert.deepEqual(fromHash('#panel=x&layer=-1&head=1e9&view=<b>'), {});
});

test('two panes show the chat beside the attention or the cache', () => {
  assert.ok(shows({ layout: 'two', panel: 'chat' }, 'attention'));
  assert.ok(!shows({ layout: 'two', panel: 'cache' }, 'attention'));
  assert.ok(!shows({ layout: 'phone', panel: 'cache' }, 'chat'));
});

test('loading tells bytes, speed and time left, and nothing that is not known', () => {
  const load = {
    name: 'x',
    stage: 'load',
    loaded: 48e6,
    total: 98e6,
    bytesPerSecond: 25e6,
    fromStore: false,
  };
  assert.equal(loadWords(load), '48.0 MB of 98.0 MB · 25.0 MB/s · 2 s left');
  assert.equal(loadWords({ ...load, total: 0, bytesPerSecond: 0 }), '48.0 MB');
});

test('an error is told with what happened and what to do', () => {
  const notice = explain({ code: 'BAD_FORMAT', message: 'gguf: magic is "<htm"' });
  assert.match(notice.text, /^gguf: magic is "<htm"\. Choose a file/);
  assert.equal(explain({ code: 'WORKER_LOST', message: 'the worker ended' }).action, 'reload');
  assert.equal(explain('odd').text, 'Odd.');
});
