// The command `contract-server new`: the packages that it writes compile, pass their tests, start, and respond with 501.
import { execFile, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import ts from 'typescript';
import { temporaryFolder } from './support/engines.js';
import { startOther } from './support/other-service.js';
import { environment, run } from './support/processes.js';
import { needsThreads } from './support/threads.js';
import { repeatUntil } from './support/wait.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const server = join(root, 'packages/server');
const command = join(server, 'bin/contract-server.js');
const library = join(root, 'examples/library/openapi.yaml');

const useNew = (folder: string, contract: string, ...args: string[]) =>
  run(command, ['new', folder, '--contract', contract, ...args], {});

/** Writes a service, with the packages of this checkout. */
async function write(t: Test, name: string, contract: string, ...args: string[]): Promise<string> {
  const folder = join(await temporaryFolder(t), name);
  t.match(await useNew(folder, contract, ...args), { code: 0, stderr: '' });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Writes a contract, from the part that follows its version and title. */
async function writeContract(t: Test, version: string, text: string): Promise<string> {
  const file = join(await temporaryFolder(t), 'contract.yaml');
  await writeFile(file, `openapi: ${version}\ninfo: { title: A test, version: 1.0.0 }\n${text}`);
  return file;
}

/** A schema of an object with one property. */
const closed = (name: string, type: string) =>
  `{ type: object, required: [${name}], additionalProperties: false, properties: { ${name}: ${type} } }`;

const schemes = ['user-auth', 'admin.auth', 'apiKey', '2nd', 'login', 'provider', 'older'];
const operations = schemes.map(
  (name) => `
  /${name}:
    get:
      operationId: "use '${name}'"
      security: [{ ${name}: [] }]
      responses: { '200': { description: Done. }, default: { $ref: '#/components/responses/Failed' } }`,
);
const content = (schema: string) =>
  `{ description: Failed., content: { application/json: { schema: ${schema} } } }`;
const lists = closed(
  'errors',
  '{ type: object, additionalProperties: { type: array, items: { type: string } } }',
);

/** A contract of one operation without callers, and a schema of its errors. */
const tide = (errors: string) => `security: []
paths:
  /tide:
    get:
      operationId: getTide
      responses:
        '200': { description: The tide., content: { application/json: { schema: ${closed('height', '{ type: integer }')} } } }
        default: ${content(errors)}
`;

/** Contracts of many kinds: the version, the text after its title, and options of the command. */
const contracts = {
  '2-schemes': [
    '3.0.3',
    `paths:
${operations.join('')}
  /public:
    get:
      summary: |
        Two lines,
        and */ the end of a comment
      responses: { '200': { description: Done. } }
      security: []
components:
  securitySchemes:
    admin.auth: { type: http, scheme: bearer }
    user-auth: { type: http, scheme: bearer }
    apiKey: { type: apiKey, in: header, name: X-Key }
    2nd: { type: apiKey, in: query, name: key }
    login: { type: http, scheme: basic }
    older: { type: apiKey, in: header, name: authorization }
    provider: { type: oauth2, flows: { implicit: { authorizationUrl: https://example.org, scopes: {} } } }
  responses:
    Failed:
      description: Failed.
      content:
        application/json:
          schema:
            type: object
            required: [error]
            additionalProperties: false
            properties:
              error:
                type: object
                required: [code, message]
                additionalProperties: false
                properties: { code: { type: integer }, message: { type: string } }
`,
  ],
  'by-field': [
    '3.0.3',
    `security: []
paths:
  /tides:
    post:
      parameters: [{ name: height, in: query, required: true, schema: { type: integer } }]
      requestBody: { content: { application/json: { schema: { type: object, properties: { moon: ${closed('phase', '{ type: string }')} } } } } }
      responses:
        '200': { description: All., content: { application/json: { schema: { type: object } } } }
        default: ${content(lists)}
`,
  ],
  stateless: [
    '3.0.3',
    `security: [{ bearerAuth: [] }]
paths:
  /tides:
    get:
      operationId: listTides
      responses:
        '204': { description: None. }
        default: { description: Failed., content: { application/json: { schema: ${closed('code', '{ type: string, enum: [tide_out] }')} } } }
components: { securitySchemes: { bearerAuth: { type: http, scheme: bearer } } }
`,
    '--no-store',
  ],
} as const;

/** Compiles services as their build does, but in one program: each would read the types of all packages anew. */
async function compile(folders: readonly string[]): Promise<void> {
  const { config } = ts.readConfigFile(join(folders[0]!, 'tsconfig.json'), (file) =>
    ts.sys.readFile(file),
  ) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  delete options.incremental;
  delete options.rootDir;
  delete options.outDir;
  const sources = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(folder, 'src'))).map((name) => join(folder, 'src', name)),
    ),
  );
  const program = ts.createProgram(sources.flat(), options);
  const faults = ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => [file?.fileName, messageText]);
  t.strictSame(faults, [], 'all services compile');
  program.emit(undefined, (file, text) => {
    const compiled = file.replace(/\/src\/(?=[^/]+$)/, '/dist/');
    mkdirSync(dirname(compiled), { recursive: true });
    writeFileSync(compiled, text);
  });
}

/** Writes services from all these contracts, compiles them, and runs their tests. @returns The folders, by name. */
async function makeAll(): Promise<ReadonlyMap<string, string>> {
  const written = Object.entries(contracts).map(async ([name, [version, text, ...args]]) => {
    const folder = await write(t, name, await writeContract(t, version, text), ...args);
    const types = ['types', join(folder, 'openapi.yaml'), join(folder, 'src/types.gen.ts')];
    t.match(await run(command, types, {}), { code: 0 });
    return [name, folder] as const;
  });
  const folders = new Map(await Promise.all(written));
  await compile([...folders.values()]);
  const tests = join(await temporaryFolder(t), 'all.test.mjs');
  const modules = [...folders.values()].map((folder) => `import '${folder}/dist/service.test.js';\n`);
  await writeFile(tests, modules.join(''));
  t.match(await run(tests, [], {}), { code: 0 }, 'all services pass their tests');
  return folders;
}

let all: ReturnType<typeof makeAll> | undefined;
/** The folder of one of these services. */
const made = async (name: keyof typeof contracts) => (await (all ??= makeAll())).get(name)!;

type Request = readonly [method: string, path: string, body?: object];

type Use = (
  t: Test,
  call: (request: Request, headers?: Record<string, string>) => Promise<Response>,
  token: string,
) => Promise<void>;

/** Starts a service, and passes on how to send a request. @param env - Variables for the server. */
async function withServer(t: Test, folder: string, use: Use, env: Record<string, string> = {}) {
  const { server, token } = await startOther(t, { script: join(folder, 'dist/main.js'), env });
  const call = ([method, path, body]: Request, headers = {}) =>
    fetch(server.origin + path, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  t.equal((await call(['GET', '/docs/'])).status, 200);
  await use(t, call, token);
  t.equal(await server.end(), 0);
  t.notOk(
    server.log.some(({ level }) => Number(level) >= 50),
    'an operation that is not written is no failure',
  );
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

t.test('from the contract of the library, whose errors are problem details', async (t) => {
  const requests: Request[] = [
    ['GET', '/books'],
    ['POST', '/books', { isbn: '9780141439600', title: 'A Tale of Two Cities', author: 'Charles Dickens' }],
    ['PATCH', '/books/9780141439600', {}],
    ['GET', '/loans.csv'],
    ['DELETE', '/loans/1'],
  ];
  const folder = await write(t, 'new-library', library);
  const options = { cwd: folder, env: environment({ npm_config_loglevel: 'error' }) };
  for (const script of ['test', 'check'])
    await t.resolves(promisify(execFile)('npm', ['run', script], options));
  const isNotWritten: Use = async (t, call, token) => {
    for (const request of requests) {
      const response = await call(request, bearer(token));
      t.match(
        { status: response.status, body: await response.json() },
        {
          status: 501,
          body: {
            type: 'about:blank',
            title: 'The operation is not implemented yet.',
            status: 501,
            code: 50100,
          },
        },
        `${request[0]} ${request[1]}`,
      );
      t.equal(response.headers.get('content-type'), 'application/problem+json');
      t.equal((await call(request)).status, 401, 'without a token');
    }
  };
  await withServer(t, folder, isNotWritten);
  await t.test('with two threads', needsThreads(), (t) =>
    withServer(t, folder, isNotWritten, { WORKERS: '2' }),
  );
});

t.test('from a contract with several security schemes, and names that are no identifiers', async (t) => {
  const folder = await made('2-schemes');
  t.match(await readFile(join(folder, 'src/verifiers.ts'), 'utf8'), '"user-auth": "built-in"');
  const hint = /ACCESS_TOKEN":\n +\/\/ { builtIn: { prefix: "Token " } }\n +older: \(\) => undefined/;
  t.match(await readFile(join(folder, 'src/verifiers.ts'), 'utf8'), hint);
  await withServer(t, folder, async (t, call, token) => {
    const refused = { error: { code: Number, message: /./ } };
    for (const [name, query, headers] of [
      ['admin.auth', '', bearer('other')],
      ['apiKey', '', { 'x-key': 'a' }],
      ['2nd', '?key=a', {}],
      ['login', '', { authorization: `Basic ${btoa('a:b')}` }],
      ['provider', '', bearer('other')],
    ] as const) {
      const response = await call(['GET', `/${name}${query}`], headers);
      t.match({ status: response.status, body: await response.json() }, { status: 401, body: refused }, name);
    }
    t.equal((await call(['GET', '/user-auth'])).status, 401);
    const response = await call(['GET', '/user-auth'], bearer(token));
    t.equal(response.status, 501);
    t.strictSame(await response.json(), {
      error: { code: 50100, message: 'The operation is not implemented yet.' },
    });
    t.equal((await call(['GET', '/public'])).status, 501);
  });
});

t.test('errors have the members that the contract names, even if it allows any others', async (t) => {
  const members = {
    'status: { type: integer }, reason: { type: string }':
      /status: error\.statusCode,\s+reason: error\.message/,
    'errors: { type: array, items: { type: object, properties: { msg: { type: string } } } }':
      /errors: \[\s*\{\s*msg: error\.message,?\s*\}/,
  };
  for (const [properties, rendered] of Object.entries(members)) {
    const contract = await writeContract(t, '3.0.3', tide(`{ type: object, properties: { ${properties} } }`));
    const folder = join(await temporaryFolder(t), 'tides');
    t.match(await useNew(folder, contract), { code: 0, stderr: '' });
    t.match(await readFile(join(folder, 'src/errors.ts'), 'utf8'), rendered);
  }
});

t.test('errors have a form by field', async (t) => {
  const folder = await made('by-field');
  await withServer(t, folder, async (t, call) => {
    const wrong = await call(['POST', '/tides?height=high&tide=low']);
    t.equal(wrong.status, 400);
    t.match(await wrong.json(), { errors: { height: [/must be an integer/], tide: [/unknown/] } });
    const nested = await call(['POST', '/tides?height=1', { moon: {} }]);
    t.strictSame(await nested.json(), { errors: { 'moon.phase': ['is missing'] } });
    const missing = await call(['GET', '/none']);
    t.strictSame(
      [missing.status, await missing.json()],
      [404, { errors: { request: ['There is nothing at this path.'] } }],
    );
  });
});

t.test('a service without a store, whose errors and verifiers are still to be written', async (t) => {
  const folder = await made('stateless');
  const errors = await readFile(join(folder, 'src/errors.ts'), 'utf8');
  const missing =
    /No form is known that all errors of the contract have:\n \* Error \w+ does not match the contract: /;
  t.match(errors, missing);
  t.match(errors, /RenderedError\) \| undefined =\s+undefined;/);
  const { stdout: said } = await useNew(`${folder}-2`, join(folder, 'openapi.yaml'), '--no-store');
  t.match(said, 'Errors do not have the form that the contract declares: write it in src/errors.ts.');
  await withServer(t, folder, async (t, call) => {
    t.equal((await call(['GET', '/tides'], bearer('x'))).status, 401);
  });
  const command = join(folder, 'dist/cli.js');
  const { stdout } = await run(command, ['--help'], {});
  t.match(stdout, /check/);
  t.notMatch(stdout, /token|DATABASE_URL|migrate|backup/);
  t.match(await run(command, ['token', 'list'], {}), { code: 2, stderr: /unknown command 'token'/ });
  // It may be a variable of the database that the service opens.
  const env = { DATABASE_URL: 'mysql://db.example/tides' };
  t.match(await run(command, ['check'], env), { code: 0, stderr: 'stateless can start.\n' });
  const script = join(folder, 'dist/main.js');
  const verifiers = join(folder, 'dist/verifiers.js');
  const text = await readFile(verifiers, 'utf8');
  await writeFile(verifiers, text.replace('() => undefined', '"built-in"'));
  t.match(await run(script, [], {}), {
    code: 1,
    stderr:
      /the verifier of bearerAuth is built in, but the service has neither a store nor an identity provider/,
  });
});

t.test('with npm run dev, a changed source is compiled and served', async (t) => {
  const contract = await writeContract(t, '3.0.3', tide(closed('error', '{ type: integer }')));
  const folder = await write(t, 'changing', contract, '--no-store');
  const child = spawn('npm', ['run', 'dev'], {
    cwd: folder,
    env: environment({ PORT: '0', LOG_LEVEL: 'info' }),
    stdio: ['ignore', 'pipe', 'pipe'],
    // Leads a group of all that it starts.
    detached: true,
  });
  t.teardown(async () => {
    const ended = once(child, 'exit');
    process.kill(-child.pid!, 'SIGTERM');
    await ended;
  });
  let shown = '';
  const printed = new EventEmitter();
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
      printed.emit('text');
    });
  /** Resolves when something that matches has been printed since the last time. */
  const prints = async (pattern: RegExp) => {
    await repeatUntil(
      () => pattern.test(shown),
      () => once(printed, 'text'),
    );
    const [, value = ''] = pattern.exec(shown) ?? [];
    shown = '';
    return value;
  };
  const isReady = /"origin":"([^"]+)"/;
  const statusAt = async (origin: string) => (await fetch(`${origin}/tide`)).status;
  t.equal(await statusAt(await prints(isReady)), 501);
  const handlers = join(folder, 'src/handlers.ts');
  const text = await readFile(handlers, 'utf8');
  await writeFile(
    handlers,
    text.replace('getTide: notImplemented', 'getTide: async () => ({ height: "high" })'),
  );
  await prints(/error TS\d+[^]*waiting for file changes/);
  await writeFile(handlers, text.replace('getTide: notImplemented', 'getTide: async () => ({ height: 3 })'));
  t.equal(await statusAt(await prints(isReady)), 200);
});

t.test('nothing is overwritten, and what cannot become a service is one message', async (t) => {
  const folder = await temporaryFolder(t);
  const refuse = async (name: string, contract: string, stderr: string | RegExp) => {
    const { code, stdout, stderr: shown } = await useNew(join(folder, name), contract);
    t.match({ code, stderr: shown }, { code: 1, stderr }, name);
    return stdout;
  };
  await mkdir(join(folder, 'used'));
  await writeFile(join(folder, 'used/notes'), '');
  await refuse('used', library, /^contract-server: .*used is not empty; name a new folder\n$/);
  await refuse('used/notes', library, /^contract-server: .*notes is not a folder; name a new one\n$/);
  await refuse('Tasks', library, /^contract-server: "Tasks" cannot be the name of a package; use lowercase/);
  await refuse(
    'fastify',
    library,
    'contract-server: fastify is the name of another package; give the folder another one\n',
  );
  await refuse('tasks', join(folder, 'none.yaml'), /^contract-server: ENOENT.*\n$/);
  const faulty = await writeContract(t, '3.0.3', 'paths: { /tasks: { get: {} } }\n');
  t.match(
    await refuse(
      'tasks',
      faulty,
      '1 error, 0 warnings. What depends on an error is not checked yet: more may follow.\n',
    ),
    / error: \/paths\/~1tasks\/get: /,
  );
  t.match(await run(command, ['new', 'tasks'], {}), {
    code: 2,
    stderr: /required option '--contract <file>'/,
  });
  t.strictSame(await readdir(folder), ['used']);
});

t.test('an installed server is named by where it is from, never by its name alone', async (t) => {
  const home = await temporaryFolder(t);
  const installed = join(home, 'node_modules/contract-server');
  await mkdir(installed, { recursive: true });
  for (const part of ['bin', 'dist', 'templates', 'package.json'])
    await cp(join(server, part), join(installed, part), { recursive: true });
  for (const name of await readdir(join(root, 'node_modules')))
    if (name !== 'contract-server')
      await symlink(join(root, 'node_modules', name), join(home, 'node_modules', name));
  const runThere = (folder: string, ...args: string[]) =>
    run(
      join(installed, 'bin/contract-server.js'),
      ['new', join(home, folder), '--contract', library, ...args],
      {},
    );
  const dependencyOf = async (folder: string) => {
    const text = await readFile(join(home, folder, 'package.json'), 'utf8');
    return (JSON.parse(text) as { dependencies: Record<string, string> }).dependencies['contract-server'];
  };
  t.match(await runThere('one'), {
    code: 1,
    stderr: /it is not known where contract-server is from; name its tarball with --server\n$/,
  });
  const elsewhere = join(home, 'other/contract-server-1.0.0.tgz');
  t.match(await runThere('one', '--server', elsewhere), { code: 1, stderr: /there is no .*\.tgz\n$/ });
  await mkdir(join(home, 'other'));
  await writeFile(elsewhere, '');
  t.match(await runThere('one', '--server', elsewhere), { code: 0 });
  t.equal(await dependencyOf('one'), 'file:../other/contract-server-1.0.0.tgz');
  const declared = { devDependencies: { 'contract-server': 'file:contract-server-1.0.0.tgz' } };
  await writeFile(join(home, 'package.json'), JSON.stringify(declared));
  await writeFile(join(home, 'contract-server-1.0.0.tgz'), '');
  await mkdir(join(home, 'far/away'), { recursive: true });
  await symlink(join(home, 'far/away'), join(home, 'near'));
  t.match(await runThere('near/three'), { code: 0 });
  t.equal(await dependencyOf('near/three'), 'file:../../../contract-server-1.0.0.tgz');
});
