// The server as strangers get it: packed, and installed in an empty folder outside of the checkout. There its command writes
// a service, an operation of which is then written by hand, tested, and used on every kind of deployment.
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { emptyDatabase, noPostgres, temporaryFolder } from './support/engines.js';
import { startOther } from './support/other-service.js';
import { environment, startServer, type ServerProcess } from './support/processes.js';
import { skipFor } from './support/skip.js';
import { Client, needsThreads } from './support/threads.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const outside = await temporaryFolder(t);
const home = join(outside, 'notes');
const main = join(home, 'dist/main.js');

const contract = `openapi: 3.0.3
info: { title: Notes, version: 1.0.0 }
security: [{ bearerAuth: [] }]
paths:
  /notes/{name}:
    parameters:
      - { name: name, in: path, required: true, schema: { type: string, pattern: '^[a-z]{1,50}$' } }
    get:
      operationId: getNote
      responses: &responses
        '200':
          description: The note.
          content: { application/json: { schema: { $ref: '#/components/schemas/Note' } } }
        default:
          description: The request failed.
          content: { application/json: { schema: { $ref: '#/components/schemas/Error' } } }
    put:
      operationId: putNote
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: '#/components/schemas/Note' } } }
      responses: *responses
components:
  securitySchemes:
    bearerAuth: { type: http, scheme: bearer }
  schemas:
    Note:
      type: object
      additionalProperties: false
      required: [text]
      properties: { text: { type: string } }
    Error:
      type: object
      required: [error, message]
      properties: { error: { type: integer }, message: { type: string } }
`;

/** Runs a command, in an environment that has nothing of the checkout's. */
async function run(
  folder: string,
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<string> {
  const options = { cwd: folder, env: environment({ HOME: process.env['HOME'] ?? '', ...env }) };
  return (await promisify(execFile)(command, args, options)).stdout;
}

/** The part of package-lock.json that says which versions are installed. */
interface Lock {
  packages: Record<string, { version?: string; link?: true; [key: string]: unknown }>;
}
interface Manifest {
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}
const readLock = async (folder: string) =>
  JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8')) as Lock;

/**
 * Installs the dependencies of a package outside of the checkout in the versions that the checkout has locked, from npm's
 * cache, which installing the checkout has filled.
 */
async function install(t: Test, folder: string): Promise<void> {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Manifest;
  // npm leaves out what is not needed.
  const { packages: locked } = await readLock(root);
  const packages = Object.entries(locked).filter(([path, { link }]) => /^node_modules\//.test(path) && !link);
  // Without the server's own entry, npm would look up its peers anew, for which the cache has tarballs only.
  const resolved = { ...manifest.dependencies, ...manifest.devDependencies }['contract-server'];
  const server = { ...locked['packages/server'], resolved };
  const lock = {
    lockfileVersion: 3,
    packages: { '': manifest, ...Object.fromEntries(packages), 'node_modules/contract-server': server },
  };
  await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock));
  await run(folder, 'npm', ['install', '--offline']);
  const { packages: installed } = await readLock(folder);
  for (const [path, { version }] of Object.entries(installed))
    if (!['', 'node_modules/contract-server'].includes(path)) t.equal(version, locked[path]?.version, path);
}

/** Changes a file of the service by hand. */
async function edit(file: string, ...edits: [from: string, to: string][]): Promise<void> {
  let text = await readFile(join(home, file), 'utf8');
  for (const [from, to] of edits) {
    if (!text.includes(from)) throw new Error(`${file} does not have ${from}`);
    text = text.replace(from, to);
  }
  await writeFile(join(home, file), text);
}

const note = '{"text":"Water them"}';
const read = (t: Test, server: ServerProcess, token: string) =>
  new Client(t, server, token).send('GET', '/notes/roses');

t.test('its command writes a service, which installs without a registry', async (t) => {
  const tool = join(outside, 'tool');
  await mkdir(tool);
  const pack = ['pack', '--silent', '--ignore-scripts', join(root, 'packages/server')];
  const tarball = (await run(tool, 'npm', pack)).trim();
  const manifest = { devDependencies: { 'contract-server': `file:${tarball}` } };
  await writeFile(join(tool, 'package.json'), JSON.stringify(manifest));
  await install(t, tool);
  await writeFile(join(tool, 'contract.yaml'), contract);
  await run(tool, 'npx', ['--no', 'contract-server', 'new', home, '--contract', 'contract.yaml']);
  await install(t, home);
  await run(home, 'npm', ['test']);
  const { server, token } = await startOther(t, { script: main, env: {} });
  t.match(await read(t, server, token), { status: 501, text: /"error":50100/ });
  t.equal(await server.end(), 0);
});

t.test('its operations are written, and tested', async (t) => {
  await edit(
    'src/handlers.ts',
    ['  notImplemented,', '  ApiError,\n  Documents,\n  type CollectionDefinition,'],
    ['import type { operations,', 'import type { components, operations,'],
    [
      '/** Creates the handlers.',
      `export const notes: CollectionDefinition<"text"> = { name: "notes", id: "text", column: "note" };
export const errors = { noteNotFound: { code: 40400, message: "There is no such note." } } as const;

/** Creates the handlers.`,
    ],
    [
      '  return {',
      `  type Note = components["schemas"]["Note"];
  const all = new Documents<string, Note>(context.collection(notes), { text: true });
  return {`,
    ],
    [
      'getNote: notImplemented,',
      `async getNote({ caller, params }) {
      const note = await all.get(caller.subject, params.name);
      if (note === undefined) throw new ApiError(errors.noteNotFound);
      return note;
    },`,
    ],
    [
      'putNote: notImplemented,',
      `async putNote({ caller, params, body }) {
      await all.write(caller.subject, params.name, { when: "any", value: body });
      return body;
    },`,
    ],
  );
  await edit(
    'src/service.ts',
    ['{ createHandlers }', '{ createHandlers, errors, notes }'],
    ['collections: []', 'collections: [notes]'],
    ['errors: {}', 'errors'],
  );
  await edit('src/service.test.ts', [
    'test("',
    `test("a note is kept", async (t) => {
  const opened = await openTestService(service);
  t.after(() => opened.close());
  const put = await opened.request("PUT", "/notes/roses", { body: { text: "Water them" } });
  assert.equal(put.status, 200);
  assert.deepEqual((await opened.request("GET", "/notes/roses")).json, { text: "Water them" });
  assert.equal((await opened.request("GET", "/notes/tulips")).status, 404);
});

test("`,
  ]);
  t.match(await run(home, 'npm', ['run', 'migrations']), /sqlite\/\d+_notes\.sql is new/);
  t.match(await run(home, 'npm', ['test']), /a note is kept/);
});

/** Writes a note and reads it, through different threads if there are several, and ends the server. */
async function use(t: Test, server: ServerProcess, token: string) {
  t.match(await new Client(t, server, token).send('PUT', '/notes/roses', note), { status: 200, text: note });
  t.match(await read(t, server, token), { status: 200, text: note });
  t.match(await read(t, server, 'none'), { status: 401 });
  t.match(await fetch(`${server.origin}/docs/`), { status: 200 });
  t.equal(await server.end(), 0);
}

for (const [WORKERS, options] of [
  ['1', skipFor(undefined)],
  ['2', needsThreads()],
] as const)
  t.test(`it runs on SQLite with WORKERS=${WORKERS}`, options, async (t) => {
    const { server, token } = await startOther(t, { script: main, env: { WORKERS } });
    await use(t, server, token);
  });

t.test('it runs on PostgreSQL with WORKERS=2', needsThreads(noPostgres), async (t) => {
  const env = { DATABASE_URL: await emptyDatabase(t), WORKERS: '2' };
  const command = (...args: string[]) => run(home, process.execPath, ['dist/cli.js', ...args], env);
  await command('migrate');
  const token = await command('token', 'create', 'alice');
  await use(t, await startServer(t, { script: main, env }), token.trim());
});
