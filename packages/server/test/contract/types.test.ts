// The types of a contract against what the server accepts: what may be sent compiles, and what may not does not.
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import ts from 'typescript';
import { loadContract, renderTypes, type Contract } from '../support/contract-reader.js';
import { engines, temporaryFolder } from '../support/engines.js';
import { startService } from '../support/service.js';

/** Schemas, with the requests that fit them and those that do not, as TypeScript. */
interface Case {
  readonly schema: object;
  /** Components, to which a schema refers by `#Name`. */
  readonly named?: Readonly<Record<string, object>>;
  readonly good: readonly string[];
  readonly bad: readonly string[];
}

const text = { type: 'string' };
const integer = { type: 'integer' };
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
const ref = (name: string, more: object = {}) => ({ $ref: `#${name}`, ...more });
const animals = {
  Dog: object({ kind: text, barks: { type: 'boolean' } }, { required: ['kind', 'barks'] }),
  Cat: object({ kind: text, lives: integer }, { required: ['kind', 'lives'] }),
};
const pair = { A: object({ x: text, y: text }) };
const int64Text = { ...text, format: 'int64' };

const cases: Readonly<Record<string, Case>> = {
  'a discriminator with a mapping': {
    named: animals,
    schema: {
      oneOf: [ref('Dog'), ref('Cat')],
      discriminator: { propertyName: 'kind', mapping: { dog: '#Dog', cat: 'Cat_0' } },
    },
    good: ['{ kind: "dog", barks: true }', '{ kind: "cat", lives: 9 }'],
    bad: ['{ kind: "cat", barks: true }', '{ kind: "zebra", barks: true }', '{ barks: true }'],
  },
  'a discriminator without a mapping': {
    named: animals,
    schema: { anyOf: [ref('Dog'), ref('Cat')], discriminator: { propertyName: 'kind' } },
    good: ['{ kind: "Dog_1", barks: true }', '{ kind: "Cat_1", lives: 9 }'],
    bad: ['{ kind: "Cat_1", barks: true }', '{ kind: "dog", barks: true }'],
  },
  'a discriminator whose alternatives have other values': {
    named: {
      Dog: object({ kind: { const: 'dog' }, barks: text }, { required: ['kind'] }),
      Cat: {
        allOf: [object({ kind: { enum: ['cat'] } }), object({ lives: integer }, { required: ['kind'] })],
      },
    },
    schema: { oneOf: [ref('Dog'), ref('Cat')], discriminator: { propertyName: 'kind' } },
    good: ['{ kind: "dog", barks: "a" }', '{ kind: "cat", lives: 9 }'],
    bad: ['{ kind: "Dog_2" }', '{ kind: "cat", lives: "a" }'],
  },
  // OpenAPITools/openapi-generator#12777
  'a discriminator with two names for one schema': {
    named: animals,
    schema: {
      oneOf: [ref('Dog'), ref('Cat')],
      discriminator: { propertyName: 'kind', mapping: { dog: '#Dog', cat: '#Cat', tiger: '#Cat' } },
    },
    good: ['{ kind: "tiger", lives: 9 }', '{ kind: "cat", lives: 9 }'],
    bad: ['{ kind: "tiger", barks: true }'],
  },
  // hey-api/hey-api#1639
  'required properties that may be null, or that nothing describes': {
    schema: object(
      { first: text, picture: { type: ['string', 'null'] } },
      { required: ['id', 'first', 'picture'] },
    ),
    good: ['{ id: 1, first: "a", picture: null }', '{ id: "b", first: "a", picture: "c" }'],
    bad: ['{ first: "a", picture: null }', '{ id: 1, first: null, picture: null }', '{ id: 1, first: "a" }'],
  },
  'int64 of texts and of numbers': {
    schema: object({
      a: int64Text,
      b: { type: 'array', items: int64Text },
      c: { type: ['string', 'null'], format: 'int64' },
      d: { format: 'int64' },
      e: { type: ['integer', 'null'], format: 'int64' },
      f: { type: ['integer', 'string'], format: 'int64' },
    }),
    good: [
      '{ a: "1" }',
      '{ b: ["2"] }',
      '{ c: null }',
      '{ d: "x" }',
      '{ e: 1n }',
      '{ e: null }',
      '{ f: "x" }',
    ],
    bad: ['{ a: 1n }', '{ c: 2n }', '{ e: "a" }', '{ b: [1n] }', '{ f: true }'],
  },
  'required in another part': {
    named: pair,
    schema: { allOf: [ref('A'), { required: ['x'] }] },
    good: ['{ x: "a" }', '{ x: "a", y: "b" }'],
    bad: ['{}', '{ y: "a" }', '{ x: 1 }'],
  },
  'required in alternatives': {
    named: pair,
    schema: { allOf: [ref('A')], anyOf: [{ required: ['x'] }, { required: ['y'] }] },
    good: ['{ x: "a" }', '{ y: "a" }'],
    bad: ['{}'],
  },
  'required of what may be null': {
    named: { A: { ...pair.A, type: ['object', 'null'] } },
    schema: { allOf: [ref('A'), { required: ['x'] }] },
    good: ['{ x: "a" }', 'null'],
    bad: ['{}', '"a"'],
  },
  'readOnly in a part of a property': {
    named: { Id: text },
    schema: object({ id: { allOf: [ref('Id'), { readOnly: true }] }, n: text }),
    good: ['{}', '{ n: "a" }'],
    bad: ['{ id: "a" }'],
  },
  'readOnly in another part of the object': {
    named: { A: object({ id: text }, { required: ['id'] }) },
    schema: { allOf: [ref('A'), object({ id: { readOnly: true }, n: text })] },
    good: ['{}', '{ n: "a" }'],
    bad: ['{ id: "a" }'],
  },
  'a map beside properties': {
    schema: object({ a: text, b: text }, { required: ['a'], additionalProperties: integer }),
    good: ['{ a: "x" }', '{ a: "x", b: "y", c: 1 }'],
    bad: ['{ a: 1 }', '{ a: "x", c: true }', '{ c: 1 }'],
  },
  'a map of itself beside properties': {
    named: { T: object({ name: text }, { required: ['name'], additionalProperties: ref('T') }) },
    schema: ref('T'),
    good: ['{ name: "a" }', '{ name: "a", b: { name: "c" } }'],
    bad: ['{ name: "a", b: 1 }', '{ name: "a", b: {} }'],
  },
  'a tree that has no name': {
    schema: object({ kids: { type: 'array', items: { $ref: '@' } }, n: integer }),
    good: ['{ kids: [{ n: 1 }, { kids: [] }] }'],
    bad: ['{ kids: [{ n: "a" }] }'],
  },
  'schemas in $defs': {
    named: { X: object({ p: { $ref: '#X/$defs/P' } }, { $defs: { P: object({ n: text }) } }) },
    schema: ref('X'),
    good: ['{}', '{ p: { n: "a" } }'],
    bad: ['{ p: 1 }', '{ p: { n: 1 } }'],
  },
  'properties by patterns': {
    schema: object({ a: text }, { patternProperties: { '^x-': integer }, additionalProperties: false }),
    good: ['{ a: "x" }', '{ "x-b": 1 }'],
    bad: ['{ a: 1 }', '{ "x-b": true }'],
  },
  'places of an array': {
    schema: { type: 'array', prefixItems: [text, integer], items: false, minItems: 1 },
    good: ['["a", 1]', '["a"]'],
    bad: ['["a", "b"]', '[]', '["a", 1, 2]'],
  },
  'values that the type does not have': {
    schema: object({
      a: { ...integer, format: 'int64', enum: [1, 1.5] },
      b: { ...text, enum: ['x', 1, null] },
      c: { type: ['integer', 'null'], enum: [2, null, 'y'] },
    }),
    good: ['{ a: 1n }', '{ b: "x" }', '{ c: 2 }', '{ c: null }'],
    bad: ['{ a: 2n }', '{ b: 1 }', '{ c: "y" }', '{ b: null }'],
  },
  'a default, which is filled in': {
    schema: object({ a: { ...integer, default: 1 } }),
    good: ['{ a: 2 }'],
    bad: ['{ a: "b" }'],
  },
  'names that are special elsewhere': {
    named: { 'a.b-c': text, constructor: integer },
    schema: object(
      {
        'rate%': object({ a: text }),
        ...Object.fromEntries(
          ['a/b', 'a~b', "a'b", 'a"b', 'a\\b', 'ä', '1', '$ref', '*/'].map((n) => [n, text]),
        ),
        valueOf: text,
        hasOwnProperty: text,
        isPrototypeOf: ref('a.b-c'),
        toString: ref('constructor'),
      },
      { required: ['rate%', 'valueOf'] },
    ),
    good: ['{ "rate%": { a: "b" }, valueOf: "a", hasOwnProperty: "a", isPrototypeOf: "a", toString: 1 }'],
    bad: ['{ "rate%": 1, valueOf: "a", hasOwnProperty: "a", isPrototypeOf: "a", toString: 1 }'],
  },
};

/** A document with an operation for each case. */
function documentOf(): object {
  const paths: Record<string, object> = {};
  const schemas: Record<string, object> = {};
  for (const [i, { schema, named = {} }] of Object.values(cases).entries()) {
    const names = new Map(Object.keys(named).map((name) => [name, `${name}_${i}`]));
    const own = (given: object) =>
      JSON.parse(JSON.stringify(given), (_, value: unknown) => {
        if (typeof value !== 'string') return value;
        if (value === '@') return `#/paths/~1${i}/post/requestBody/content/application~1json/schema`;
        const [, name = '', more = ''] = /^#([^/]+)(.*)$/.exec(value) ?? [];
        return names.has(name) ? `#/components/schemas/${names.get(name)!}${more}` : value;
      }) as object;
    for (const [name, one] of Object.entries(named)) schemas[names.get(name)!] = own(one);
    const content = { 'application/json': { schema: own(schema) } };
    const responses = { 204: { description: 'Taken' }, default: { description: 'Failed' } };
    paths[`/${i}`] = {
      post: { operationId: `send${i}`, requestBody: { required: true, content }, responses },
    };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Types', version: '1' },
    security: [],
    paths,
    components: { schemas },
  };
}

/** Compiles constants that use the types of a contract; returns the names of those that do not compile. */
async function misfits(t: Test, contract: Contract, constants: readonly string[]): Promise<Set<string>> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'types.ts'), renderTypes(contract));
  const lines = [
    "import type { operations, operationSecurity } from './types.js';",
    `import { ApiError, type Handlers } from '${resolve('packages/server/dist/index.js').replaceAll('\\', '/')}';`,
    'type All = Handlers<operations, operationSecurity>; void ApiError;',
    ...constants,
  ];
  const file = join(folder, 'use.ts');
  await writeFile(file, lines.join('\n'));
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    types: [],
  };
  const found = ts.getPreEmitDiagnostics(ts.createProgram([file], options));
  return new Set(
    found.map((one) => {
      const at = one.file?.fileName === file.replaceAll('\\', '/') ? one.start : undefined;
      const line = at === undefined ? 0 : ts.getLineAndCharacterOfPosition(one.file!, at).line;
      return /^const (\w+)/.exec(lines[line]!)?.[1] ?? ts.flattenDiagnosticMessageText(one.messageText, '\n');
    }),
  );
}

t.test('the type of a body has the values that the server accepts, and no others', async (t) => {
  const bytes = Buffer.from(JSON.stringify(documentOf()));
  const contract = loadContract(bytes, true);
  const handlers = Object.fromEntries(
    Object.keys(cases).map((_, i) => [`send${i}`, () => Promise.resolve()]),
  );
  const { call } = await startService(t, engines[0]!, { contract, handlers });
  const wrong = await misfits(
    t,
    contract,
    Object.values(cases).flatMap(({ good, bad }, i) =>
      [...good, ...bad].map(
        (value, j) => `const v${i}_${j}: Parameters<All['send${i}']>[0]['body'] = ${value}; void v${i}_${j};`,
      ),
    ),
  );
  for (const [i, [name, { good, bad }]] of Object.entries(cases).entries())
    await t.test(name, async (t) => {
      for (const [j, value] of [...good, ...bad].entries()) {
        const body = JSON.stringify((0, eval)(`(${value})`) as unknown, (_, inner: unknown) =>
          typeof inner === 'bigint' ? Number(inner) : inner,
        );
        const { status } = await call('POST', `/${i}`, { body });
        const isGood = j < good.length;
        t.strictSame(
          { accepted: status === 204, compiles: !wrong.delete(`v${i}_${j}`) },
          { accepted: isGood, compiles: isGood },
          value,
        );
      }
    });
  t.strictSame([...wrong], [], 'nothing else fails to compile');
});

t.test('an error that an operation does not declare cannot be returned', async (t) => {
  const declared = { exact: ['400', '409'], invalid: ['422'], range: ['4XX'], any: ['default'] };
  const paths = Object.entries(declared).map(([operationId, keys]) => {
    const responses = Object.fromEntries(['204', ...keys].map((key) => [key, { description: 'x' }]));
    return [`/${operationId}`, { get: { operationId, responses } }] as const;
  });
  const info = { title: 'Errors', version: '1' };
  const document = { openapi: '3.1.0', info, security: [], paths: Object.fromEntries(paths) };
  const cases: [compiles: boolean, operation: string, error: string][] = [
    [true, 'exact', "{ code: 40901, message: 'x' } as const"],
    [true, 'exact', "'invalidBody'"],
    [true, 'exact', "'overloaded'"],
    [false, 'exact', "'pathNotFound'"],
    [false, 'exact', "{ code: 40400, message: 'x' } as const"],
    [false, 'exact', "{ code: 50400, message: 'x' } as const"],
    [false, 'exact', "{ code: 40901, message: 'x' } as { code: number; message: string }"],
    [true, 'invalid', "{ code: 42201, message: 'x' } as const"],
    [false, 'invalid', "{ code: 40001, message: 'x' } as const"],
    [true, 'range', "{ code: 41001, message: 'x' } as const"],
    [true, 'any', "{ code: 41001, message: 'x' } as const"],
  ];
  const wrong = await misfits(
    t,
    loadContract(Buffer.from(JSON.stringify(document)), true),
    cases.map(
      ([, operation, error], i) =>
        `const v${i}: All['${operation}'] = async () => Promise.resolve(Math.random() < 0.5 ? undefined : new ApiError(${error})); void v${i};`,
    ),
  );
  for (const [i, [compiles, operation, error]] of cases.entries())
    t.equal(!wrong.delete(`v${i}`), compiles, `${operation}: ${error}`);
  t.strictSame([...wrong], [], 'nothing else fails to compile');
});
