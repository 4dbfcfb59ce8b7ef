// A contract is data: whatever its author wrote, nothing of it runs, and nothing is fetched or read because it says so.
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import ts from 'typescript';
import { parse } from 'yaml';
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
      const contract = loadContract(Buffer.from(JSON.stringify(copy)), true);
      return { contract, places: left };
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      const isIn = (inner: string, outer: string) => inner === outer || inner.startsWith(`${outer}/`);
      const pointers = error.faults.map(({ pointer }) => pointer);
      const at = [...left].filter((place) => pointers.some((pointer) => isIn(pointer, places.get(place)!)));
      // What was renamed on the way to what a reference names, or else around what has the fault.
      const lost = error.faults.flatMap(
        ({ message }) => /^#(.*) refers to nothing$/.exec(message)?.[1] ?? [],
      );
      const above = [...left].filter((place) => lost.some((to) => isIn(to, place.replace(/\+$/, ''))));
      const around = (levels: number) =>
        [...left].filter((place) =>
          pointers.some((pointer) =>
            isIn(
              places.get(place)!,
              pointer
                .split('/')
                .slice(0, -levels || undefined)
                .join('/'),
            ),
          ),
        );
      const found = [at, above, ...[0, 1, 2, 3, 99].map(around)].find(({ length }) => length > 0);
      for (const place of found!) left.delete(place);
    }
  }
}

/** Fails if an attempt is code in a module, and runs it. */
async function checkCode(t: Test, code: string, name: string): Promise<void> {
  const { diagnostics = [], outputText } = ts.transpileModule(code, {
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
  // Whatever a module imports, calls and reads is a function that does nothing.
  const nothing: unknown = new Proxy(Object, {
    get: (_, key) => (key === 'then' ? undefined : nothing),
    apply: () => nothing,
    construct: () => nothing as object,
  });
  const require = () => nothing;
  const context = createContext({ exports: {}, require, URL: nothing });
  const script = `(async () => {${outputText.replaceAll('import.meta', 'URL')}\n})()`;
  await t.resolves(runInContext(script, context) as Promise<unknown>, `${name} runs`);
  t.notOk('stolen' in context, `nothing of the contract runs in ${name}`);
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
    fc.asyncProperty(rounds, async ({ document, all }) => {
      const chosen = new Map<Place, string>();
      const attemptAt = (place: Place) => {
        if (!chosen.has(place)) chosen.set(place, all.next().value as string);
        return chosen.get(place)!;
      };
      const { contract, places } = accepted(document, attemptAt);
      count += places.size;
      const types = renderTypes(contract);
      await checkCode(t, types, 'types.gen.ts');
      const files = filesFor(contract);
      for (const [name, text] of Object.entries(files))
        if (name.endsWith('.ts')) await checkCode(t, text, name);
      const plain = filesFor(loadContract(Buffer.from(JSON.stringify(document)), true));
      const linesOf = (text: string) => text.split(/[\n\r]/).length;
      t.equal(linesOf(files['README.md']!), linesOf(plain['README.md']!));
      t.notMatch(files['README.md']!, /<script>|[^\\]\]\(javascript/);
    });
  // How many there are depends on which contracts were drawn: sometimes, nothing is left of those that are accepted.
  for (let i = 0; i < 9 && count <= 30; i++)
    await fc.assert(property(), { numRuns: Number(process.env['FUZZ_RUNS'] ?? 3), endOnFailure: true });
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
  const unused = {
    properties: { a: { items: {} } },
    ...{ example: { a: {} }, default: {}, enum: [{}, { a: {} }], const: {} },
  };
  const parameter = { name: 'a', in: 'query', schema: {}, examples: { a: { value: {} } } };
  const labels = '/paths/~1labels/post/requestBody/content/application~1json';
  const document = edited(orchardDocument, {
    '/x-data': { a: {} },
    '/components/schemas/Unused': unused,
    '/components/examples': { one: { value: { a: {} } } },
    '/components/parameters': { unused: parameter },
    '/components/callbacks': { a: { '{$url}': { post: { responses: { default: { description: 'A' } } } } } },
    '/components/links': { a: { parameters: { a: {} } } },
    [`${labels}/example`]: { a: [{}] },
    '/components/schemas/Label/x-a': { a: [{}] },
    '/components/schemas/Branch/examples': [{ a: {} }],
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
  for (const reference of [
    `http://127.0.0.1:${port}/a`,
    `file://${secret}`,
    secret,
    'secret.json',
    'secret',
  ]) {
    const withReferences = (chosen: readonly Steps[]) =>
      edited(document, Object.fromEntries(chosen.map((steps) => [`${pointerOf(steps)}/$ref`, reference])));
    const load = (chosen: readonly Steps[]) =>
      loadContract(Buffer.from(JSON.stringify(withReferences(chosen))));
    // What is refused hides what is inside: in the end, references are left only where nothing follows them.
    let left = places;
    let types: string | undefined;
    while (types === undefined)
      try {
        types = renderTypes(load(left));
      } catch (error) {
        const pointers = (error as ContractError).faults.map(({ pointer }) => pointer);
        const isRefused = (steps: Steps) =>
          pointers.some((pointer) => pointer.startsWith(`${pointerOf(steps)}/$ref`));
        if (!left.some(isRefused)) throw error;
        left = left.filter((steps) => !isRefused(steps));
      }
    t.notMatch(types, 'stolen');
    t.ok(left.length > 10, 'in data, it is data');
  }
  t.strictSame(requests, []);
});

/** The faults of a contract that is refused; none if it is accepted. */
function faultsOf(text: string) {
  try {
    loadContract(Buffer.from(text));
    return [];
  } catch (error) {
    if (!(error instanceof ContractError)) throw error;
    return error.faults;
  }
}

t.test('what no contract needs is one clear fault', (t) => {
  const head = 'openapi: 3.1.0\ninfo: { title: A, version: 1.0.0 }\nsecurity: []\n';
  const levels = 'the text is nested too deeply';
  const own = 'Refer to components with $ref instead of aliases';
  const chain = Array.from(
    { length: 9 },
    (_, i) => `x-${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join()}]`,
  );
  const cases: [text: string, line: number, message: string, fix?: string][] = [
    ['['.repeat(20_000), 1, levels],
    [`${'['.repeat(20_000)}${']'.repeat(20_000)}`, 1, levels],
    ['- '.repeat(20_000), 1, levels],
    [
      `${head}x-0: &a0 [b]\n${chain.join('\n')}`,
      1,
      'Excessive alias count indicates a resource exhaustion attack',
      own,
    ],
    [`${head}x-a: { <<: 5 }`, 1, 'Merge sources must be maps or map aliases', own],
    [`${head}x-a: *b`, 4, '*b stands for nothing'],
    [`${head}x-a: { ? [b] : c }`, 4, 'With stringKeys, all keys must be strings'],
    [`${head}x-a: { a: 1, b: 2, 'a': 3 }`, 4, 'Map keys must be unique'],
    [' '.repeat(50_000_001), 1, 'the file has more than 50 MB'],
  ];
  for (const [text, line, message, fix] of cases) {
    const faults = faultsOf(text);
    t.match(faults, [{ line, message, ...(fix !== undefined && { fix }) }]);
    t.equal(faults.length, 1);
  }
  for (const inner of ['allOf: [*]', 'oneOf: [*, {}]', 'not: *']) {
    const schemas = Array.from(
      { length: 5_000 },
      (_, i) => `    S${i}: { ${inner.replace('*', `{ $ref: '#/components/schemas/S${i + 1}' }`)} }\n`,
    );
    const text = `${head}paths:
  /a:
    post:
      operationId: a
      requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/S0' } } } }
      responses: { 204: { description: x } }
components:
  schemas:
${schemas.join('')}    S5000: {}
`;
    const fault = {
      line: 1,
      message: 'schemas are nested too deeply',
      fix: 'Nest fewer schemas in each other',
    };
    const faults = faultsOf(text);
    t.match(faults, [fault]);
    t.equal(faults.length, 1);
  }
  const repeated = `${head}x-a: &a [1, 2]\nx-b: [${Array(500).fill('*a').join()}]\n`;
  t.ok(loadContract(Buffer.from(repeated)), 'aliases may repeat what is short');
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

/** Contracts to which slips happen: those of a folder, if a longer run names one. */
function contractsWithSlips(): readonly object[] {
  const folder = process.env['FUZZ_CONTRACTS'];
  if (folder === undefined) return [gardenDocument, orchardDocument];
  return readdirSync(folder).map((name) => parse(readFileSync(join(folder, name), 'utf8')) as object);
}

t.test('whatever a slip makes of a value, a contract is accepted, or its faults are listed', (t) => {
  const placesIn = (value: unknown, place: string): string[] =>
    typeof value !== 'object' || value === null
      ? [place]
      : [
          place,
          ...Object.entries(value).flatMap(([name, inner]) => placesIn(inner, place + pointerOf([name]))),
        ];
  const slips = [null, {}, [], true, 5, '', [null], { $ref: null }, { $ref: '#' }, { enum: [], default: 1 }];
  for (const document of contractsWithSlips())
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
