// Generates clients from openapi.yaml with common generators, and lets each create, list and delete plants, with a store of
// today and with a later 1.x: "npm run test:clients". Fails unless docs/clients.md has the rows that it prints. With names
// of generators, it tries only those; with --quick, those that .ci/run tries. It needs Node.js 22, and many downloads.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import { generators } from './generators.js';

/**
 * The requests of one client, and their outcomes. @typedef {{ sent: string[], etag: string, outcomes: Record<string,
 * string> }} Log
 */

const root = new URL('../..', import.meta.url).pathname;
const id = '9007199254740993';
const argv = process.argv.slice(2);
const chosen = Object.entries(generators).filter(([name, { quick }]) =>
  argv.includes('--quick') ? quick : argv.length === 0 || argv.some((word) => name.includes(word)),
);
const page = plain(await readFile(join(root, 'docs/clients.md'), 'utf8'));
const workshop = await mkdtemp(join(tmpdir(), 'plant-store-clients-'));
await symlink(join(root, 'node_modules'), join(workshop, 'node_modules'));
const server = await startServer();
let wrong = 0;
try {
  for (const [name, generator] of chosen) {
    const folder = join(workshop, name.replace(/\W+/g, '-').replace(/^-|-$/g, ''));
    const options = generator.options === undefined ? '' : `\`${generator.options}\``;
    const cells = [`${name} ${generator.version}`, options, ...(await examine(folder, generator))];
    const row = `| ${cells.join(' | ')} |`;
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
 * Makes and runs one client, and returns the cells of its row.
 * @param {string} folder
 * @param {import('./generators.js').Generator} generator
 */
async function examine(folder, generator) {
  await mkdir(folder);
  const program = join(root, 'scripts/clients', generator.program);
  await cp(program, join(folder, basename(program)));
  if (program.endsWith('.ts')) {
    for (const file of ['program.ts', 'exact-ids.ts'])
      await cp(join(dirname(program), file), join(folder, file));
    // npm installs here, not in the folder above.
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  }
  const { build, run, version: VERSION, options: OPTIONS = '' } = generator;
  const CONTRACT = join(root, 'openapi.yaml');
  try {
    await shell(folder, build, { ROOT: root, CONTRACT, VERSION, OPTIONS, PROGRAM: basename(program) });
    const today = await use(folder, run, false);
    const later = await use(folder, run, true);
    return verdicts(today, later);
  } catch (error) {
    console.error(String(error));
    return ['does not compile'];
  }
}

/**
 * What the page says of a client: what it does with a status that is new, and with 304; and, since no client on the page
 * does, whether it rounds ids, or fails on fields or codes that are new.
 * @param {Log} today
 * @param {Log} later
 */
function verdicts(today, later) {
  const expected = { create: 'own', conflict: '400 40010', list: 'own', absent: '404 40400' };
  for (const [step, outcome] of Object.entries(expected)) {
    if (!today.outcomes[step]?.endsWith(outcome)) throw new Error(`${step}: ${today.outcomes[step]}`);
  }
  const exact = [new RegExp(`^POST /plants .*"id":\\s*${id}[,}]`), new RegExp(`^DELETE /plants/${id} `)];
  const { create, conflict = '', list, delete: deleted, absent = '' } = later.outcomes;
  const same = create === 'own' && list === 'own' && deleted === today.outcomes['delete'];
  const faults = [
    !exact.every((pattern) => today.sent.some((line) => pattern.test(line))) && '**rounded**',
    !same && `**${create}, ${list}**`,
    !conflict.endsWith('400 40099') && `**${conflict}**`,
  ];
  return [
    absent.endsWith('410 41000') ? 'yes' : `\`${absent}\``,
    `\`${today.outcomes['unchanged']}\``,
    ...faults.filter((fault) => fault !== false),
  ];
}

/**
 * Lets a client's program create, list and delete a plant, and provoke a conflict, a 304 and a 404.
 * @param {string} folder
 * @param {string} run
 * @param {boolean} evolved - Whether the store is a later one.
 */
async function use(folder, run, evolved) {
  /** @type {Log} */
  const log = { sent: [], etag: '', outcomes: {} };
  const TOKEN = await server.createToken(basename(folder));
  const relay = createServer((request, response) => void forward(request, response, evolved, log)).listen(
    0,
    '127.0.0.1',
  );
  await once(relay, 'listening');
  const env = {
    BASE_URL: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (relay.address()).port}`,
    TOKEN,
  };
  const steps = {
    create: () => ['create', id, 'own'],
    conflict: () => ['create', id, 'other'],
    list: () => ['list', '"none"'],
    unchanged: () => ['list', log.etag],
    delete: () => ['delete', id],
    absent: () => ['delete', id],
  };
  try {
    for (const [step, argv] of Object.entries(steps)) {
      const line = [run, ...argv().map((word) => `'${word}'`)].join(' ');
      const printed = await shell(folder, line, env).catch((error) => `fails: ${error}`);
      log.outcomes[step] = printed.trim().replace(/\s+/g, ' ').slice(-200);
    }
  } finally {
    relay.close();
  }
  return log;
}

/**
 * Forwards a request to the store. A later one adds a field to each object, and has new codes for a conflict and for what
 * is absent.
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 * @param {boolean} evolved
 * @param {Log} log
 */
async function forward(request, response, evolved, log) {
  const { method = '', url = '', headers } = request;
  const names = ['authorization', 'content-type', 'if-none-match'];
  const chosen = Object.fromEntries(
    names.flatMap((name) => (headers[name] ? [[name, String(headers[name])]] : [])),
  );
  const body = await text(request);
  log.sent.push(`${method} ${url} ${body}`);
  const answer = await send(server.origin, { method, path: url, headers: chosen, ...(body && { body }) });
  log.etag = answer.headers.etag ?? log.etag;
  let { status, text: sent } = answer;
  if (evolved && sent !== '') {
    const [code, newStatus = status] =
      /** @type {Record<number, number[]>} */ ({
        40010: [40099],
        40400: [41000, 410],
      })[JSON.parse(sent).error] ?? [];
    status = newStatus;
    sent = JSON.stringify(JSON.parse(sent), (_, value) => {
      if (typeof value !== 'object' || Array.isArray(value)) return value;
      return { ...value, ...(code && { error: code }), later: '1.x' };
    });
  }
  for (const name of ['connection', 'content-length', 'transfer-encoding']) delete answer.headers[name];
  response.writeHead(status, answer.headers).end(sent);
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
