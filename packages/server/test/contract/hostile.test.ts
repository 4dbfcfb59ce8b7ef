// A contract is data: whatever its author wrote, nothing of it runs, and nothing is fetched or read because it says so.
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import ts from 'typescript';
import {
  ContractError,
  filesOf,
  findErrorForm,
  formatFinding,
  loadContract,
  renderTypes,
  type Contract,
  type Manifest,
} from '../support/contract-reader.js';
import { edited } from '../support/edited.js';
import { temporaryFolder } from '../support/engines.js';
import { gardenDocument, orchardDocument } from '../support/garden/garden.js';

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest;

/** What would set `stolen`, if it were code, after each way to end a text, a comment or a line. */
const attempts = [
  ...['\n', '\r', '\r\n', '\u2028', '\u2029', '\u0085', '\f', '\u001b[2K\r'].map((end) => `${end}stolen=1//`),
  ...[
    ...['"', "'", '`', '\\"', "\\'", '\\', '"]', '"}', '";', "';", '*/', '**//', '*\\/', '-->'],
    ...[')', '}', '];'],
  ].map((end) => `${end};stolen=1;/*`),
  ...['${stolen=1}', '"+(stolen=1)+"', "'+(stolen=1)+'", '`+(stolen=1)+`', '<script>stolen=1</script>'],
  '\n```js\nstolen=1\n```\n',
  '](javascript:stolen=1)',
];

type Steps = readonly (string | number)[];
const pointerOf = (steps: Steps) =>
  steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

/** What has names as fields: others are fields of OpenAPI. */
const owners = [
  ...'paths webhooks schemas parameters headers requestBodies securitySchemes examples responses'.split(' '),
  ...'properties patternProperties $defs content encoding mapping scopes callbacks links variables'.split(
    ' ',
  ),
];

/** A text or a name in a document: the pointer to a text, or to what has a name, with a + after it. */
type Place = string;

/** A copy of a document with an attempt after each of some texts and names, and where that is in the copy. */
function attacked(document: object, attemptAt: (place: Place) => string | undefined) {
  const places = new Map<Place, string>();
  const copy = (value: unknown, old: Steps, now: Steps): unknown => {
    if (Array.isArray(value)) return value.map((item, i) => copy(item, [...old, i], [...now, i]));
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(
        Object.entries(value).map(([name, inner]: [string, unknown]) => {
          const isName = owners.includes(String(old.at(-1)));
          const attempt = isName ? attemptAt(`${pointerOf([...old, name])}+`) : undefined;
          const changed = name + (attempt ?? '');
          const to = [...now, changed];
          if (attempt !== undefined) places.set(`${pointerOf([...old, name])}+`, pointerOf(to));
          return [changed, copy(inner, [...old, name], to)];
        }),
      );
    const attempt = typeof value === 'string' ? attemptAt(pointerOf(old)) : undefined;
    if (attempt === undefined) return value;
    places.set(pointerOf(old), pointerOf(now));
    return `${String(value)}${attempt}`;
  };
  return { document: copy(document, [], []) as object, places };
}

/** Leaves out attempts that are refused, until a contract is left that is accepted. */
function accepted(document: object, attemptAt: (place: Place) => string) {
  const left = new Set<Place>(attacked(document, () => '').places.keys());
  for (;;) {
    const { document: copy, places } = attacked(document, (place) =>
      left.has(place) ? attemptAt(place) : undefined,
    );
    try {
      return { contract: loadContract(Buffer.from(JSON.stringify(copy)), true), places: left };
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      const isIn = (inner: string, outer: string) => inner === outer || inner.startsWith(`${outer}/`);
      // What has the fault or is around it, or was renamed on the way to what a reference names.
      const blamed = error.faults.flatMap(({ pointer, message }) => {
        const lost = /^#(.*) refers to nothing$/.exec(message)?.[1];
        return [...left].filter((place) =>
          lost === undefined ? isIn(pointer, places.get(place)!) : isIn(lost, place.replace(/\+$/, '')),
        );
      });
      const beside = (pointer: string) => pointer.replace(/\/[^/]*$/, '');
      const near = error.faults.flatMap(({ pointer }) =>
        [...left].filter((place) => isIn(places.get(place)!, beside(pointer))),
      );
      for (const place of blamed.length > 0 ? blamed : near.length > 0 ? near : left) left.delete(place);
    }
  }
}

/** Fails if an attempt is code in a module. */
function checkCode(t: Test, code: string, name: string): void {
  const { diagnostics = [] } = ts.transpileModule(code, {
    reportDiagnostics: true,
    compilerOptions: { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2023 },
  });
  t.strictSame(
    diagnostics.map(({ messageText }) => messageText),
    [],
    `${name} is TypeScript`,
  );
  const names: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) names.push(node.text);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, code, ts.ScriptTarget.ES2023));
  t.notOk(
    names.some((one) => one.includes('stolen')),
    `no text of the contract is code in ${name}`,
  );
}

const filesFor = (contract: Contract) =>
  filesOf({
    name: 'taken',
    file: 'openapi.yaml',
    contract,
    errors: findErrorForm(contract),
    hasStore: true,
    dependency: 'file:server.tgz',
    manifest,
  });

t.test('nothing of a contract runs, wherever it is in what is generated from it', async (t) => {
  const summary = (document: object, path: string, method: string): object =>
    edited(document, { [`/paths/${path.replaceAll('/', '~1')}/${method}/summary`]: 'Says what it does' });
  const documents = [summary(gardenDocument, '/about', 'get'), summary(orchardDocument, '/labels', 'post')];
  const rounds = fc.record({
    document: fc.constantFrom(...documents),
    all: fc.infiniteStream(fc.constantFrom(...attempts)),
  });
  let count = 0;
  const property = () =>
    fc.property(rounds, ({ document, all }) => {
      const chosen = new Map<Place, string>();
      const attemptAt = (place: Place) => {
        if (!chosen.has(place)) chosen.set(place, all.next().value as string);
        return chosen.get(place)!;
      };
      const { contract, places } = accepted(document, attemptAt);
      count += places.size;
      const types = renderTypes(contract);
      checkCode(t, types, 'types.gen.ts');
      const files = filesFor(contract);
      for (const [name, text] of Object.entries(files)) if (name.endsWith('.ts')) checkCode(t, text, name);
      const plain = filesFor(loadContract(Buffer.from(JSON.stringify(document)), true));
      const linesOf = (text: string) => text.split(/[\n\r]/).length;
      t.equal(linesOf(files['README.md']!), linesOf(plain['README.md']!));
      t.notMatch(files['README.md']!, /<script>|[^\\]\]\(javascript/);
    });
  // How many there are depends on which contracts were drawn: sometimes, nothing is left of those that are accepted.
  for (let i = 0; i < 9 && count <= 30; i++)
    fc.assert(property(), { numRuns: Number(process.env['FUZZ_RUNS'] ?? 3), endOnFailure: true });
  t.ok(count > 30, `${count} attempts were in contracts that were accepted`);
});

t.test('nothing is fetched or read because a contract says so', async (t) => {
  const requests: string[] = [];
  const server = createServer(({ url }, response) => {
    requests.push(url!);
    response.end('{"type":"string","description":"stolen"}');
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  t.teardown(() => server.close());
  const folder = await temporaryFolder(t);
  const secret = join(folder, 'secret.json');
  await writeFile(secret, '{"type":"string","description":"stolen"}');
  const { port } = server.address() as { port: number };
  const document = edited(orchardDocument, {
    '/x-data': { a: {} },
    '/components/schemas/Unused': { properties: { a: { items: {} } }, example: { a: {} }, enum: [{ a: {} }] },
    '/components/examples': { one: { value: { a: {} } } },
    '/components/links': { a: { parameters: { a: {} } } },
    '/components/schemas/Label/properties/free': { default: {}, enum: [{}], example: {} },
  });
  /** All objects of the document. */
  const places: Steps[] = [];
  const visit = (value: unknown, steps: Steps): void => {
    if (typeof value !== 'object' || value === null) return;
    if (!Array.isArray(value)) places.push(steps);
    for (const [name, inner] of Object.entries(value)) visit(inner, [...steps, name]);
  };
  visit(document, []);
  const outside = [`http://127.0.0.1:${port}/a`, `file://${secret}`, secret, 'secret.json', 'secret'];
  let accepted = 0;
  for (const [i, steps] of places.entries()) {
    const withReference = edited(document, { [`${pointerOf(steps)}/$ref`]: outside[i % outside.length] });
    try {
      t.notMatch(renderTypes(loadContract(Buffer.from(JSON.stringify(withReference)))), 'stolen');
      accepted++;
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
    }
  }
  t.ok(accepted > 10, 'in data, it is data');
  t.strictSame(requests, []);
});

t.test('schemas that are nested too deeply are one clear fault', (t) => {
  for (const inner of ['allOf: [*]', 'oneOf: [*, {}]', 'not: *']) {
    const schemas = Array.from(
      { length: 5_000 },
      (_, i) => `    S${i}: { ${inner.replace('*', `{ $ref: '#/components/schemas/S${i + 1}' }`)} }\n`,
    );
    const text = `openapi: 3.1.0
info: { title: A, version: 1.0.0 }
security: []
paths:
  /a:
    post:
      operationId: a
      requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/S0' } } } }
      responses: { 204: { description: x } }
components:
  schemas:
${schemas.join('')}    S5000: {}
`;
    const message =
      'The contract cannot be served:\n1:1 schemas are nested too deeply. Nest fewer schemas in each other.';
    t.throws(() => loadContract(Buffer.from(text)), { name: 'ContractError', message }, inner);
  }
  t.end();
});

t.test('a description in the types is no directive of the compiler', (t) => {
  const description = '/components/schemas/Error/properties/message/description';
  for (const text of ['@ts-expect-error', ' @ts-ignore, says the author', 'a\n@ts-nocheck']) {
    const document = JSON.stringify(edited(gardenDocument, { [description]: text }));
    const types = renderTypes(loadContract(Buffer.from(document), false));
    t.match(types, text.split('ts-')[1]);
    t.notMatch(types, /@ts-/);
  }
  t.end();
});

t.test('whatever a slip makes of a value, a contract is accepted, or its faults are listed', (t) => {
  const placesIn = (value: unknown, place: string): string[] =>
    typeof value !== 'object' || value === null
      ? [place]
      : [
          place,
          ...Object.entries(value).flatMap(([name, inner]) => placesIn(inner, place + pointerOf([name]))),
        ];
  const slips = [null, {}, [], true, 5, '', [null], { $ref: null }, { $ref: '#' }, { enum: [], default: 1 }];
  for (const document of [gardenDocument, orchardDocument])
    fc.assert(
      fc.property(
        fc.constantFrom(...placesIn(document, '').slice(1)),
        fc.constantFrom<unknown>(...slips),
        (place, value) => {
          try {
            loadContract(Buffer.from(JSON.stringify(edited(document, { [place]: value }))), false);
          } catch (error) {
            if (!(error instanceof ContractError)) throw error;
            t.notMatch(error.faults.map(formatFinding).join('\n'), /\[object Object\]|undefined/);
          }
        },
      ),
      { numRuns: Number(process.env['FUZZ_RUNS'] ?? 30) },
    );
  t.end();
});
