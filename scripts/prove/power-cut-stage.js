// Runs one stage of a scenario under strace: a server runs until it is stopped or killed, while clients and commands use it.
// Started by power-cut-scenarios.js.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { runCommand, startServer } from '../../packages/server/test/support/server-process.js';
import { required } from '../lib/processes.js';
import { Load } from './load.js';
import { backupPath, damage, Ledger, readEntry, services, storePath } from './power-cut-ledger.js';

/**
 * @typedef {object} Stage
 * @property {number} workers - WORKERS: the number of threads that serve.
 * @property {number} [killAt] - The number of a thread's sync during which strace kills the process.
 * @property {number} [clients] - How many clients there are; 8 by default.
 * @property {'whole' | 'read' | 'damaged'} [restore] - The state of the store when the backup is restored; nothing serves then.
 * @property {boolean} [commands] - Whether to use the commands that change tokens and back up, while clients write.
 */
/** @typedef {Stage & { service: import('./power-cut-ledger.js').ServiceName, root: string, requests: number }} StageOptions */

/** @type {StageOptions} */
const { service, root, requests, ...stage } = JSON.parse(process.argv[2] ?? '');
const { workers, killAt, clients = 8, commands = false, restore } = stage;
const disk = join(root, 'disk');
const store = join(disk, storePath);
// A slow machine must not cause 503s here.
const environment = { DATABASE_URL: `file:${store}`, UV_USE_IO_URING: '0', MAX_EVENT_LOOP_DELAY_MS: '0' };
/** @param {string[]} args */
const command = (...args) => runCommand(services[service].command, environment, ...args);
const serverOptions = {
  script: services[service].main,
  env: { ...environment, WORKERS: String(workers) },
};
const journal = join(root, 'journal');
const ledger = new Ledger(service);
const { subject } = ledger;
if (existsSync(journal))
  for (const line of readFileSync(journal, 'utf8').trim().split('\n')) ledger.add(readEntry(line));
const output = openSync(journal, 'a');
/** Writes to the journal, which the trace shows. @param {import('./power-cut-ledger.js').Entry} entry */
const note = (entry) => void writeSync(output, `${JSON.stringify(entry)}\n`);
subject.note = note;
/** @type {string[]} */
const violations = [];
const violation = (/** @type {string} */ what) => void violations.push(what);

await (restore === undefined ? serve() : putBack());
if (violations.length > 0) throw new Error(violations.join('; '));

/** Restores the backup over the store that the stages before have left. */
async function putBack() {
  const damaged = restore === 'damaged';
  if (damaged) {
    const descriptor = openSync(store, 'r+');
    writeSync(descriptor, damage, 0, damage.length, 0);
    fsyncSync(descriptor);
    closeSync(descriptor);
  }
  const reader = restore === 'read' ? new DatabaseSync(store, { readOnly: true }) : undefined;
  reader?.exec('BEGIN; SELECT count(*) FROM tokens');
  note({ act: 'restore', done: false, damaged });
  await command('restore', join(disk, backupPath));
  note({ act: 'restore', done: true, damaged });
  reader?.close();
}

async function serve() {
  const server = await startServer(serverOptions).catch(unlessKilled);
  if (server === undefined) return;
  note({ act: 'serve', done: true });
  await use(server).catch(unlessKilled);
  const stops = killAt === undefined;
  const ended = await server.end(stops ? 'SIGTERM' : 'SIGKILL');
  if (stops && ended !== 0) throw new Error(`the server ended with ${ended}`);
}

/** @param {unknown} error */
function unlessKilled(error) {
  if (killAt === undefined) throw error;
  return undefined;
}

/** @param {string} path */
function sync(path) {
  const descriptor = openSync(path, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

/**
 * Reads all documents first, which shows which of the writes took effect that the previous server left unacknowledged: until
 * another write is committed, only the start has synced them.
 * @param {import('../../packages/server/test/support/server-process.js').ServerProcess} server
 */
async function use({ origin, child }) {
  subject.token = ledger.secret ?? (await issue()).token;
  const options = { origin, subjects: [subject], lists: 0, violation };
  await new Load({ ...options, clients: 0 }).verify();
  const load = new Load({ ...options, clients });
  if (killAt === undefined) load.calmSince = 0;
  const isOver = () => load.requests >= requests || child.exitCode !== null || child.signalCode !== null;
  await Promise.all([required('all requests are sent', isOver), commands ? useCommands() : undefined]);
  await load.end();
}

/** Creates an access token, makes a backup, and revokes the token. */
async function useCommands() {
  mkdirSync(dirname(join(disk, backupPath)));
  sync(disk);
  const { key, id } = await issue();
  note({ act: 'backup', done: false });
  await command('backup', join(disk, backupPath));
  note({ act: 'backup', done: true });
  note({ act: 'token', key, state: 'revoking', done: false });
  await command('token', 'revoke', id);
  note({ act: 'token', key, state: 'revoked', done: true });
}

/** @returns {Promise<{ id: string, key: string, token: string }>} */
async function issue() {
  const { id, token } = JSON.parse(await command('token', 'create', subject.name, '--json'));
  const key = `tokens/${id}`;
  note({ act: 'token', key, state: 'valid', done: true });
  note({ act: 'secret', secret: token });
  return { id, key, token };
}
