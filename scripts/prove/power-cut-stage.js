// Runs one stage of a scenario under strace: an operator may put files into place, then a server runs until it is
// stopped or killed, while clients and commands use it. Started by power-cut-scenarios.js.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { randomInt } from 'node:crypto';
import { Agent } from 'node:http';
import { dirname, join } from 'node:path';
import { run, startServer } from '../../test/support/server-process.js';
import { send } from '../lib/request.js';
import { backupFolder, entry, Ledger, nameOf, storePath } from './power-cut-ledger.js';

/** @typedef {import('./power-cut-ledger.js').Act} Act */

/**
 * @typedef {object} Stage
 * @property {number} workers - The number of processes that serve. 0 starts no server: then the operator must sync the
 *   files that they put into place.
 * @property {Record<string, string>} [restored] - The files that the operator copies to the folder of the store before
 *   the start, by name. They must contain plants with consecutive ids from 0.
 * @property {number} [restoredPlants] - Their number.
 * @property {Token} [token] - A token in these files.
 * @property {number} [killAt] - The number of a thread's sync during which strace kills the process.
 * @property {boolean} [commands] - Whether to use the commands that change tokens and back up, while clients write.
 */
/** @typedef {{ id: string, token: string }} Token */
/** @typedef {Stage & { root: string, plants: number }} StageOptions */

/** The number of concurrent clients. */
const clients = 8;

/** @type {StageOptions} */
const {
  root,
  workers,
  restored,
  restoredPlants = 0,
  token,
  killAt,
  commands,
  plants,
} = JSON.parse(process.argv[2] ?? '');
const disk = join(root, 'disk');
const store = join(disk, storePath);
const environment = { DATABASE_URL: `file:${store}`, UV_USE_IO_URING: '0' };
const journal = join(root, 'journal');
const ledger = new Ledger();
if (existsSync(journal)) ledger.add(readFileSync(journal, 'utf8'));
const output = openSync(journal, 'a');

/**
 * Writes to the journal, which the trace shows.
 * @param {Act} act
 * @param {string | number} key
 * @param {boolean} done
 */
function note(act, key, done) {
  writeSync(output, entry(act, key, done));
}

if (restored !== undefined) putIntoPlace(restored);
if (workers > 0) await serve();

async function serve() {
  const env = { ...environment, WORKERS: String(workers) };
  const server = await startServer({ env }).catch(unlessKilled);
  if (server === undefined) return;
  if (restored !== undefined) noteRestored(true);
  note('serve', 0, true);
  await use(server.origin).catch(unlessKilled);
  const ended = await server.end(killAt === undefined ? 'SIGTERM' : 'SIGKILL');
  if (killAt === undefined && ended !== 0) throw new Error(`the server ended with ${ended}`);
}

/** @param {unknown} error */
function unlessKilled(error) {
  if (killAt === undefined) throw error;
  return undefined;
}

/**
 * Copies files as an operator does.
 * @param {Record<string, string>} files
 */
function putIntoPlace(files) {
  const folder = dirname(store);
  mkdirSync(folder, { recursive: true });
  // The operator's new folders survive the power failure; the question is whether the files do.
  for (let parent = dirname(folder); parent.startsWith(disk); parent = dirname(parent)) sync(parent);
  noteRestored(false);
  for (const [name, source] of Object.entries(files)) {
    const content = readFileSync(source);
    const copy = openSync(join(folder, name), 'wx', 0o600);
    for (let at = 0; at < content.length; at += 32_768) {
      writeSync(copy, content, at, Math.min(32_768, content.length - at), at);
    }
    closeSync(copy);
    if (workers === 0) sync(join(folder, name));
  }
  if (workers > 0) return;
  sync(folder);
  noteRestored(true);
}

/** @param {boolean} done */
function noteRestored(done) {
  const lines = Array.from({ length: restoredPlants }, (_, id) => entry('create', id, done));
  const issued = done && token !== undefined ? entry('issue', token.id, true, token.token) : '';
  writeSync(output, lines.join('') + issued);
}

/** @param {string} path */
function sync(path) {
  const descriptor = openSync(path, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

/**
 * Repeats the writes that the previous server left unacknowledged, then creates and deletes plants.
 * @param {string} origin
 */
async function use(origin) {
  const secret = ledger.secret ?? token?.token ?? (await issue()).token;
  const write = writerFor(origin, secret);
  const response = await send(origin, { path: '/plants', token: secret });
  const list = /** @type {{ name: string }[]} */ (JSON.parse(response.text));
  const present = new Set(list.map(({ name }) => name));
  // The writes that took effect come first: until another write is committed, only the start has synced them.
  const open = ledger.open.map(({ act, id }) => ({
    act,
    id,
    missed: present.has(nameOf(id)) !== (act === 'create'),
  }));
  for (const { act, id } of open.sort((a, b) => Number(a.missed) - Number(b.missed)))
    await write(act, id, true);
  let next = Math.max(ledger.plants, restoredPlants);
  const end = next + plants;
  let commanding = commands === true;
  await Promise.all([
    ...Array.from({ length: clients }, async () => {
      while (next < end || commanding) {
        const id = next++;
        await write('create', id);
        if (randomInt(3) === 0) await write('delete', id);
      }
    }),
    commanding ? useCommands().finally(() => (commanding = false)) : undefined,
  ]);
}

/**
 * @param {string} origin
 * @param {string} token
 * @returns {(act: 'create' | 'delete', id: number, repeated?: boolean) => Promise<void>} Writes, and
 *   notes the request and its success.
 */
function writerFor(origin, token) {
  const agent = new Agent({ keepAlive: true });
  return async (act, id, repeated = false) => {
    note(act, id, false);
    const message =
      act === 'create'
        ? { method: 'POST', path: '/plants', body: JSON.stringify({ id, name: nameOf(id) }) }
        : { method: 'DELETE', path: `/plants/${id}` };
    const { status, text } = await send(origin, { token, ...message }, { agent });
    // A write may have taken effect the first time. Then the response to the second one acknowledges it.
    const acknowledged =
      status === (act === 'create' ? 200 : 204) ||
      (repeated && (act === 'create' ? text.includes('40011') : status === 404));
    if (!acknowledged) throw new Error(`${act} ${id}: ${status} ${text}`);
    note(act, id, true);
  };
}

/** Creates and revokes access tokens, and makes a backup. */
async function useCommands() {
  mkdirSync(join(disk, backupFolder));
  sync(disk);
  const [{ id }] = await Promise.all([issue(), backUp('first.db')]);
  note('revoke', id, false);
  await plantStore('token', 'revoke', id);
  note('revoke', id, true);
  await Promise.all([issue(), backUp('second.db')]);
}

/** @returns {Promise<Token>} */
async function issue() {
  const made = JSON.parse(await plantStore('token', 'create', 'alice', '--json'));
  writeSync(output, entry('issue', made.id, true, made.token));
  return made;
}

/** @param {string} name */
async function backUp(name) {
  note('backup', name, false);
  await plantStore('backup', join(disk, backupFolder, name));
  note('backup', name, true);
}

/** @param {string[]} args */
async function plantStore(...args) {
  const { code, stdout, stderr } = await run('cli.js', args, environment);
  if (code !== 0) throw new Error(`plant-store ${args.join(' ')}: ${stderr}`);
  return stdout;
}
