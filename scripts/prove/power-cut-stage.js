// Runs one stage of a scenario under strace: a server runs until it is stopped or killed, while clients and commands use it.
// Started by power-cut-scenarios.js.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { Agent } from 'node:http';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { runCommand, startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import {
  backupPath,
  damage,
  keyOf,
  Ledger,
  readEntries,
  services,
  storePath,
  subject,
  success,
} from './power-cut-ledger.js';
import { messageOf, outcomeOf, readOutcome } from './model.js';

/** @typedef {import('./power-cut-ledger.js').Entry} Entry */
/** @typedef {import('./power-cut-ledger.js').Outcome} Outcome */
/** @typedef {import('./documents.js').Document} Document */
/** @typedef {import('./model.js').Operation} Operation */

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
const {
  service,
  root,
  workers,
  killAt,
  clients = 8,
  commands = false,
  restore,
  requests,
} = JSON.parse(process.argv[2] ?? '');
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
if (existsSync(journal)) for (const entry of readEntries(readFileSync(journal, 'utf8'))) ledger.add(entry);
const output = openSync(journal, 'a');

/** Writes to the journal, which the trace shows. @param {Entry[]} entries */
function note(entries) {
  writeSync(output, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  for (const entry of entries) ledger.add(entry);
}

/**
 * Notes that requests begin.
 * @param {(readonly [key: string, operation: Operation])[]} begun
 * @returns {(outcomeOf: (key: string) => Outcome) => void} Notes that they end.
 */
function begin(...begun) {
  const first = ledger.requests;
  note(begun.map(([key, operation], i) => ({ act: 'begin', key, number: first + i, operation })));
  return (outcomeOf) =>
    note(begun.map(([key], i) => ({ act: 'end', key, number: first + i, outcome: outcomeOf(key) })));
}

await (restore === undefined ? serve() : putBack());

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
  note([{ act: 'restore', done: false, damaged }]);
  await command('restore', join(disk, backupPath));
  note([{ act: 'restore', done: true, damaged }]);
  reader?.close();
}

async function serve() {
  const server = await startServer(serverOptions).catch(unlessKilled);
  if (server === undefined) return;
  note([{ act: 'serve', done: true }]);
  await use(server.origin).catch(unlessKilled);
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

/** @param {string} origin */
async function use(origin) {
  const token = ledger.secret ?? (await issue()).token;
  const request = await startClient(origin, token);
  let commanding = commands;
  let left = requests;
  const load = async () => {
    while (left-- > 0 || commanding) {
      if (!(await request())) throw new Error('a request has failed');
    }
  };
  const all = () => Promise.all(Array.from({ length: clients }, load));
  await Promise.all([all(), commanding ? useCommands().finally(() => (commanding = false)) : undefined]);
}

/**
 * Reads all documents whose state is unknown, which shows which of the writes took effect that the previous server left
 * unacknowledged: until another write is committed, only the start has synced them.
 * @param {string} origin
 * @param {string} token
 * @returns {Promise<() => Promise<boolean>>} Sends a request. Returns whether it has succeeded.
 */
async function startClient(origin, token) {
  const agent = new Agent({ keepAlive: true });
  const unknown = ledger.documents.filter(({ register }) => register.state === undefined);
  /** @param {Document} document @returns {[string, Operation]} */
  const read = ({ collection, id }) => [keyOf(collection, id), { act: 'read' }];
  const end = begin(...unknown.map(read));
  const found = await ledger.lists(origin, token);
  end((key) => readOutcome(found.get(key)));
  return async () => {
    const { documents, requests: number } = ledger;
    const document = /** @type {Document} */ (documents[Math.floor(Math.random() * documents.length)]);
    const { collection, id } = document;
    const operation = document.choose(number);
    const end = begin([keyOf(collection, id), operation]);
    const response = await send(origin, { token, ...messageOf(collection, id, operation) }, { agent });
    const isKnown = response.status >= 200 && response.status < 500;
    const unknown = operation.act === 'read' ? null : undefined;
    end(() => (isKnown ? outcomeOf(collection, response) : unknown));
    return isKnown;
  };
}

/** Creates an access token, makes a backup, and revokes the token. */
async function useCommands() {
  mkdirSync(dirname(join(disk, backupPath)));
  sync(disk);
  const { id } = await issue();
  note([{ act: 'backup', done: false }]);
  await command('backup', join(disk, backupPath));
  note([{ act: 'backup', done: true }]);
  const end = begin([keyOf('tokens', id), { act: 'change' }]);
  await command('token', 'revoke', id);
  end(() => success);
}

/** @returns {Promise<{ id: string, token: string }>} */
async function issue() {
  const made = JSON.parse(await command('token', 'create', subject, '--json'));
  begin([keyOf('tokens', made.id), { act: 'create' }])(() => success);
  note([{ act: 'secret', secret: made.token }]);
  return made;
}
