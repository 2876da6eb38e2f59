import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { StopFilter } from '../../web/src/stop.js';

const { stop: cases } = JSON.parse(
  readFileSync(new URL('../cases/streaming_cases.json', import.meta.url), 'utf8'),
);

for (const c of cases) {
  test(`${c.id} ${c.name}: text is held back exactly as long as it may be a stop string`, () => {
    const filter = new StopFilter(c.stops);
    const emitted = [];
    for (const piece of c.pieces) {
      if (filter.found !== undefined) break;
      emitted.push(filter.push(piece));
    }
    assert.deepEqual(emitted, c.emitted);
    const flush = filter.flush();
    assert.equal(flush, c.flush);
    assert.equal(emitted.join('') + flush, c.total);
    assert.equal(filter.found === undefined ? 'eos' : 'stop', c.finish_reason);
  });
}

test('however a text is cut, what comes out is the text before the first stop string', () => {
  const text = 'aab aaab ab<end>tail';
  for (const stops of [['<end>'], ['aaab', '<'], ['b a'], ['zzz']]) {
    const at = Math.min(...stops.map((s) => text.indexOf(s)).map((i) => (i < 0 ? text.length : i)));
    for (let size = 1; size <= text.length; size++) {
      const filter = new StopFilter(stops);
      let out = '';
      for (let i = 0; i < text.length; i += size) out += filter.push(text.slice(i, i + size));
      assert.equal(out + filter.flush(), text.slice(0, at), `${stops} by ${size}`);
    }
  }
});
