// Generates clients from openapi.yaml with common generators, and lets each create, list and delete plants:
// "npm run test:clients". Fails unless docs/clients.md has the rows that it prints. With names of generators, it tries only
// those. It needs many downloads.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import { generators } from './generators.js';

const root = new URL('../..', import.meta.url).pathname;
/** An id that a double cannot hold, and the one to which it is rounded. */
const [id, rounded] = ['9007199254740993', '9007199254740992'];
const words = process.argv.slice(2);
const chosen = Object.entries(generators).filter(
  ([name]) => words.length === 0 || words.some((word) => name.includes(word)),
);
const page = plain(await readFile(join(root, 'docs/clients.md'), 'utf8'));
const workshop = await mkdtemp(join(tmpdir(), 'plant-store-clients-'));
const server = await startServer();
let wrong = 0;
try {
  for (const [name, generator] of chosen) {
    const folder = join(workshop, name.replace(/\W+/g, '-').replace(/^-|-$/g, ''));
    const options = generator.options === undefined ? '' : `\`${generator.options}\``;
    const row = `| ${name} ${generator.version} | ${options} | ${await examine(folder, generator)} |`;
    const known = page.includes(plain(row));
    if (!known) wrong++;
    console.log(known ? row : `not in docs/clients.md: ${row}`);
  }
} finally {
  await server.end();
  await rm(workshop, { recursive: true, force: true });
}
console.log(`${chosen.length} generators: ${wrong === 0 ? 'all' : 'not all'} as docs/clients.md says`);
if (wrong > 0) process.exitCode = 1;

/** Removes the spaces that align a table. @param {string} markdown */
function plain(markdown) {
  return markdown.replace(/ +/g, ' ');
}

/**
 * Makes and runs one client, and returns the last cell of its row: what it does with a 304.
 * @param {string} folder
 * @param {import('./generators.js').Generator} generator
 */
async function examine(folder, { build, run, program, version: VERSION, options: OPTIONS = '' }) {
  await mkdir(folder);
  await cp(join(root, 'scripts/clients', program), join(folder, basename(program)));
  try {
    await shell(folder, build, { CONTRACT: join(root, 'openapi.yaml'), VERSION, OPTIONS });
    return await use(folder, run);
  } catch (error) {
    console.error(String(error));
    return 'does not work';
  }
}

/**
 * Lets a client's program create, list and delete a plant, and provoke a conflict, a 304 and a 404.
 * @param {string} folder
 * @param {string} run
 * @returns {Promise<string>} What it prints for the 304.
 * @throws {Error} when it prints something unexpected, or rounds an id.
 */
async function use(folder, run) {
  const TOKEN = await server.createToken(basename(folder));
  /** @param {...string} words */
  const print = async (...words) => {
    const line = [run, ...words.map((word) => `'${word}'`)].join(' ');
    const printed = await shell(folder, line, { BASE_URL: server.origin, TOKEN });
    return printed.trim().replace(/\s+/g, ' ').slice(-200);
  };
  /** @param {string} end @param {...string} words */
  const expect = async (end, ...words) => {
    const printed = await print(...words);
    if (!printed.endsWith(end)) throw new Error(`${words.join(' ')}: ${printed}`);
  };
  const plants = { path: '/plants', token: TOKEN };
  const neighbor = { ...plants, method: 'POST', body: `{"id":${rounded},"name":"neighbor"}` };
  await send(server.origin, neighbor);
  await expect('own', 'create', id, 'own');
  await send(server.origin, { path: `/plants/${rounded}`, token: TOKEN, method: 'DELETE' });
  await expect('400 40010', 'create', id, 'other');
  await expect('own', 'list', '"none"');
  const { headers } = await send(server.origin, plants);
  const unchanged = await print('list', headers.etag ?? '');
  await send(server.origin, neighbor);
  await print('delete', id);
  const { text } = await send(server.origin, plants);
  if (text !== '[{"name":"neighbor"}]') throw new Error(`after the delete, there is ${text}`);
  await expect('404 40400', 'delete', id);
  return `\`${unchanged}\``;
}

/**
 * Runs commands, and returns what they print.
 * @param {string} folder
 * @param {string} commands
 * @param {Record<string, string>} variables
 * @returns {Promise<string>}
 * @throws {Error} With the output, if a command fails.
 */
async function shell(folder, commands, variables) {
  const options = { cwd: folder, env: { ...process.env, ...variables }, maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)('sh', ['-euc', commands], options).catch(
    ({ message, stdout, stderr }) => {
      throw new Error([message, stdout, stderr].join('\n').slice(0, 4_000));
    },
  );
  return stdout;
}
