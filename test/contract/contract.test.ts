// Tests the contract itself: it says what the specification says, clients of the baseline still work with it, and its error
// codes are unambiguous.
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { openTestService } from 'contract-server/testing';
import type { ErrorEntry } from 'contract-server';
import { edited, partOf, type Edits } from '../../packages/server/test/support/edited.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { service } from '../../dist/service.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => parse(readFileSync(join(root, file), 'utf8')) as object;
const current = read('openapi.yaml');
/** The contract that compatibility is judged against: that of the latest release or, before the first, its draft. */
const baseline = read('test/contract/baseline.yaml');

/** The parts of a contract that may have more entries than before. */
const growing = ['paths', 'responses', 'headers', 'content', 'properties', 'parameters', 'x-error-codes'];
/** The parts that only people read. They may change, except for the error codes in descriptions. */
const words = ['info', 'summary', 'description', 'example', 'examples', 'links', 'deprecated'];

/** A part of a contract in which each reference is replaced by what it refers to. */
const inlined = (part: unknown, contract: object): unknown =>
  JSON.parse(JSON.stringify(part), (_, value: { $ref?: string } | null) =>
    value?.$ref === undefined ? value : inlined(partOf(contract, value.$ref.slice(1)), contract),
  );

/** Returns the parts of a contract that callers use. */
function usedOf(contract: object) {
  const { paths, servers, security } = contract as Record<string, unknown>;
  const schemes = partOf(contract, '/components/securitySchemes');
  return inlined({ paths, servers, security, schemes }, contract);
}

/**
 * Finds the parts used by callers that differ afterwards, or have fewer or more entries than they may. A change that is
 * compatible all the same, such as a higher limit, is made in the baseline, too.
 */
const breakingChanges = (before: object, after: object) => differences(usedOf(before), usedOf(after));

/** @param place - The keys that lead to both values. */
function differences(before: unknown, after: unknown, place: readonly string[] = []): string[] {
  const [key = '', parent] = place.toReversed();
  if (words.includes(key) && parent !== 'properties') return [];
  if (typeof before !== 'object' || typeof after !== 'object' || before === null || after === null)
    return before === after ? [] : [`${place.join(' ')} is ${String(after)}`];
  const mayGrow = growing.includes(key) || key.startsWith('/') || key === 'servers';
  const added = Object.entries(after).filter(([name]) => !(name in before) && !words.includes(name));
  const refused = added.filter(
    ([, value]) => !mayGrow || (value as { required?: unknown }).required === true,
  );
  return [
    ...refused.map(([name]) => `${place.join(' ')} ${name} is new`),
    ...Object.entries(before).flatMap(([name, value]) =>
      differences(value, (after as Record<string, unknown>)[name], [...place, name]),
    ),
  ];
}

/** The error codes in the tables of a contract's descriptions. */
const errorCodes = (contract: object): readonly string[] =>
  JSON.stringify(contract).match(/(?<=\\n\| )\d{5}(?= \|)/g) ?? [];

t.test('the contract is compatible with the baseline', async (t) => {
  t.strictSame(breakingChanges(baseline, current), []);
  const codes = errorCodes(current);
  t.strictSame(
    errorCodes(baseline).filter((code) => !codes.includes(code)),
    [],
  );
  t.ok(codes.length > 20);
});

const create = '/paths/~1plants/post';
const list = '/paths/~1plants/get';
const remove = '/paths/~1plants~1{id}/delete';
const plant = '/components/schemas/Plant';
const newPlant = '/components/schemas/NewPlant';
const text = { type: 'string' };
const ref = (name: string) => `#/components/schemas/${name}`;

t.test('the contract says what the specification says', async (t) => {
  const at = (pointer: string) => partOf(current, pointer);
  const shapeOf = (name: string) => {
    const { required, properties } = at(`/components/schemas/${name}`) as {
      required: string[];
      properties: Record<string, { type: string; format?: string }>;
    };
    return Object.entries(properties).map(([field, { type, format }]) =>
      [field, type, format, required.includes(field) ? 'required' : 'optional'].filter(Boolean).join(' '),
    );
  };
  t.strictSame(shapeOf('Plant'), ['name string required', 'tag string optional']);
  t.strictSame(shapeOf('NewPlant'), ['id integer int64 required', ...shapeOf('Plant')]);
  t.strictSame(shapeOf('Error'), ['error integer int32 required', 'message string required']);
  t.equal(at('/info/version'), '1.0.0');
  t.equal(at('/servers/0/url'), '/');
  t.match(at('/servers/1'), { url: '{base_url}', variables: { base_url: { default: /^http/ } } });
  const isClosed = (name: string) =>
    (at(`/components/schemas/${name}`) as { additionalProperties?: unknown }).additionalProperties === false;
  t.strictSame(['NewPlant', 'Plant', 'Error'].map(isClosed), [true, false, false]);
  const operations = Object.entries(at('/paths') as Record<string, object>).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method} ${path}`),
  );
  t.strictSame(operations.sort(), ['delete /plants/{id}', 'get /plants', 'post /plants']);
  t.strictSame(at('/security'), [{ bearerAuth: [] }]);
  t.match(at('/components/securitySchemes/bearerAuth'), { type: 'http', scheme: 'bearer' });
  for (const place of [create, list, remove]) {
    const operation = at(place) as { security?: unknown; responses: Record<string, unknown> };
    t.equal(operation.security, undefined);
    t.match(
      Object.keys(operation.responses).join(),
      /^\d{3}(,\d{3})*$/,
      'every status is declared by itself',
    );
  }

  const body = { required: true, content: { 'application/json': { schema: { $ref: ref('NewPlant') } } } };
  t.match(at(`${create}/requestBody`), body);
  t.match(at(`${create}/responses/200/content/application~1json/schema`), { $ref: ref('Plant') });
  t.match(at(`${list}/responses/200/content/application~1json/schema`), {
    type: 'array',
    items: { $ref: ref('Plant') },
  });
  const query = (at(`${list}/parameters`) as { in: string; required: boolean }[]).filter(
    (parameter) => parameter.in === 'query',
  );
  t.match(query, [{ name: 'limit', required: false, schema: { type: 'integer' } }]);
  t.notOk('content' in (at(`${remove}/responses/204`) as object), 'a deletion has no body');
  for (const response of Object.values(at('/components/responses') as Record<string, object>))
    t.match(response, { content: { 'application/json': { schema: { $ref: ref('Error') } } } });
});

t.test('every kind of breaking change is detected', async (t) => {
  const listed = { 'text/json': partOf(current, `${list}/responses/200/content/application~1json`) };
  const required = { name: 'q', in: 'query', required: true, schema: text };
  const breaks: [name: string, edits: Edits][] = [
    ['a path is gone', { '/paths/~1plants~1{id}': undefined }],
    ['an operation is gone', { [list]: undefined }],
    ['an operationId is another', { [`${list}/operationId`]: 'getPlants' }],
    ['an operation is public', { [`${list}/security`]: [] }],
    ['an operation needs another scope', { [`${list}/x-required-scope`]: 'a' }],
    ['security is dropped', { '/security': undefined }],
    ['the address is another', { '/servers/0/url': '/v1' }],
    ['a success status is another', { [`${create}/responses/200`]: undefined }],
    ['a media type is another', { [`${list}/responses/200/content`]: listed }],
    ['a response header is no longer certain', { '/components/headers/Retry-After/required': false }],
    ['a field of a response is gone', { [`${plant}/properties/tag`]: undefined }],
    ['a field of a response may be missing', { [`${plant}/required`]: [] }],
    ['a field of a response has another type', { [`${plant}/properties/name/type`]: 'integer' }],
    ['a field of a response may be null', { [`${plant}/properties/name/nullable`]: true }],
    ['a parameter is gone', { [`${list}/parameters`]: undefined }],
    ['there is a new required parameter', { [`${list}/parameters/-`]: required }],
    ['a field is required', { [`${newPlant}/required/-`]: 'tag' }],
    ['a field may be less', { [`${newPlant}/properties/name/maxLength`]: 5 }],
  ];
  for (const [name, edits] of breaks) t.not(breakingChanges(current, edited(current, edits)).length, 0, name);
});

t.test('compatible changes are accepted', async (t) => {
  const operation = partOf(current, list) as object;
  const after = edited(current, {
    [`${list}/parameters/-`]: { name: 'q', in: 'query', required: false, schema: text },
    [`${list}/responses/303`]: { content: {} },
    [`${list}/description`]: 'Other words.',
    [`${list}/deprecated`]: true,
    '/paths/~1seeds': { get: { ...operation, operationId: 'listSeeds' } },
    [`${newPlant}/properties/origin`]: text,
    '/components/responses/InvalidPlant/headers/X-New': { schema: text },
  });
  t.strictSame(breakingChanges(current, after), []);
});

t.test('an error whose code is taken, or is that of no error status, prevents startup', async (t) => {
  /** Starts the service with these errors of its own, and ends it. */
  const start = async (errors: Record<string, ErrorEntry>, contract = service.contract) => {
    const plantStore = await openTestService({ ...service, contract, errors });
    await plantStore.close();
  };
  await start({ one: { code: 40999, message: 'One.' }, unknownOutcome: { code: 50302, message: 'Other.' } });
  const two = { one: { code: 40999, message: 'One.' }, two: { code: 40999, message: 'Two.' } };
  await t.rejects(start(two), /errors one and two have the same code, 40999/);
  const unwritten = { one: { code: 50100, message: 'One.' } };
  await t.rejects(start(unwritten), /errors one and notImplemented have the same code, 50100/);

  const responses = `${create}/responses`;
  const with422 = edited(current, {
    [`${responses}/422`]: partOf(current, `${responses}/400`),
    [`${responses}/400`]: undefined,
  });
  const file = pathToFileURL(join(await temporaryFolder(t), 'openapi.json'));
  await writeFile(file, JSON.stringify(with422));
  const taken = { one: { code: 42202, message: 'One.' } };
  await t.rejects(start(taken, file), /errors invalidBody and one have the same code, 42202/);

  for (const code of [404, 4040, 39_999, 60_000, 40_400.5])
    await t.rejects(start({ one: { code, message: 'One.' } }), /code of the error one is not an HTTP status/);
});

t.test(
  'an operationId without a handler, or an error that Error does not allow, prevents startup',
  async (t) => {
    const start = async (edits: Edits) => {
      const contract = pathToFileURL(join(await temporaryFolder(t), 'openapi.json'));
      await writeFile(contract, JSON.stringify(edited(current, edits)));
      return openTestService({ ...service, contract });
    };
    const renamed = start({ [`${create}/operationId`]: 'sowPlant' });
    await t.rejects(renamed, /Operation sowPlant of the contract has no handler/);
    const shortened = start({ '/components/schemas/Error/properties/message/maxLength': 5 });
    await t.rejects(shortened, /Error \w+ does not match the contract: message/);
  },
);
