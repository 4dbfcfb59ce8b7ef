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
import { breakingChanges } from '../support/breaking-changes.js';
import { edited, partOf, type Edits } from '../../packages/server/test/support/edited.js';
import { temporaryFolder } from '../../packages/server/test/support/engines.js';
import { service } from '../../dist/service.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => parse(readFileSync(join(root, file), 'utf8')) as object;
const current = read('openapi.yaml');
/** The orchard, a richer contract. */
const orchard = read('packages/server/test/support/garden/orchard.yaml');
/** The contract that compatibility is judged against: that of the latest release or, before the first, its draft. */
const baseline = read('test/contract/baseline.yaml');

t.test('the contract is compatible with the baseline', async (t) => {
  t.strictSame(breakingChanges(baseline, current), []);
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
  const codes = '/components/schemas/Error/description';
  const fewer = String(partOf(current, codes)).replace(/\| 40011.*\n/, '');
  const apiKey = { type: 'apiKey', in: 'header', name: 'X-Key' };
  const breaks: [name: string, reported: RegExp, edits: Edits][] = [
    // Detected by api-smart-diff.
    ['a path is gone', /remove/, { '/paths/~1plants~1{id}': undefined }],
    ['an operation is gone', /remove/, { [list]: undefined }],
    ['a success status is another', /200: remove/, { [`${create}/responses/200`]: undefined }],
    ['an error status is gone', /404: remove/, { [`${remove}/responses/404`]: undefined }],
    ['a media type is another', /json: remove/, { [`${list}/responses/200/content`]: listed }],
    [
      'a response header is gone',
      /remove/,
      { '/components/responses/Unauthorized/headers/WWW-Authenticate': undefined },
    ],
    ['a field of a response may be missing', /required/, { [`${plant}/required`]: [] }],
    [
      'a format is another',
      /format: replace/,
      { '/components/schemas/Error/properties/error/format': 'int64' },
    ],
    ['a parameter is gone', /parameters/, { [`${list}/parameters`]: undefined }],
    ['a parameter has another name', /parameters 0: remove/, { [`${list}/parameters/0/name`]: 'max' }],
    ['a parameter is required', /required: add/, { [`${list}/parameters/0/required`]: true }],
    ['a parameter may be less', /maximum: replace/, { [`${list}/parameters/0/schema/maximum`]: 100 }],
    [
      'there is a new required parameter',
      /parameters \d: add/,
      { [`${list}/parameters/-`]: { name: 'q', in: 'query', required: true, schema: text } },
    ],
    [
      'there is a new required field',
      /add/,
      { [`${newPlant}/properties/origin`]: text, [`${newPlant}/required/-`]: 'origin' },
    ],
    ['a field is required', /required/, { [`${newPlant}/required/-`]: 'tag' }],
    ['a field may be less', /maxLength: add/, { [`${newPlant}/properties/name/maxLength`]: 5 }],
    // Detected by our own rules.
    ['security is dropped', /get \/plants: another security/, { '/security': undefined }],
    ['an operation is public', /another security/, { [`${list}/security`]: [] }],
    [
      'a security scheme is another',
      /another security/,
      { '/components/securitySchemes/bearerAuth': apiKey },
    ],
    ['an operation needs another scope', /another security/, { [`${list}/x-required-scope`]: 'a' }],
    ['an operationId is another', /another operationId/, { [`${list}/operationId`]: 'getPlants' }],
    [
      'a field of a response is gone',
      /items: the field tag is gone/,
      { [`${plant}/properties/tag`]: undefined },
    ],
    [
      'a field of a response has another type',
      /name: another type/,
      { [`${plant}/properties/name/type`]: 'integer' },
    ],
    [
      'a field of a response may be null',
      /name: may be null/,
      { [`${plant}/properties/name/nullable`]: true },
    ],
    [
      'a closed request no longer takes a field',
      /the field tag is no longer taken/,
      { [`${newPlant}/properties/tag`]: undefined },
    ],
    [
      'a response header is no longer certain',
      /Retry-After is no longer certain/,
      { '/components/headers/Retry-After/required': false },
    ],
    ['an error code is gone', /40011/, { [codes]: fewer }],
    ['the address is another', /another address/, { '/servers/0/url': '/v1' }],
  ];
  for (const [name, reported, edits] of breaks)
    t.match(breakingChanges(current, edited(current, edits)).join('\n'), reported, name);

  const open = { [`${newPlant}/additionalProperties`]: true, [`${create}/requestBody/required`]: false };
  const narrowed = breakingChanges(edited(current, open), current).join('\n');
  t.match(narrowed, /no other fields any more/, 'a request is closed');
  t.match(narrowed, /a required body/, 'a body is required');
});

t.test('schemas that contain themselves, and those of compositions, are compared, too', async (t) => {
  t.strictSame(breakingChanges(orchard, orchard), []);
  const schemas = '/components/schemas';
  const breaks: [reported: RegExp, edits: Edits][] = [
    [/leaves: another type/, { [`${schemas}/Branch/properties/leaves`]: text }],
    [/height: another/, { [`${schemas}/Tree/properties/height/type`]: ['number', 'null'] }],
    [/the field fork is gone/, { [`${schemas}/Branch/properties/fork`]: undefined }],
    [
      /field dried is no longer taken[^]*field dried is gone/,
      { [`${schemas}/Wood/properties/dried`]: undefined },
    ],
  ];
  for (const [reported, edits] of breaks)
    t.match(breakingChanges(orchard, edited(orchard, edits)).join('\n'), reported);
});

t.test('compatible changes are accepted', async (t) => {
  const operation = partOf(current, list) as object;
  const after = edited(current, {
    [`${list}/parameters/-`]: { name: 'q', in: 'query', required: false, schema: text },
    [`${list}/parameters/0/schema/maximum`]: 2_147_483_647,
    [`${list}/responses/303`]: { content: {} },
    [`${list}/description`]: 'Other words.',
    [`${list}/summary`]: 'Other words',
    '/paths/~1seeds': { get: { ...operation, operationId: 'listSeeds' } },
    [`${newPlant}/properties/origin`]: text,
    [`${plant}/properties/origin`]: text,
    '/components/responses/InvalidPlant/headers/X-New': { schema: text },
    '/info/description': `${String(partOf(current, '/info/description'))}\n| 42900 | Too many requests. |\n`,
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
