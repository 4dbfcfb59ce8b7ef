// What one caller, and all together, can take of the server's memory: in bodies, in their values, and in lists.
import fc from 'fast-check';
import t from 'tap';
import { engines } from './support/engines.js';
import { startService } from './support/service.js';
import { findExcess } from '../src/http/request/json-bounds.js';

const sqlite = engines[0]!;

t.test('createPlant refuses a long body that is nested deeply, or holds many values', async (t) => {
  const { call, token } = await startService(t, sqlite);
  const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
  const filler = ' '.repeat(10_000);
  const keys = (count: number) => Array.from({ length: count }, () => '"name":"a"').join(',');
  const bodies: [string, RegExp][] = [
    [`{"id":1,"name":${deep(8)}}`, /: name must be string\.$/],
    [`{"id":1,"name":${deep(9)}}`, /: its values may be nested 9 deep at most\.$/],
    [`{"id":1,"name":${deep(500_000)}}`, /nested 9 deep/],
    [`{"id":1,"name":${'{"a":'.repeat(9)}1${'}'.repeat(9)}}`, /nested 9 deep/],
    [`{"id":1,"name":${'['.repeat(500_000)}`, /nested 9 deep/],
    [`{"id":1,"name":[${'{},'.repeat(9_994)}{}]}`, /: name must be string\.$/],
    [`{"id":1,"name":[${'{},'.repeat(9_995)}{}]}`, /: it may hold 10000 values and keys at most\.$/],
    [`{"id":1,"name":[${'0,'.repeat(20_000)}0]}`, /hold 10000/],
    [`{"id":1,${keys(5_000)}}`, /hold 10000/],
  ];
  for (const [body, message] of bodies) {
    // The second is read by the exact reader, too.
    for (const text of [body, body.replace('1', '1.0')]) {
      const answer = await call('POST', '/plants', { token, body: text + filler });
      t.match(answer, { status: 400, json: { error: 40002, message } }, text.slice(0, 40));
    }
  }
  for (const body of [`{"id":1,"name":${deep(4_000)}}`, `{"id":1.0,"name":[${'0,'.repeat(4_000)}0]}`]) {
    t.match((await call('POST', '/plants', { token, body })).json, { message: /: name must be string\.$/ });
  }
  t.equal((await call('POST', '/plants', { token, body: `{"id":1,${keys(4_998)}}` })).status, 200);
});

t.test('values, keys and levels are counted as JSON.parse finds them', async () => {
  /** How deep a value is nested, and how many values and keys it is. */
  const measure = (value: unknown): { depth: number; count: number } => {
    if (typeof value !== 'object' || value === null) return { depth: 0, count: 1 };
    const inside = Object.values(value).map(measure);
    const keys = Array.isArray(value) ? 0 : inside.length;
    return {
      depth: 1 + Math.max(0, ...inside.map(({ depth }) => depth)),
      count: 1 + keys + inside.reduce((sum, { count }) => sum + count, 0),
    };
  };
  const text = fc
    .record({ value: fc.jsonValue({ maxDepth: 6 }), indent: fc.constantFrom('', ' ', '\t', '\n') })
    .map(({ value, indent }) => JSON.stringify(value, null, indent));
  fc.assert(
    fc.property(text, fc.nat(8), (text, maxDepth) => {
      const { depth, count } = measure(JSON.parse(text));
      const fits = findExcess(text, maxDepth) === undefined;
      // The value stands beside as many others as just fit, and as are one too many: an array holds them all.
      const beside = (others: number) => findExcess(`[${'0,'.repeat(others)}${text}]`, 20) === undefined;
      return fits === depth <= maxDepth && beside(10_000 - 1 - count) && !beside(10_000 - count);
    }),
  );
  fc.assert(
    fc.property(fc.stringMatching(/^["\\[\]{},:0 ]*$/), (text) => {
      findExcess(text, 8);
    }),
  );
});
