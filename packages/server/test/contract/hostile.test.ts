// A contract is data: whatever its author wrote, nothing of it runs, nothing is fetched or read because it says so, and
// checking it ends.
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import ts from 'typescript';
import { parse } from 'yaml';
import { checkContract } from '../../dist/cli/check.js';
import { findErrorForms } from '../../dist/cli/error-form.js';
import { commandLimits, runLimited } from '../../dist/cli/limited.js';
import { filesOf, type Manifest } from '../../dist/cli/new-files.js';
import { renderTypes } from '../../dist/cli/types.js';
import { loadContract, type Contract } from '../../dist/contract/contract.js';
import { ContractError, formatFinding } from '../../dist/contract/document/finding.js';
import type { Finding } from '../../dist/contract/document/finding.js';
import { loadChecked } from '../../dist/http/checked-contract.js';
import { edited } from '../support/edited.js';
import { temporaryFolder } from '../support/engines.js';
import { gardenDocument, orchardDocument } from '../support/garden/garden.js';

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest;

/** What would set `stolen`, if it were code, after each way to end a text, a comment or a line. */
const attempts = [
  ...['\n', '\r', '\r\n', '\u2028', '\u2029', '\u0085', '\f', '\u001b[2K\r'].map((end) => `${end}stolen=1//`),
  ...[
    '"',
    "'",
    '`',
    '\\"',
    "\\'",
    '\\',
    '"]',
    '"}',
    '";',
    "';",
    '*/',
    '**//',
    '*\\/',
    '-->',
    ')',
    '}',
    '];',
  ].map((end) => `${end};stolen=1;/*`),
  ...[
    '${stolen=1}',
    '"+(stolen=1)+"',
    "'+(stolen=1)+'",
    '`+(stolen=1)+`',
    '<script>stolen=1</script>',
    '\u202e/*stolen=1*/',
  ],
  '\n```js\nstolen=1\n```\n',
  '](javascript:stolen=1)',
];

type Steps = readonly (string | number)[];
const pointerOf = (steps: Steps) =>
  steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

/** What has names as fields: others are fields of OpenAPI. */
const owners = [
  ...[
    'paths',
    'webhooks',
    'schemas',
    'parameters',
    'headers',
    'requestBodies',
    'securitySchemes',
    'examples',
  ],
  ...[
    'properties',
    'patternProperties',
    '$defs',
    'content',
    'encoding',
    'mapping',
    'scopes',
    'callbacks',
    'links',
  ],
  ...['responses', 'variables'],
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

const controls = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;

/** Leaves out attempts that are refused, until a contract is left that is accepted. */
function accepted(document: object, attemptAt: (place: Place) => string) {
  const left = new Set<Place>(attacked(document, () => '').places.keys());
  const findings: Finding[] = [];
  for (;;) {
    const { document: copy, places } = attacked(document, (place) =>
      left.has(place) ? attemptAt(place) : undefined,
    );
    try {
      const contract = loadContract(Buffer.from(JSON.stringify(copy)), true);
      return { contract, places: left, findings: [...findings, ...contract.warnings] };
    } catch (error) {
      if (!(error instanceof ContractError)) throw error;
      findings.push(...error.faults);
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
  t.notMatch(code.replaceAll('\n', ''), controls, `${name} looks as it reads`);
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
    errors: findErrorForms(contract),
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
      const { contract, places, findings } = accepted(document, attemptAt);
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
      for (const finding of findings) t.notMatch(formatFinding(finding), controls);
    });
  // How many there are depends on which contracts were drawn: sometimes, nothing is left of those that are accepted.
  for (let i = 0; i < 9 && count <= 30; i++)
    await fc.assert(property(), { numRuns: Number(process.env['FUZZ_RUNS'] ?? 3), endOnFailure: true });
  t.ok(count > 30, `${count} attempts were in contracts that were accepted`);
});

t.test('names, paths and operationIds with control characters are refused', (t) => {
  const id = { in: 'path', required: true, schema: { type: 'string' } };
  const responses = { default: { description: 'Failed' } };
  const faultsOf = (paths: object, more: object = {}) => {
    try {
      const document = { openapi: '3.1.0', info: { title: 'A', version: '1' }, security: [], paths, ...more };
      loadContract(Buffer.from(JSON.stringify(document)));
      return [];
    } catch (error) {
      return (error as ContractError).faults.map(formatFinding);
    }
  };
  const fault = (pointer: string) =>
    `: ${pointer}: a name has control characters. Leave out line breaks and other control characters.`.slice(
      2,
    );
  const at = (found: readonly string[]) => found.map((one) => one.replace(/^\d+:\d+ /, ''));
  for (const control of ['\n', '\u2028', '\u001b', '\u202e', '\ud800']) {
    const name = `a${control}b`;
    const shown = `a\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}b`;
    t.strictSame(at(faultsOf({ [`/{${name}}`]: { get: { parameters: [{ name, ...id }], responses } } })), [
      fault(`/paths/~1{${shown}}`),
      fault(`/paths/~1{${shown}}/get/parameters/0/name`),
    ]);
    t.strictSame(at(faultsOf({ '/a': { get: { operationId: name, responses } } })), [
      fault('/paths/~1a/get/operationId'),
    ]);
    t.strictSame(
      at(faultsOf({}, { components: { schemas: { [name]: {} } } })),
      [fault(`/components/schemas/${shown}`)],
      'also in what no operation uses',
    );
    t.strictSame(
      faultsOf(
        {},
        { components: { schemas: { Used: { enum: [name], default: name } } }, 'x-names': { [name]: 1 } },
      ),
      [],
      'in data, they are data',
    );
  }
  t.end();
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
    let refused: readonly Finding[] = [];
    try {
      load(places);
    } catch (error) {
      refused = (error as ContractError).faults;
    }
    const found = new Set(refused.map(({ pointer }) => pointer));
    const left = places.filter((steps) => !found.has(`${pointerOf(steps)}/$ref`));
    t.strictSame(
      left.filter(
        (steps) =>
          !steps.some((step) => /^(x-.*|examples?|default|enum|const|value|links)$/.test(String(step))),
      ),
      [],
      `${reference} is refused everywhere but in data`,
    );
    t.ok(left.length > 10, 'in data, it is data');
    t.notMatch(renderTypes(load(left)), 'stolen');
  }
  t.strictSame(requests, []);
});

const head = 'openapi: 3.1.0\ninfo: { title: A, version: 1.0.0 }\nsecurity: []\n';
const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('');
const json = (more: object) =>
  JSON.stringify({ openapi: '3.1.0', info: { title: 'A', version: '1.0.0' }, security: [], ...more });
const withSchema = (schema: object) =>
  json({
    paths: {
      '/a': {
        get: { responses: { default: { description: 'A', content: { 'application/json': { schema } } } } },
      },
    },
  });

t.test('what no contract needs is one clear fault, whatever its size', async (t) => {
  const file = join(await temporaryFolder(t), 'contract.yaml');
  const deep = 'there are more than 1000 levels here';
  const long = 'the name has more than 2000 characters';
  const letters = (count: number) => 'a'.repeat(count);
  const cases: [text: string, ...messages: string[]][] = [
    ['['.repeat(20_000), deep],
    [`${'['.repeat(20_000)}${']'.repeat(20_000)}`, deep],
    ['- '.repeat(20_000), deep],
    ['? '.repeat(20_000), deep],
    [lines(1100, (i) => `${' '.repeat(i)}a:\n`), deep],
    [
      `${head}x-a:\n${lines(6000, (i) => `- &a${i} x\n- *a${i}\n`)}`,
      'there are more than 10000 anchors and aliases',
    ],
    [
      `${head}x-0: &a0 ["${letters(1000)}"]\n${lines(8, (i) => `x-${i + 1}: &a${i + 1} [${Array(20).fill(`*a${i}`).join()}]\n`)}`,
      'aliases stand for too many characters',
    ],
    [`${head}x-a: { ? [b] : c }`, 'a name must be a text'],
    [`${head}x-a: { a: 1, b: 2, 'a': 3 }`, 'the name is there twice'],
    [withSchema({ required: [letters(60_000)], properties: { [letters(60_001)]: {} } }), long],
    [withSchema({ required: [letters(60_000)], properties: { b: {} } }), long],
    [withSchema({ description: letters(1_000_001) }), 'the text has more than 1000000 characters'],
    [
      withSchema(Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`typo${i}`, 1]))),
      'there are more than 10000',
      ...Array.from({ length: 10_000 }, (_, i) => `typo${i} is not supported here`),
    ],
  ];
  for (const [text, ...messages] of cases) {
    await writeFile(file, text);
    const { faults } = checkContract(file, false);
    t.strictSame(
      faults.map(({ message }) => message),
      messages,
    );
  }
  const repeated = `${head}x-a: &a [1, 2]\nx-b: [${Array(500).fill('*a').join()}]\n`;
  await writeFile(file, repeated);
  t.strictSame(checkContract(file, false).faults, [], 'aliases may repeat what is short');
});

t.test('a check takes time in proportion to the contract', async (t) => {
  const file = join(await temporaryFolder(t), 'contract.yaml');
  const secondsFor = async (text: string) => {
    await writeFile(file, text);
    const start = process.cpuUsage();
    checkContract(file, false);
    const { user, system } = process.cpuUsage(start);
    return user + system;
  };
  const named = <Value>(count: number, value: (i: number) => Value, name = 'n') =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [name + String(i), value(i)]));
  const responses = { default: { description: 'A' } };
  const kinds: Record<string, (count: number) => string> = {
    'names in an object': (count) => json({ 'x-a': named(count * 3, () => 1) }),
    aliases: (count) => `${head}x-a:\n${lines(count / 2, (i) => `- &a${i} x\n- *a${i}\n`)}`,
    'media types': (count) =>
      json({
        paths: { '/a': { post: { requestBody: { content: named(count, () => ({}), 'a/b') }, responses } } },
      }),
    'required properties': (count) =>
      withSchema({
        properties: named(count, () => ({})),
        required: Object.keys(named(count, () => 0)),
        additionalProperties: false,
      }),
    'references to nothing': (count) =>
      json({
        paths: {
          '/a': { get: { responses: named(count, (i) => ({ $ref: `#/components/responses/m${i}` }), '2') } },
        },
        components: { responses: named(count, () => ({ description: 'A' })) },
      }),
    'security schemes': (count) =>
      json({
        security: [named(count, () => [])],
        paths: { '/a': { get: { responses } } },
        components: { securitySchemes: named(count, () => ({ type: 'http', scheme: 'bearer' }), 's') },
      }),
  };
  for (const [kind, write] of Object.entries(kinds)) {
    const ratios: number[] = [];
    while (ratios.length < 6 && !ratios.some((ratio) => ratio < 12))
      ratios.push((await secondsFor(write(6000))) / (await secondsFor(write(1500))));
    const shown = ratios.map((ratio) => ratio.toFixed(1)).join(', ');
    t.ok(Math.min(...ratios) < 12, `${kind}: 4 times as many take ${shown} times as long`);
  }
});

t.test('a description in the types is no directive of the compiler', (t) => {
  const description = '/components/schemas/Error/properties/message/description';
  for (const text of ['@ts-expect-error', ' @ts-ignore, says the author', 'a\n@ts-nocheck']) {
    const document = JSON.stringify(edited(gardenDocument, { [description]: text }));
    const types = renderTypes(loadChecked(Buffer.from(document), false));
    t.match(types, text.split('ts-')[1]);
    t.notMatch(types, /@ts-/);
  }
  t.end();
});

t.test('a command ends within its limits, and says which one the contract exceeds', async (t) => {
  const file = join(await temporaryFolder(t), 'contract.json');
  await writeFile(file, JSON.stringify(gardenDocument));
  const script = new URL('../../dist/cli/command.js', import.meta.url);
  const check = (limits: Partial<typeof commandLimits>) =>
    runLimited(script, file, { ...commandLimits, ...limits }, ['check', file]);
  const remedy = 'leave out parts of it to find which one does';
  await t.rejects(check({ seconds: 0.01 }), {
    message: `${file} is too complex: it takes more than 0 s of CPU time; ${remedy}`,
  });
  await t.rejects(check({ megabytes: 8 }), {
    message: `${file} is too complex: it takes more than 8 MB of memory; ${remedy}`,
  });
});

/** Files of the compiler's libraries. */
const libraries = new Map<string, ts.SourceFile | undefined>();

/** What the compiler says about generated types. */
function faultsOfTypes(source: string): string[] {
  const [file, server] = ['/types.ts', '/contract-server.d.ts'];
  const texts = new Map([
    [file, source],
    [server, "declare module 'contract-server' { export class UploadedFile {} }"],
  ]);
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const getSourceFile: typeof host.getSourceFile = (name, language) => {
    const text = texts.get(name);
    if (text !== undefined) return ts.createSourceFile(name, text, language);
    if (!libraries.has(name)) libraries.set(name, host.getSourceFile(name, language));
    return libraries.get(name);
  };
  const program = ts.createProgram([file, server], options, { ...host, getSourceFile });
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

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
  // No operation uses this schema, so it is not checked; it has a type all the same.
  const unused = '/components/schemas/Error/properties/message';
  for (const document of contractsWithSlips()) {
    const places = placesIn(document, '').slice(1);
    const examples: [string, unknown][] = places.includes(unused) ? [[unused, null]] : [];
    fc.assert(
      fc.property(fc.constantFrom(...places), fc.constantFrom<unknown>(...slips), (place, value) => {
        try {
          const contract = loadChecked(
            Buffer.from(JSON.stringify(edited(document, { [place]: value }))),
            false,
          );
          const faults = faultsOfTypes(renderTypes(contract));
          t.strictSame(faults, [], `${place} ${JSON.stringify(value)}: its types compile`);
        } catch (error) {
          if (!(error instanceof ContractError)) throw error;
          t.notMatch(error.faults.map(formatFinding).join('\n'), /\[object Object\]|undefined/);
        }
      }),
      { numRuns: Number(process.env['FUZZ_RUNS'] ?? 50), examples },
    );
  }
  t.end();
});
