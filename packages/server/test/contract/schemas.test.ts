// Schemas of any form: each contract gets a verdict, and bodies are accepted as JSON Schema says.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { loadContract } from '../../dist/contract/contract.js';
import { ContractError } from '../../dist/contract/document/finding.js';
import { exactJson } from '../../dist/contract/document/json-text.js';
import { Compiler } from '../../dist/http/request/validation/validation.js';
import { textOf } from '../../dist/http/request/validation/fault-messages.js';
import { evaluate } from '../support/json-schema.js';

const refTo = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** A contract with schemas, the first of which a request has. */
function contractOf(schemas: Record<string, unknown>) {
  const document = {
    openapi: '3.1.0',
    info: { title: 'Schemas', version: '1' },
    security: [],
    paths: {
      '/': {
        post: {
          operationId: 'post',
          requestBody: { content: { 'application/json': { schema: refTo('A') } } },
          responses: { 200: { description: 'OK' } },
        },
      },
    },
    components: { schemas },
  };
  const { operations } = loadContract(Buffer.from(JSON.stringify(document)));
  const { schema } = operations[0]!.body!.contents[0]!;
  const compiled = new Compiler(document).compile(schema, { source: 'json' });
  return {
    validate: (value: unknown) => textOf(compiled.faultsOf(value)) || undefined,
    read: (value: unknown) => compiled.read(value),
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

const bodies = fc.array(body, { minLength: 30, maxLength: 30 });
const schemas = fc.record(Object.fromEntries(names.map((one) => [one, schema])));

t.test('schemas that contain each other accept what JSON Schema says, and leave it as it is', (t) => {
  const tried = { refused: 0, valid: 0, invalid: 0 };
  const property = fc.property(schemas, bodies, (all, values) => {
    let contract;
    try {
      contract = contractOf(all);
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      tried.refused++;
      return;
    }
    for (const value of values) {
      const fault = contract.validate(value);
      const isValid = evaluate(refTo('A'), value, all) !== undefined;
      assert.equal(fault === undefined, isValid, `${JSON.stringify(value)}: ${fault ?? 'accepted'}`);
      tried[isValid ? 'valid' : 'invalid']++;
      const read = contract.read(structuredClone(value));
      assert.equal(read.faults.length === 0, isValid);
      if (isValid) assert.equal(exactJson(read.value), JSON.stringify(value));
    }
  });
  fc.assert(property, { numRuns: Number(process.env['SCHEMA_RUNS'] ?? 200), includeErrorInReport: true });
  t.comment(JSON.stringify(tried));
  t.ok(tried.valid > 0 && tried.invalid > 0);
  t.end();
});

t.test('a reference through a schema that has $ref itself keeps what is next to each $ref', (t) => {
  const { validate } = contractOf({
    A: { type: 'object', properties: { name: refTo('B'), part: refTo('B/properties/inner') } },
    B: { ...refTo('C'), minLength: 3, properties: { inner: { type: 'boolean' } } },
    C: { ...refTo('D'), maxLength: 4 },
    D: { type: 'string' },
  });
  t.equal(validate({ name: 'abcd', part: true }), undefined);
  t.equal(validate({ name: 'ab' }), 'name must have at least 3 characters');
  t.equal(validate({ name: 'abcde' }), 'name must have at most 4 characters');
  t.equal(validate({ name: 1 }), 'name must be a string, not a number');
  t.equal(validate({ part: 1 }), 'part must be true or false, not a number');
  t.end();
});

t.test('an empty array does not contain what the array before it does', (t) => {
  const { validate } = contractOf({ A: { items: { anyOf: [{ contains: { type: 'integer' } }] } } });
  t.equal(validate([[0], [1]]), undefined);
  t.match(validate([[0], []]), /^1 must have at least 1 item/);
  t.end();
});

t.test('the message on an enum of objects shows them as JSON', (t) => {
  const { validate } = contractOf({ A: { enum: [{ a: 1 }, ['b'], 'c'] } });
  t.equal(validate('d'), 'it must be one of {"a":1}, ["b"], c');
  t.end();
});
