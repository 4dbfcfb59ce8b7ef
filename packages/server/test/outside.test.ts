// The server as strangers get it: packed, and installed in an empty folder outside of the checkout. There its command writes
// a service, which passes its tests and starts.
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { temporaryFolder } from './support/engines.js';
import { startOther } from './support/other-service.js';
import { environment } from './support/processes.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const outside = await temporaryFolder(t);
const home = join(outside, 'notes');
const main = join(home, 'dist/main.js');

const contract = `openapi: 3.0.3
info: { title: Notes, version: 1.0.0 }
security: [{ bearerAuth: [] }]
paths:
  /notes/{name}:
    get:
      operationId: getNote
      parameters: [{ name: name, in: path, required: true, schema: { type: string, pattern: '^[a-z]{1,50}$' } }]
      responses:
        '204': { description: The note exists. }
        default:
          description: The request failed.
          content: { application/json: { schema: { $ref: '#/components/schemas/Error' } } }
components:
  securitySchemes:
    bearerAuth: { type: http, scheme: bearer }
  schemas:
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
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${server.origin}/notes/roses`, { headers });
  t.match([response.status, await response.text()], [501, /"error":50100/]);
  t.match(await fetch(`${server.origin}/docs/`), { status: 200 });
  t.equal(await server.end(), 0);
});
