// Generates clients from openapi.yaml with common generators, compiles them, runs each against the real service, and
// writes the results to docs/clients.md. Run by hand, since it takes minutes and many downloads: "npm run test:clients".
// With names of clients, it runs only those and writes nothing. The page shows each program without what is between its
// comments "docs: hide" and "docs: show".
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { command, root } from './build.js';
import { clients as languages } from './languages.js';
import { report } from './report.js';
import { clients as typescript } from './typescript.js';

const clients = { ...languages, ...typescript };

const workshop = await mkdtemp(join(tmpdir(), 'plant-store-clients-'));
const server = await startServer();

try {
  const chosen = process.argv.slice(2);
  const names = chosen.length > 0 ? chosen : Object.keys(clients);
  const rows = [];
  for (const name of names) {
    const client = clients[name];
    if (client === undefined)
      throw new Error(`there is no client ${name}: ${Object.keys(clients).join(', ')}`);
    const result = await examine(name, client);
    console.log(`${name}: ${JSON.stringify(result)}`);
    if (result.missing.length === 0 && !(result.compiles && result.exact && result.typed))
      process.exitCode = 1;
    rows.push({ name, client, result });
  }
  if (chosen.length === 0) await writeFile(join(root, 'docs/clients.md'), await report(rows));
} finally {
  await server.end();
  await rm(workshop, { recursive: true, force: true });
}

/**
 * Generates, compiles and runs one client.
 * @param {string} name
 * @param {import('./build.js').Client} client
 */
async function examine(name, client) {
  const folder = join(workshop, name);
  const result = {
    missing: /** @type {string[]} */ ([]),
    compiles: false,
    exact: false,
    typed: false,
    fault: '',
  };
  for (const tool of client.needs) {
    // Each of them understands one of the two.
    const there = await command(root, 'sh', '-c', `${tool} --version || ${tool} version`).catch(
      () => undefined,
    );
    if (there === undefined) result.missing.push(tool);
  }
  if (result.missing.length > 0) return result;
  await cp(join(root, 'scripts/clients', name), folder, { recursive: true });
  try {
    await client.build(folder);
    result.compiles = true;
    Object.assign(result, await roundTrip(name, folder, client));
  } catch (error) {
    result.fault = error instanceof Error ? error.message : String(error);
  }
  return result;
}

/**
 * Lets a client's program create 2^53+1 between two neighbors, and 2^63-1; list, delete, and provoke four errors.
 * @param {string} subject
 * @param {string} folder
 * @param {import('./build.js').Client} client
 */
async function roundTrip(subject, folder, client) {
  const token = await server.createToken(subject);
  /** @type {(method: string, path: string, body?: string) => Promise<string>} */
  const call = async (method, path, body = undefined) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(server.origin + path, { method, headers, body: body ?? null });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.text();
  };
  const neighbors = { below: 2n ** 53n, above: 2n ** 53n + 2n };
  for (const [name, id] of Object.entries(neighbors)) {
    await call('POST', '/plants', `{"id":${id},"name":"${name}"}`);
  }

  const [program, ...argv] = client.run(folder);
  const printed = await command(folder, program, ...argv, {
    BASE_URL: server.origin,
    TOKEN: token,
    READ_TOKEN: await server.createToken(subject, '--scope', 'plants:read'),
  });
  const { list, errors } = JSON.parse(printed);
  /** @type {{ name: string }[]} */
  const plants = JSON.parse(await call('GET', '/plants'));
  const left = plants.map(({ name }) => name);
  // It throws unless these plants have exactly these ids.
  for (const id of [2n ** 63n - 1n, ...Object.values(neighbors)]) {
    await call('DELETE', `/plants/${id}`);
  }
  return {
    exact:
      isDeepStrictEqual(list, ['below', 'own', 'above']) &&
      isDeepStrictEqual(left, ['below', 'above', 'max']),
    typed: isDeepStrictEqual(errors, [
      [400, 40010],
      [401, 40101],
      [403, 40300],
      [404, 40400],
    ]),
  };
}
