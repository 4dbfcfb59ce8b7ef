// Schemas of any form: each contract gets a verdict, and bodies are accepted as JSON Schema says.
import { Validator } from '@cfworker/json-schema';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { exactJson } from '../../dist/index.js';
import { contractOfBodies } from '../support/contract-check.js';
import { engines } from '../support/engines.js';
import { startService } from '../support/service.js';

const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** Starts a service that takes these bodies; returns what handlers get as JSON, or the message of the response. */
async function startWith(t: Test, bodies: readonly object[], schemas: Record<string, unknown>) {
  let received: unknown;
  const send = ({ body }: { body: unknown }) => {
    received = body;
    return Promise.resolve();
  };
  const handlers = Object.fromEntries(bodies.map((_, i) => [`send${i}`, send]));
  const { app } = await startService(t, engines[0]!, {
    contract: contractOfBodies(bodies, schemas),
    handlers,
  });
  return async (i: number, value: unknown) => {
    const { statusCode, payload } = await app.inject({
      method: 'POST',
      url: `/${i}`,
      headers: { host: 'x', 'content-type': 'application/json' },
      payload: JSON.stringify(value),
    });
    if (statusCode === 204) return { json: exactJson(received) };
    return { fault: (JSON.parse(payload) as { message: string }).message };
  };
}

const names = ['A', 'B', 'C', 'D'];
const properties = ['a', 'b', 'c'];
const type = fc.constantFrom('null', 'boolean', 'integer', 'number', 'string', 'array', 'object');
const scalar = fc.constantFrom<unknown[]>(null, true, false, 0, 1, -1, 2, 1.5, 2 ** 40, '', 'a', 'bb', 'ccc');
const name = fc.constantFrom(...properties);
const count = fc.nat(3);

/** A schema with some of all keywords that the server supports. */
const { schema } = fc.letrec<{ schema: unknown; inner: unknown }>((tie) => {
  const one = tie('schema');
  const inside = tie('inner');
  const list = (of: fc.Arbitrary<unknown>) => fc.array(of, { minLength: 1, maxLength: 3 });
  const named = (of: fc.Arbitrary<unknown>) => fc.dictionary(name, of, { maxKeys: 3 });
  const keywords: Record<string, fc.Arbitrary<unknown>> = {
    type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
    enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }),
    const: scalar,
    minimum: fc.integer({ min: -1, max: 2 }),
    exclusiveMaximum: fc.integer({ min: 0, max: 3 }),
    multipleOf: fc.constantFrom(1, 2, 0.5),
    minLength: count,
    maxLength: count,
    pattern: fc.constantFrom('^a', '^b?$'),
    minItems: count,
    maxItems: count,
    minProperties: count,
    maxProperties: count,
    required: fc.uniqueArray(name, { maxLength: 2 }),
    dependentRequired: fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), { maxKeys: 2 }),
    properties: named(inside),
    patternProperties: fc.dictionary(fc.constantFrom('^a', '^[bc]'), inside, { maxKeys: 2 }),
    additionalProperties: inside,
    propertyNames: inside,
    items: inside,
    prefixItems: list(inside),
    contains: inside,
    minContains: count,
    maxContains: count,
    not: one,
    allOf: list(one),
    anyOf: list(one),
    oneOf: list(one),
    if: one,
    then: one,
    else: one,
    dependentSchemas: named(one),
    unevaluatedProperties: inside,
    unevaluatedItems: inside,
  };
  const part = fc
    .uniqueArray(fc.constantFrom(...Object.keys(keywords)), { minLength: 1, maxLength: 4 })
    .chain((used) => fc.record(Object.fromEntries(used.map((keyword) => [keyword, keywords[keyword]!]))));
  const ref = fc.constantFrom(...names).map(refTo);
  const depth = { depthSize: 'small', withCrossShrink: true } as const;
  return {
    schema: fc.oneof(depth, { weight: 1, arbitrary: fc.boolean() }, { weight: 8, arbitrary: part }),
    // Also directly in what is combined, which may be refused.
    inner: fc.oneof(
      depth,
      { weight: 3, arbitrary: ref },
      { weight: 1, arbitrary: fc.boolean() },
      { weight: 6, arbitrary: part },
    ),
  };
});

const { body } = fc.letrec((tie) => ({
  body: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('body'), { maxLength: 3 }),
    fc.dictionary(name, tie('body'), { maxKeys: 3 }),
  ),
}));

const schemas = fc.record(Object.fromEntries(names.map((part) => [part, schema])));

/** Gives schemas names of their own, which a number follows. */
function numbered(all: Record<string, unknown>, i: number): Record<string, unknown> {
  const text = JSON.stringify(all).replaceAll(/(#\/components\/schemas\/\w)/g, `$1${i}`);
  return Object.fromEntries(
    Object.entries(JSON.parse(text) as object).map(([name, part]: [string, unknown]) => [
      `${name}${i}`,
      part,
    ]),
  );
}

function isAccepted(all: Record<string, unknown>): boolean {
  try {
    contractOfBodies([refTo('A')], all);
    return true;
  } catch (error) {
    if ((error as Error).name !== 'ContractError') throw error;
    return false;
  }
}

t.test('schemas that contain each other accept what JSON Schema says, and leave it as it is', async (t) => {
  const seed = Number(process.env['SCHEMA_SEED'] ?? Date.now());
  const numRuns = Number(process.env['SCHEMA_RUNS'] ?? 200);
  const accepted = fc.sample(schemas, { numRuns, seed }).filter(isAccepted);
  const send = await startWith(
    t,
    accepted.map((_, i) => refTo(`A${i}`)),
    Object.assign({}, ...accepted.map(numbered)) as Record<string, unknown>,
  );
  const tried = { valid: 0, invalid: 0 };
  for (const [i, all] of accepted.entries()) {
    const validator = new Validator({ ...refTo('A'), components: { schemas: all } }, '2020-12');
    for (const value of fc.sample(body, { numRuns: 30, seed })) {
      const isValid = validator.validate(value).valid;
      const { json, fault } = await send(i, value);
      const expected = isValid ? JSON.stringify(value) : undefined;
      if (json !== expected)
        t.fail(`${JSON.stringify(all)} ${JSON.stringify(value)}: ${fault ?? json} (SCHEMA_SEED=${seed})`);
      tried[isValid ? 'valid' : 'invalid']++;
    }
  }
  t.ok(tried.valid > 0 && tried.invalid > 0, JSON.stringify(tried));
});

t.test('a reference through a schema that has $ref itself keeps what is next to each $ref', async (t) => {
  const send = await startWith(t, [refTo('A')], {
    A: { type: 'object', properties: { name: refTo('B'), part: refTo('B/properties/inner') } },
    B: { ...refTo('C'), minLength: 3, properties: { inner: { type: 'boolean' } } },
    C: { ...refTo('D'), maxLength: 4 },
    D: { type: 'string' },
  });
  t.strictSame(await send(0, { name: 'abcd', part: true }), { json: '{"name":"abcd","part":true}' });
  for (const [value, fault] of [
    [{ name: 'ab' }, 'name must have at least 3 characters'],
    [{ name: 'abcde' }, 'name must have at most 4 characters'],
    [{ name: 1 }, 'name must be a string, not a number'],
    [{ part: 1 }, 'part must be true or false, not a number'],
  ] as const)
    t.strictSame(await send(0, value), { fault: `The body does not match the schema: ${fault}.` });
});

t.test('an enum of objects and arrays is compared part by part, and shown as JSON', async (t) => {
  const send = await startWith(t, [{ enum: [{ a: 1 }, ['b'], 'c'] }], {});
  for (const json of ['{"a":1}', '["b"]', '"c"']) t.strictSame(await send(0, JSON.parse(json)), { json });
  const fault = 'The body does not match the schema: it must be one of {"a":1}, ["b"], c.';
  for (const value of ['d', {}, ['b', 'b'], 1]) t.strictSame(await send(0, value), { fault });
});

t.test('what no keyword evaluates is refused, also next to alternatives and conditions', async (t) => {
  const text = { type: 'string' };
  const send = await startWith(
    t,
    [
      {
        oneOf: [{ properties: { a: text }, required: ['a'] }, { properties: { b: text } }],
        dependentSchemas: { c: { properties: { c: text, d: text } } },
        unevaluatedProperties: { type: 'integer', format: 'int64' },
      },
      { contains: text, if: { minItems: 2 }, then: { prefixItems: [true] }, unevaluatedItems: false },
    ],
    {},
  );
  t.strictSame(await send(0, { b: 'x', c: 'y', d: 'z', e: 2 }), { json: '{"b":"x","c":"y","d":"z","e":2}' });
  t.match(await send(0, { b: 'x', a: 1 }), { json: '{"b":"x","a":1}' });
  t.match(await send(0, { b: 'x', d: 'z' }), { fault: /: d must be an integer/ });
  t.match(await send(1, [1, 'a']), { json: '[1,"a"]' });
  t.match(await send(1, ['a', 'b', 3]), { fault: /: 2 is not allowed\.$/ });
});
