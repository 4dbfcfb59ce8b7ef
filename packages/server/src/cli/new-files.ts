// The files of a new service. Their format is that of Prettier without options.
import type { Contract } from '../contract/contract.js';
import { withoutControls } from '../contract/control-characters.js';
import type { Operation } from '../contract/operations.js';
import { isList, type ErrorForm, type Form } from './error-form.js';
import { schemesOf, scopesOf } from './types.js';

/** What the package.json of a package says of others. */
export interface Manifest {
  readonly name: string;
  readonly engines: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** What a new service is made of. */
export interface NewService {
  readonly name: string;
  /** The name of the contract's file. */
  readonly file: string;
  readonly contract: Contract;
  /** The form in which the service renders errors; undefined for the form that they have by themselves. */
  readonly errorForm: ErrorForm | undefined;
  /** Whether errors have a form that the contract declares. */
  readonly errorsMatch: boolean;
  /** Where contract-server is. */
  readonly dependency: string;
  /** That of contract-server. */
  readonly manifest: Manifest;
}

/** The texts of the files, by their paths. */
export function filesOf(service: NewService): Record<string, string> {
  return {
    '.gitignore': 'node_modules/\ndist/\ndata/\nsrc/types.gen.ts\n',
    'README.md': readme(service),
    'package.json': packageJson(service),
    'tsconfig.json': tsconfig,
    'src/cli.ts': cli,
    'src/handlers.ts': handlers(service),
    'src/main.ts': main,
    'src/service.test.ts': test(service),
    'src/service.ts': definition(service),
  };
}

const tsconfig = `{
  "compilerOptions": {
    "target": "es2023",
    "module": "nodenext",
    "types": ["node"],
    "strict": true,
    "noUncheckedIndexedAccess": true,
    "skipLibCheck": true,
    "sourceMap": true,
    "rootDir": "src",
    "outDir": "dist"
  },
  "include": ["src"]
}
`;

const main = `// Starts the server.
import { start } from "contract-server/start";

await start(() => import("./service.js"));
`;

const cli = `// Runs the command, which manages tokens and the store.
import { runCommand } from "contract-server/start";

await runCommand(() => import("./service.js"));
`;

function packageJson({ name, file, errorForm, dependency, manifest }: NewService): string {
  const { engines, peerDependencies, devDependencies } = manifest;
  const sorted = (entries: [string, string][]) =>
    Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  const content = {
    name,
    version: '0.1.0',
    private: true,
    type: 'module',
    engines,
    scripts: {
      build: 'npm run --silent types && tsc',
      check: `contract-server check ${file}${errorForm === undefined ? '' : ' --own-errors'}`,
      migrations: 'npm run --silent build && contract-server migrations dist/service.js',
      prestart: 'npm run --silent build',
      start: 'node dist/main.js --dev',
      test: 'npm run --silent build && node --test dist/service.test.js',
      types: `contract-server types ${file}`,
    },
    // It comes compiled.
    allowScripts: { '@photostructure/sqlite': false },
    dependencies: sorted([...Object.entries(peerDependencies), ['contract-server', dependency]]),
    devDependencies,
  };
  return `${JSON.stringify(content, undefined, 2)}\n`;
}

function handlers({ contract: { operations } }: NewService): string {
  const stubs = operations.map((operation) => {
    const { operationId, method, path } = operation;
    const comment = oneLine(`${method} ${path}${summaryOf(operation)}`);
    return `    // ${comment}\n${property(4, operationId, 'notImplemented')}`;
  });
  return `// The operations of the contract. Replace each notImplemented with a function that
// returns the body of the response, or throws an ApiError.
import {
  notImplemented,
  type Handlers,
  type ServiceContext,
} from "contract-server";
import type { operations, operationSecurity } from "./types.gen.js";

/** Creates the handlers. The context has the collections and the log. */
export function createHandlers(
  context: ServiceContext,
): Handlers<operations, operationSecurity> {
  return {${stubs.length === 0 ? '' : `\n${stubs.join('')}  `}};
}
`;
}

/** What an operation does, if the contract says so. */
function summaryOf({ declared }: Operation): string {
  const { summary } = declared.operation as { summary?: unknown };
  return typeof summary === 'string' ? `: ${summary}` : '';
}

/** A text for a comment, which its line ends. */
function oneLine(text: string): string {
  return withoutControls(text.trim().replaceAll(/\s+/g, ' '));
}

function definition(service: NewService): string {
  const { name, file, errorForm } = service;
  const scopes = scopesOf(service.contract);
  const verifiers = verifiersOf(service.contract);
  const contractServer = ['Opened', ...(errorForm === undefined ? [] : ['RenderedError']), 'Service'];
  const types = [
    'operations',
    'operationSecurity',
    ...(scopes.length > 0 ? ['requiredScope'] : []),
    'securitySchemes',
  ];
  const words = name.replaceAll(/[^a-z0-9]+/g, '_');
  return `// Defines the service.
import type { ${contractServer.join(', ')} } from "contract-server";
import { createHandlers } from "./handlers.js";
import type {
${types.map((type) => `  ${type},\n`).join('')}} from "./types.gen.js";
${
  scopes.length === 0
    ? ''
    : `
/** The compiler reports a scope that the contract adds or removes. */
const scopes: Readonly<Record<requiredScope, true>> = {
${scopes.map((scope) => property(2, scope, 'true')).join('')}};
`
}
export const service: Service = {
  name: ${quote(name)},
  program: new URL("./main.js", import.meta.url),
  command: new URL("./cli.js", import.meta.url),
  contract: new URL("../${file}", import.meta.url),
  open: (context): Opened<operations, operationSecurity, securitySchemes> => ({
    handlers: createHandlers(context),
${verifiers}  }),
  collections: [],
  migrations: new URL("../migrations/", import.meta.url),
  errors: {},
${errorForm === undefined ? '' : renderError(errorForm)}${scopes.length === 0 ? '  scopes: [],' : '  scopes: Object.keys(scopes),'}
  tokenPrefix: ${quote(`${words}_`)},
  realm: ${quote(name)},
  metricPrefix: ${quote(`${words.replace(/^(?=\d)/, '_')}_`)},
  databaseUrl: ${quote(`file:./data/${name}.db`)},
};
`;
}

/** The scheme whose credentials the server verifies itself: the first one that has bearer tokens. */
function builtInOf(contract: Contract): string | undefined {
  const used = schemesOf(contract);
  const ofKind = (...kinds: string[]) =>
    used.find((name) => kinds.includes(contract.securitySchemes[name]!.kind));
  return ofKind('bearer') ?? ofKind('oauth2', 'openIdConnect');
}

/** The verifiers that the service must have. */
function verifiersOf(contract: Contract): string {
  const builtIn = builtInOf(contract);
  const bearers = Object.values(contract.securitySchemes).filter(({ kind }) => kind === 'bearer');
  const isImplied =
    builtIn !== undefined && bearers.length === 1 && contract.securitySchemes[builtIn]!.kind === 'bearer';
  const used = schemesOf(contract);
  const stubs = used.filter((name) => name !== builtIn);
  const given = used.filter((name) => !(isImplied && name === builtIn));
  if (given.length === 0) return '';
  const comments = [
    ...(given.length > stubs.length
      ? ['The server verifies the access tokens of the scheme that is built-in.']
      : []),
    ...(stubs.length > 0
      ? ['A verifier returns who has a credential. Until you write it, it refuses', 'everybody: 401.']
      : []),
  ];
  const lines = given.map((name) => property(6, name, name === builtIn ? '"built-in"' : '() => undefined'));
  return `${comments.map((line) => `    // ${line}\n`).join('')}    verifiers: {\n${lines.join('')}    },\n`;
}

function renderError({ mediaType, body }: ErrorForm): string {
  return `  // Renders every error, also those of the server, as the contract declares them.
  renderError: (error): RenderedError => ({
    mediaType: ${quote(mediaType)},
    body: ${formText(body, 4)},
  }),
`;
}

function formText(form: Form, indent: number): string {
  if (typeof form === 'string') return form;
  if (isList(form))
    return `[\n${' '.repeat(indent + 2)}${formText(form[0], indent + 2)},\n${' '.repeat(indent)}]`;
  const members = Object.entries(form).map(([name, part]) =>
    property(indent + 2, name, formText(part, indent + 2)),
  );
  return `{\n${members.join('')}${' '.repeat(indent)}}`;
}

function test(service: NewService): string {
  return `// Tests the service on an empty store, without a port. Every response must be one
// that the contract has.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openTestService } from "contract-server/testing";
import { service } from "./service.js";

test("the service opens, and publishes its contract", async (t) => {
  const opened = await openTestService(service);
  t.after(() => opened.close());
  const { status } = await opened.request("GET", "/openapi.json");
  assert.equal(status, 200);
});
${testOfOperation(service)}`;
}

/** Tests an operation that needs neither parameters nor a body, if its responses are in the contract. */
function testOfOperation({ contract, errorsMatch }: NewService): string {
  const builtIn = builtInOf(contract);
  const isOpen = ({ security }: Operation) =>
    security.length === 0 ||
    security.some((schemes) => schemes.length > 0 && schemes.every(({ scheme }) => scheme === builtIn));
  const operation = contract.operations.find(
    (one) => one.parameters.every(({ required }) => !required) && one.body?.required !== true && isOpen(one),
  );
  if (operation === undefined || !errorsMatch) return '';
  const { operationId, method, path, basePaths, security } = operation;
  const needsToken = security.length > 0 && security.every((schemes) => schemes.length > 0);
  const refused = `  const refused = await opened.request(${quote(method)}, url, { token: null });
  assert.equal(refused.status, 401);
`;
  return `
test(${quote(`${operationId} is not implemented yet`)}, async (t) => {
  const opened = await openTestService(service);
  t.after(() => opened.close());
${assigned(2, 'const url =', quote(basePaths[0]! + path))}${needsToken && operation.declares(401) ? refused : ''}  const { status } = await opened.request(${quote(method)}, url);
  assert.equal(status, 501);
});
`;
}

function readme({ file, contract }: NewService): string {
  const builtIn = builtInOf(contract);
  const stubs = schemesOf(contract).filter((name) => name !== builtIn);
  const code = (name: string) => `\`${name}\``;
  // A text, whatever it means in Markdown.
  const title = oneLine(String(contract.document.info.title)).replaceAll(/[\\`*_{}[\]<>#&|~!]/g, '\\$&');
  return `# ${title}

A service on contract-server. Its contract is [${file}](${file}).

\`\`\`sh
npm install
npm start
\`\`\`

This compiles the service, and starts it with a store in \`data/\`. The documentation
page is at http://127.0.0.1:3000/docs/. \`WORKERS=2 npm start\` runs two processes.

## Operations

In [src/handlers.ts](src/handlers.ts), every operation is \`notImplemented\`: it
responds with 501. Put an async function in its place. It receives a request that
is authenticated and valid (\`caller\`, \`params\`, \`query\`, \`body\`), returns the body
of the response, and throws an \`ApiError\` for anything else. The compiler knows
all types from the contract.

Documents are stored in collections, which [src/service.ts](src/service.ts)
lists. \`npm run migrations\` writes the SQL for a new one. The
[guide](node_modules/contract-server/docs/start-your-own.md) has an example.

## Callers

${
  builtIn === undefined
    ? ''
    : `The server verifies the tokens of ${code(builtIn)} itself. The first start prints one,
and this makes another:

\`\`\`sh
node dist/cli.js token create SUBJECT
\`\`\`
`
}${builtIn !== undefined && stubs.length > 0 ? '\n' : ''}${
    stubs.length === 0
      ? ''
      : `Write a verifier for each of these security schemes in src/service.ts. Until
then, they refuse every caller: ${stubs.map(code).join(', ')}.
`
  }${schemesOf(contract).length === 0 ? 'All operations are public.\n' : ''}
## Checks

- \`npm test\` compiles the service, and runs its tests.
- \`npm run check\` lists the errors and warnings of the contract.

## PostgreSQL

Set \`DATABASE_URL\` to a \`postgres:\` URL, and run \`node dist/cli.js migrate\`
before the first start and after each change of the migrations.
`;
}

/** The line width of Prettier. */
const width = 80;

function property(indent: number, name: string, value: string): string {
  const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name);
  return assigned(indent, `${key}:`, value, ',');
}

/** An assignment, in two lines if it is too long for one. */
function assigned(indent: number, left: string, right: string, end = ';'): string {
  const line = `${' '.repeat(indent)}${left} ${right}${end}`;
  if (line.split('\n', 1)[0]!.length <= width) return `${line}\n`;
  return `${' '.repeat(indent)}${left}\n${' '.repeat(indent + 2)}${right}${end}\n`;
}

/** A text as Prettier quotes it. */
function quote(text: string): string {
  const json = withoutControls(JSON.stringify(text));
  if (!text.includes('"') || text.split('"').length <= text.split("'").length) return json;
  return `'${json.slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}
