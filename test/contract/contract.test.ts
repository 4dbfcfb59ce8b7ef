// The contract itself: the linter accepts it, its examples are valid, it is compatible, and its types are current.
import { execFile } from 'node:child_process';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { parse } from 'yaml';
import { loadContract } from '../../dist/contract/contract.js';
import type { ErrorEntry } from '../../dist/errors.js';
import { createErrorWriter } from '../../dist/http/error-rendering.js';
import { Compiler, createValidator } from '../../dist/http/request/validation.js';
import { breakingChanges } from '../support/breaking-changes.js';
import { temporaryFolder } from '../support/engines.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const contractFile = join(root, 'openapi.yaml');
/** The contract that is promised, as 1.0.0; a release copies openapi.yaml there. */
const releasedFile = join(root, 'test/contract/released.yaml');
const redocly = createRequire(import.meta.url).resolve('@redocly/cli/bin/cli.js');

/** Runs a script with Node.js; returns its exit status and its output. */
function run(script: string, ...options: string[]): Promise<{ status: number; output: string }> {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...options], { env }, (error, stdout, stderr) => {
      const status = typeof error?.code === 'number' ? error.code : error === null ? 0 : -1;
      resolve({ status, output: stdout + stderr });
    });
  });
}

const lint = (file: string) => run(redocly, 'lint', file, '--extends=recommended-strict', '--format=json');

/** The text of the contract with one part replaced, which must exist. */
async function replaced(piece: string, by: string): Promise<string> {
  const text = await readFile(contractFile, 'utf8');
  t.ok(text.includes(piece), piece);
  return text.replace(piece, by);
}

t.test('the linter accepts the contract, and finds an invalid example', async (t) => {
  const broken = join(await temporaryFolder(t), 'openapi.yaml');
  await writeFile(
    broken,
    await replaced('{ id: 1, name: Monstera deliciosa, tag: indoor }', '{ id: one, name: 1 }'),
  );
  const [good, bad] = await Promise.all([lint(contractFile), lint(broken)]);
  t.match(good, { status: 0, output: /"errors": 0,\s+"warnings": 0,/ });
  t.match(bad, { status: 1, output: /no-invalid-media-type-examples/ });
});

t.test('the generated types are current, and outdated ones are detected', async (t) => {
  const generator = 'scripts/generate/types.js';
  const folder = await temporaryFolder(t);
  await Promise.all([
    cp(join(root, generator), join(folder, generator)),
    cp(join(root, 'scripts/lib/services.js'), join(folder, 'scripts/lib/services.js')),
    cp(join(root, 'package.json'), join(folder, 'package.json')),
    cp(join(root, 'src/contract'), join(folder, 'src/contract'), { recursive: true }),
    symlink(join(root, 'node_modules'), join(folder, 'node_modules')),
    replaced('required: [name]', 'required: [name, tag]').then((text) =>
      writeFile(join(folder, 'openapi.yaml'), text),
    ),
  ]);
  const [fresh, stale] = await Promise.all([
    run(join(root, generator), '--check'),
    run(join(folder, generator), '--check'),
  ]);
  t.strictSame(fresh, { status: 0, output: '' });
  t.match(stale, { status: 1, output: /^src\/contract\/types.gen.ts does not match openapi.yaml: .*\n$/ });
});

/** The parts of an OpenAPI document that the edits below change. */
interface Editable {
  info: { description: string };
  servers: unknown;
  security: unknown;
  paths: Record<string, Record<string, EditableOperation>>;
  components: {
    schemas: Record<
      string,
      { required: string[]; properties: Record<string, object>; [keyword: string]: unknown }
    >;
    responses: Record<string, { headers: Record<string, unknown> }>;
    headers: Record<string, { required: boolean }>;
    securitySchemes: Record<string, object>;
  };
}
interface EditableOperation {
  parameters: { name: string; required: boolean; schema: object }[];
  requestBody: { required: boolean };
  responses: Record<string, { content: Record<string, unknown> }>;
  [field: string]: unknown;
}

const released = async () => parse(await readFile(releasedFile, 'utf8')) as Editable;

t.test('the contract is compatible with the released one', async (t) => {
  const current = parse(await readFile(contractFile, 'utf8')) as Editable;
  t.strictSame(breakingChanges(await released(), current), []);
});

t.test('every kind of breaking change is detected', async (t) => {
  const list = (document: Editable) => document.paths['/plants']!['get']!;
  const create = (document: Editable) => document.paths['/plants']!['post']!;
  const schema = (document: Editable, name: string) => document.components.schemas[name]!;
  const limit = (document: Editable) => list(document).parameters[0]!;
  // prettier-ignore
  const breaks: [name: string, reported: RegExp, edit: (document: Editable) => unknown][] = [
    // Detected by api-smart-diff.
    ['a path is gone', /remove/, (d) => delete d.paths['/plants/{id}']],
    ['an operation is gone', /remove/, (d) => delete d.paths['/plants']!['get']],
    ['a success status is another', /200: remove/, (d) => {
      const { responses } = create(d);
      responses['201'] = responses['200']!;
      delete responses['200'];
    }],
    ['an error status is gone', /404: remove/, (d) => delete d.paths['/plants/{id}']!['delete']!.responses['404']],
    ['a media type is another', /json: remove/, (d) => {
      const { content } = list(d).responses['200']!;
      content['text/json'] = content['application/json'];
      delete content['application/json'];
    }],
    ['a response header is gone', /remove/, (d) => delete d.components.responses['Unauthorized']!.headers['WWW-Authenticate']],
    ['a field of a response may be missing', /required/, (d) => (schema(d, 'Plant').required = [])],
    ['a format is another', /format: replace/, (d) => (schema(d, 'Error').properties['error'] = { type: 'integer', format: 'int64' })],
    ['a parameter is gone', /parameters/, (d) => delete (list(d) as Partial<EditableOperation>).parameters],
    ['a parameter has another name', /parameters 0: remove/, (d) => (limit(d).name = 'max')],
    ['a parameter is required', /required: add|required: replace/, (d) => (limit(d).required = true)],
    ['a parameter may be less', /maximum: replace/, (d) => Object.assign(limit(d).schema, { maximum: 100 })],
    ['there is a new required parameter', /parameters 1: add/, (d) =>
      list(d).parameters.push({ name: 'q', required: true, schema: { type: 'string' }, ...{ in: 'query' } })],
    ['there is a new required field', /add/, (d) => {
      schema(d, 'NewPlant').properties['origin'] = { type: 'string' };
      schema(d, 'NewPlant').required.push('origin');
    }],
    ['a field is required', /required/, (d) => schema(d, 'NewPlant').required.push('tag')],
    ['a field may be less', /maxLength: add/, (d) => Object.assign(schema(d, 'NewPlant').properties['name']!, { maxLength: 5 })],
    // Detected by our own rules.
    ['security is dropped', /get \/plants: another security/, (d) => delete (d as Partial<Editable>).security],
    ['an operation is public', /another security/, (d) => (list(d)['security'] = [])],
    ['a security scheme is another', /another security/, (d) =>
      (d.components.securitySchemes['bearerAuth'] = { type: 'apiKey', in: 'header', name: 'X-Key' })],
    ['an operation needs another scope', /another security/, (d) => (list(d)['x-required-scope'] = 'plants:write')],
    ['an operationId is another', /another operationId/, (d) => (list(d)['operationId'] = 'getPlants')],
    ['a field of a response is gone', /items: the field tag is gone/, (d) => delete schema(d, 'Plant').properties['tag']],
    ['a field of a response has another type', /name: another type/, (d) => (schema(d, 'Plant').properties['name'] = { type: 'integer' })],
    ['a field of a response may be null', /name: may be null/, (d) => Object.assign(schema(d, 'Plant').properties['name']!, { nullable: true })],
    ['a closed request no longer takes a field', /the field tag is no longer taken/, (d) => delete schema(d, 'NewPlant').properties['tag']],
    ['a response header is no longer certain', /Retry-After is no longer certain/, (d) => (d.components.headers['Retry-After']!.required = false)],
    ['an error code is gone', /40011/, (d) => (d.info.description = d.info.description.replace(/\| 40011.*\n/, ''))],
    ['the address is another', /another address/, (d) => (d.servers = [{ url: '/v1' }])],
  ];
  for (const [name, reported, edit] of breaks) {
    const after = await released();
    edit(after);
    t.match(breakingChanges(await released(), after).join('\n'), reported, name);
  }

  const opened = await released();
  schema(opened, 'NewPlant')['additionalProperties'] = true;
  create(opened).requestBody.required = false;
  t.match(
    breakingChanges(opened, await released()).join('\n'),
    /no other fields any more/,
    'a request is closed',
  );
  t.match(breakingChanges(opened, await released()).join('\n'), /a required body/, 'a body is required');
});

t.test(
  'every contract of the tests can be compared, also one whose schemas contain themselves',
  async (t) => {
    const read = async (file: string) => parse(await readFile(join(root, file), 'utf8')) as Editable;
    const orchard = 'test/support/garden/orchard.yaml';
    for (const file of [orchard, 'test/support/garden/openapi.yaml', 'examples/library/openapi.yaml']) {
      t.strictSame(breakingChanges(await read(file), await read(file)), [], file);
    }
    const { schemas } = (await read(orchard)).components;
    const edits: [name: string, edit: (all: typeof schemas) => unknown, expected: RegExp][] = [
      [
        'another type',
        (all) => (all['Branch']!.properties['leaves'] = { type: 'string' }),
        /leaves: another type/,
      ],
      [
        'a type more',
        (all) => (all['Tree']!.properties['height'] = { type: ['number', 'null'] }),
        /height: another/,
      ],
      ['a field less', (all) => delete all['Branch']!.properties['fork'], /the field fork is gone/],
      [
        'a field less in an alternative',
        (all) => delete all['Wood']!.properties['dried'],
        /field dried is gone/,
      ],
      [
        'of a request, too',
        (all) => delete all['Wood']!.properties['dried'],
        /field dried is no longer taken/,
      ],
    ];
    for (const [name, edit, expected] of edits) {
      const after = await read(orchard);
      edit(after.components.schemas);
      t.match(breakingChanges(await read(orchard), after).join('\n'), expected, name);
    }
  },
);

t.test('compatible changes are accepted', async (t) => {
  const after = await released();
  const list = after.paths['/plants']!['get']!;
  list.parameters.push({ name: 'q', required: false, schema: { type: 'string' }, ...{ in: 'query' } });
  list.responses['304'] = { content: {} };
  list['description'] = 'Other words.';
  list['summary'] = 'Other words';
  after.paths['/seeds'] = { get: { ...list, operationId: 'listSeeds' } };
  after.components.schemas['NewPlant']!.properties['origin'] = { type: 'string' };
  after.components.schemas['Plant']!.properties['origin'] = { type: 'string' };
  after.components.responses['BadRequest']!.headers['X-New'] = { schema: { type: 'string' } };
  after.info.description += '\n| 42900 | Too many requests. |\n';
  Object.assign(list.parameters[0]!.schema, { maximum: 2_147_483_647 });
  t.strictSame(breakingChanges(await released(), after), []);
});

t.test('an error whose code is taken, or is that of no error status, prevents startup', async (t) => {
  const contract = loadContract();
  const contents = contract.operations.flatMap(({ errors }) => errors);
  const check = (errors: Record<string, ErrorEntry>) => {
    createErrorWriter(new Compiler(contract.document), contents, { errors });
  };
  check({ one: { code: 40999, message: 'One.' }, unknownOutcome: { code: 50302, message: 'Another text.' } });
  const two = { one: { code: 40999, message: 'One.' }, two: { code: 40999, message: 'Two.' } };
  t.throws(() => {
    check(two);
  }, /errors one and two have the same code, 40999/);
  for (const code of [404, 4040, 39_999, 60_000, 40_400.5]) {
    t.throws(() => {
      check({ one: { code, message: 'One.' } });
    }, /code of the error one is not an HTTP status/);
  }
});

// Ajv once took minutes for this body, and nothing else ran meanwhile.
t.test('the faults of very many numbers are counted, and the first ones described', (t) => {
  const content = (schema: object) => ({ 'application/json': { schema } });
  const error = { error: { type: 'integer', format: 'int32' }, message: { type: 'string' } };
  const post = {
    operationId: 'count',
    requestBody: { content: content({ type: 'array', items: { type: 'integer', minimum: 5 } }) },
    responses: {
      200: { description: 'Counted.' },
      default: {
        description: 'Failed.',
        content: content({ type: 'object', required: Object.keys(error), properties: error }),
      },
    },
  };
  const info = { title: 'Numbers', version: '1.0.0' };
  const document = { openapi: '3.0.3', info, security: [], paths: { '/numbers': { post } } };
  const contract = loadContract(Buffer.from(JSON.stringify(document)));
  const schema = contract.operations[0]!.body!.schemas.get('application/json')!;
  const validate = createValidator(new Compiler(contract.document), schema, 'json');
  const fault = validate(Array.from({ length: 300_000 }, (_, i) => (i === 0 ? 4 : 'x')));
  const least = 'must be an integer from 5 to 9007199254740991';
  t.match(fault, new RegExp(`^0 ${least}; 1 ${least}, not a string; .*; and 299990 more faults$`));
  t.end();
});
