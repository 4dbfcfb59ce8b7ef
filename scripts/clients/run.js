// Generates clients from openapi.yaml with common generators, compiles them, runs each against the real service, and
// prints what docs/clients.md shows: "npm run test:clients". With names of generators, it runs only those. It takes
// minutes and many downloads.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import { command, generators, root } from './generators.js';

const workshop = await mkdtemp(join(tmpdir(), 'plant-store-clients-'));
const server = await startServer();

try {
  const chosen = process.argv.slice(2);
  /** @type {Record<string, object>} */
  const results = {};
  for (const name of chosen.length > 0 ? chosen : Object.keys(generators)) {
    const generator = generators[name];
    if (generator === undefined)
      throw new Error(`there is no generator ${name}: ${Object.keys(generators).join(', ')}`);
    results[name] = { version: generator.version, ...(await examine(name, generator)) };
  }
  console.table(results);
} finally {
  await server.end();
  await rm(workshop, { recursive: true, force: true });
}

/**
 * Generates, compiles and runs one client.
 * @param {string} name
 * @param {import('./generators.js').Generator} generator
 */
async function examine(name, { version, build, run }) {
  const folder = join(workshop, name);
  await cp(join(root, 'scripts/clients', name), folder, { recursive: true });
  const result = { compiles: false, 'exact ids': false, 'typed errors': false };
  try {
    await build(folder, version);
    result.compiles = true;
    Object.assign(result, await roundTrip(name, folder, run(folder)));
  } catch (error) {
    console.error(`${name}: ${error}`);
  }
  if (!Object.values(result).every(Boolean)) process.exitCode = 1;
  return result;
}

/**
 * Lets a client's program create 2^53+1 between two neighbors, and 2^63-1; list, delete, and provoke four errors.
 * @param {string} subject
 * @param {string} folder
 * @param {string[]} argv - The command that runs the program.
 */
async function roundTrip(subject, folder, argv) {
  const token = await server.createToken(subject);
  /** @type {(method: string, path: string, body?: string) => Promise<string>} */
  const call = async (method, path, body) => {
    const { status, text } = await send(server.origin, { method, path, token, ...(body && { body }) });
    if (status !== 200 && status !== 204) throw new Error(`${method} ${path}: ${status} ${text}`);
    return text;
  };
  const neighbors = { below: 2n ** 53n, above: 2n ** 53n + 2n };
  for (const [name, id] of Object.entries(neighbors)) {
    await call('POST', '/plants', `{"id":${id},"name":"${name}"}`);
  }

  const printed = await command(folder, argv, {
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
  const expected = [
    [400, 40010],
    [401, 40101],
    [403, 40300],
    [404, 40400],
  ];
  return {
    'exact ids':
      isDeepStrictEqual(list, ['below', 'own', 'above']) &&
      isDeepStrictEqual(left, ['below', 'above', 'max']),
    'typed errors': isDeepStrictEqual(errors, expected),
  };
}
