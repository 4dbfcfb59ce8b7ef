// Runs one stage of a scenario under strace: an operator may put files into place, then a server runs until it is
// stopped or killed, while clients and commands use it. Started by power-cut-scenarios.js.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { Agent } from 'node:http';
import { dirname, join } from 'node:path';
import { run, startServer } from '../../packages/server/test/support/server-process.js';
import { send } from '../lib/request.js';
import { backupFolder, entry, Ledger, putLogBack, services, storePath, subject } from './power-cut-ledger.js';
import { messageOf, outcomeOf, readOutcome } from './workers-model.js';

/** @typedef {import('./power-cut-ledger.js').Act} Act */
/** @typedef {import('./power-cut-ledger.js').State} State */

/**
 * @typedef {object} Stage
 * @property {number} workers - The number of processes that serve. 0 starts no server: then the operator must sync the
 *   files that they put into place.
 * @property {Record<string, string>} [restored] - The files that the operator copies to the folder of the store before
 *   the start, by name. They must contain plants with consecutive ids from 0.
 * @property {number} [restoredPlants] - Their number.
 * @property {number} [killAt] - The number of a thread's sync during which strace kills the process.
 * @property {string} [server] - The program that serves, if not that of the service.
 * @property {boolean} [commands] - Whether to use the commands that change tokens, back up and migrate, while clients
 *   write.
 * @property {boolean} [migrates] - Whether to use "migrate" before the start, too.
 * @property {boolean} [deletesLog] - Whether the operator deletes the log of the running server, which is killed later.
 * @property {boolean} [putsLogBack] - Whether the log must be put back before the server starts.
 */
/** @typedef {{ id: string, token: string }} Token */
/** @typedef {Stage & { service: import('./power-cut-ledger.js').ServiceName, root: string, requests: number }} StageOptions */

/** The number of concurrent clients. */
const clients = 8;

/** @type {StageOptions} */
const {
  service,
  root,
  workers,
  server: program,
  restored,
  restoredPlants = 0,
  killAt,
  commands,
  migrates,
  deletesLog,
  putsLogBack,
  requests,
} = JSON.parse(process.argv[2] ?? '');
const { main, command } = services[service];
const script = program ?? main;
const disk = join(root, 'disk');
const store = join(disk, storePath);
const environment = { DATABASE_URL: `file:${store}`, UV_USE_IO_URING: '0' };
const journal = join(root, 'journal');
const ledger = new Ledger(service);
if (existsSync(journal)) ledger.add(readFileSync(journal, 'utf8'));
const output = openSync(journal, 'a');

/** Writes lines to the journal, which the trace shows. @param {string} lines */
function record(lines) {
  writeSync(output, lines);
  ledger.add(lines);
}

/**
 * @param {Act} act
 * @param {string | number} key
 * @param {State} state
 * @param {string} [text]
 */
function note(act, key, state, text) {
  record(entry(act, key, state, text));
}

if (restored !== undefined) putIntoPlace(restored);
if (putsLogBack) await refuseAndRepair();
if (migrates) {
  await runCommand('migrate');
  note('migrate', 0, 'done');
}
if (workers > 0) await serve();

async function serve() {
  const env = { ...environment, WORKERS: String(workers) };
  const server = await startServer({ script, env }).catch(unlessKilled);
  if (server === undefined) return;
  if (restored !== undefined) noteRestored('done');
  note('serve', 0, 'done');
  await use(server.origin).catch(unlessKilled);
  const stops = killAt === undefined && deletesLog !== true;
  const ended = await server.end(stops ? 'SIGTERM' : 'SIGKILL');
  if (stops && ended !== 0) throw new Error(`the server ended with ${ended}`);
}

/** @param {unknown} error */
function unlessKilled(error) {
  if (killAt === undefined) throw error;
  return undefined;
}

/** A start must refuse a store whose log was deleted; then the operator puts it back, and does not sync it. */
async function refuseAndRepair() {
  const env = { ...environment, WORKERS: String(workers) };
  const server = await startServer({ script, env }).catch(() => undefined);
  await server?.end();
  if (server !== undefined) throw new Error('a server has started without the log');
  if (!putLogBack(store)) throw new Error('a start was refused, but there is no log to put back');
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
  noteRestored('begun');
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
  noteRestored('done');
}

/** @param {State} state */
function noteRestored(state) {
  const lines = Array.from({ length: restoredPlants }, (_, id) => {
    const name = JSON.stringify({ name: `Plant ${id}` });
    const text = state === 'begun' ? `{"act":"create","value":${name}}` : `200 ${name}`;
    return entry('document', `plants/${id}`, state, `${id} ${text}`);
  });
  record(lines.join(''));
}

/** @param {string} path */
function sync(path) {
  const descriptor = openSync(path, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

/** @param {string} origin */
async function use(origin) {
  const secret = ledger.secret ?? (await issue()).token;
  const client = await startClient(origin, secret);
  let commanding = commands === true;
  let left = requests;
  let isDeleted = false;
  const load = async () => {
    while (left-- > 0 || commanding) {
      if (await client()) continue;
      if (isDeleted) return;
      throw new Error('a request has failed');
    }
  };
  const all = () => Promise.all(Array.from({ length: clients }, load));
  await Promise.all([all(), commanding ? useCommands().finally(() => (commanding = false)) : undefined]);
  if (deletesLog !== true) return;
  // Between two requests: the trace does not show which deleted file a process syncs.
  deleteLog();
  isDeleted = true;
  left = requests;
  await all();
}

/** Deletes the log as an operator does who takes it for waste. */
function deleteLog() {
  note('log', 0, 'begun');
  rmSync(`${store}-wal`);
  sync(dirname(store));
  note('log', 0, 'done');
}

/**
 * Reads all documents whose state is unknown, which shows which of the writes took effect that the previous server left
 * unacknowledged: until another write is committed, only the start has synced them.
 * @param {string} origin
 * @param {string} secret
 * @returns {Promise<() => Promise<boolean>>} Sends a request. Returns whether it has succeeded.
 */
async function startClient(origin, secret) {
  const agent = new Agent({ keepAlive: true });
  let next = ledger.requests;
  const open = ledger.known.all
    .filter(({ register }) => register.state === undefined)
    .map((document) => ({ ...document, key: `${document.collection}/${document.id}`, number: next++ }));
  const read = JSON.stringify({ act: 'read' });
  record(open.map(({ key, number }) => entry('document', key, 'begun', `${number} ${read}`)).join(''));
  const { states } = await ledger.lists(origin);
  const outcomes = open.map(({ collection, id, key, number }) =>
    entry('document', key, 'done', `${number} ${readOutcome(states?.get(collection)?.get(id))}`),
  );
  record(outcomes.join(''));
  return async () => {
    const document = ledger.known.pick();
    const { collection, id } = document;
    const key = `${collection}/${id}`;
    const number = next++;
    const operation = document.choose(number);
    note('document', key, 'begun', `${number} ${JSON.stringify(operation)}`);
    const message = messageOf(collection, id, operation);
    const response = await send(origin, { token: secret, ...message }, { agent });
    const isKnown = response.status >= 200 && response.status < 500;
    const state = isKnown ? 'done' : operation.act === 'read' ? 'none' : 'unknown';
    note('document', key, state, `${number} ${isKnown ? outcomeOf(collection, response) : ''}`);
    return isKnown;
  };
}

/** Creates and revokes access tokens, makes backups, and migrates a store that is up to date. */
async function useCommands() {
  mkdirSync(join(disk, backupFolder));
  sync(disk);
  const [{ id }] = await Promise.all([issue(), backUp('first.db')]);
  note('revoke', id, 'begun');
  await runCommand('token', 'revoke', id);
  note('revoke', id, 'done');
  await Promise.all([issue(), backUp('second.db'), runCommand('migrate')]);
}

/** @returns {Promise<Token>} */
async function issue() {
  const made = JSON.parse(await runCommand('token', 'create', subject, '--json'));
  note('issue', made.id, 'done', made.token);
  return made;
}

/** @param {string} name */
async function backUp(name) {
  note('backup', name, 'begun');
  await runCommand('backup', join(disk, backupFolder, name));
  note('backup', name, 'done');
}

/** @param {string[]} args */
async function runCommand(...args) {
  const { code, stdout, stderr } = await run(command, args, environment);
  if (code !== 0) throw new Error(`the command ${args.join(' ')}: ${stderr}`);
  return stdout;
}
