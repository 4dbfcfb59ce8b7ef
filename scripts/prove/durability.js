// Checks with strace that nothing is acknowledged before it is on disk: a create, a delete, a replacement, a change of
// what is stored, a new token, a revocation and a backup. As controls, the check must fail for a server that does not
// sync, and for commands whose syncs it ignores.
// cspell:ignore linkat
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { buildApp } from '../../packages/server/dist/app.js';
import { service } from '../../dist/service.js';
import { openSqlite } from '../../packages/server/dist/storage/sqlite/storage.js';
import { run as runProgram, startServer } from '../../packages/server/test/support/server-process.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { send } from '../lib/request.js';

const [action] = new Command('npm run prove:durability')
  .description(
    `Creates and deletes plants one by one on a traced server, with one process and with two workers; creates, replaces,
changes and deletes books of examples/library, whose ids are texts, also in transactions; and runs the commands that
change tokens and back up. After the last write to the log or to the copy, that file must be synced, and after a new name its folder, before
the response or the message is sent.

Linux only; needs strace. Run "npm run build && npm run build:services" first.`,
  )
  .argument('[serve]', 'serves without syncing, for the control')
  .parse().args;
/** The number of plants or books on each server. */
const plants = 50;
const self = fileURLToPath(import.meta.url);
const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const library = fileURLToPath(new URL('../../examples/library/dist/', import.meta.url));

/**
 * A request, and the status of its success.
 * @typedef {[method: string, path: string, body: object | null, status: number]} Sent
 */

/** @param {number} id @returns {Sent[]} */
const plantRequests = (id) => [
  ['POST', '/plants', { id, name: 'a' }, 200],
  ['DELETE', `/plants/${id}`, null, 204],
];

/** @param {number} id @returns {Sent[]} */
const bookRequests = (id) => {
  const isbn = String(9780000000000 + id);
  return [
    ['POST', '/books', { isbn, title: 'a', author: 'a' }, 201],
    ['PUT', `/books/${isbn}`, { title: 'b', author: 'a' }, 200],
    ['PATCH', `/books/${isbn}`, { title: 'c' }, 200],
    ['DELETE', `/books/${isbn}`, null, 204],
  ];
};

/** Writes to a socket that start a response of success, and messages of the commands that report success. */
const acknowledgments =
  /^writev?\((\d+<(socket|TCP)[^]*"HTTP\/1\.1 20|[12]<[^]*"(pst_|Token \w+ is re|Copied))/;

if (action === 'serve') await serveWithoutSync();
else if (spawnSync('strace', ['-V']).error !== undefined) {
  console.error('SKIPPED: the check of durability needs strace, which is not installed.');
  process.exitCode = process.env['CI'] ? 1 : 0;
} else await prove();

async function prove() {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  try {
    const store = join(folder, 'plants.db');
    const writes = 2 * plants;
    const twoWorkers = { env: { WORKERS: '2' } };
    const inLibrary = { ...twoWorkers, script: join(library, 'main.js') };
    const command = join(library, 'cli.js');
    const books = await traceServer(folder, 'library', inLibrary, command, bookRequests);
    const rows = [
      ['one process', writes, count(await traceServer(folder, 'plants', {}))],
      ['two workers', writes, count(await traceServer(folder, 'plants', twoWorkers))],
      ['two of the library', 2 * writes, count(books)],
    ];
    const inTransactions = { ...twoWorkers, script: copyingLibrary };
    const copied = await traceServer(folder, 'transactions', inTransactions, command, bookRequests);
    rows.push(['two, in transactions', 2 * writes, count(copied)]);
    const commands = traceCommands(folder, store);
    for (const [name, text] of commands) rows.push([name, 1, count(text)]);
    const off = count(await traceServer(folder, 'unsynced', { script: self, args: ['serve'] }));
    const ignored = commands.reduce((sum, [, text]) => sum + count(text.replaceAll('sync(', 'ignored(')), 0);

    const found = rows.map(([name, number, proven]) => `${proven} of ${number} (${name})`);
    console.log(`on disk before they were acknowledged: ${found.join(', ')}`);
    console.log(
      `controls, which must be 0: ${off} without a sync, ${ignored} if the syncs of commands are ignored`,
    );
    if (rows.every(([, number, proven]) => number === proven) && off === 0 && ignored === 0) return;
    console.error('FAILED: durability is not proved.');
    process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param {string} output */
function strace(output) {
  const calls = 'trace=fdatasync,fsync,pwrite64,write,writev,?link,?linkat';
  return ['strace', '-f', '-y', '-s', '24', '-e', 'signal=none', '-e', calls, '-o', output];
}

/**
 * Sends requests one by one to a traced server with a store of its own.
 * @param {string} folder
 * @param {string} name - That of the store.
 * @param {import('../../packages/server/test/support/server-process.js').ServerOptions} options
 * @param {string} [command] - The command that creates a token.
 * @param {(id: number) => Sent[]} [requests]
 * @returns {Promise<string>} The trace.
 */
async function traceServer(folder, name, options, command = cli, requests = plantRequests) {
  const output = join(folder, 'trace');
  const DATABASE_URL = `file:${join(folder, `${name}.db`)}`;
  let pid = 0;
  const server = await startServer({
    ...options,
    env: { ...options.env, DATABASE_URL, UV_USE_IO_URING: '0' },
    launcher: strace(output),
    onLog: (entry) => {
      if (entry['contract'] !== undefined) pid = Number(entry['pid']);
    },
  });
  const { stdout } = await runProgram(command, ['token', 'create', 'alice'], { DATABASE_URL });
  const token = stdout.trim();
  for (let id = 0; id < plants; id++) {
    for (const [method, path, content, expected] of requests(id)) {
      const body = content === null ? {} : { body: JSON.stringify(content) };
      const { status, text } = await send(server.origin, { method, path, token, ...body });
      if (status !== expected) throw new Error(`${method} ${path}: ${status} ${text}`);
    }
  }
  // strace does not pass on signals.
  process.kill(pid, 'SIGTERM');
  await server.end();
  return readFileSync(output, 'utf8');
}

/**
 * Runs the traced commands on a store.
 * @param {string} folder
 * @param {string} store
 * @returns {[string, string][]} Their names and traces.
 */
function traceCommands(folder, store) {
  const output = join(folder, 'trace');
  const run = (/** @type {string[]} */ ...args) => {
    const [command = '', ...rest] = [...strace(output), process.execPath, cli, ...args];
    const env = { ...process.env, DATABASE_URL: `file:${store}`, UV_USE_IO_URING: '0' };
    const { status, stdout, stderr } = spawnSync(command, rest, { env, encoding: 'utf8' });
    if (status !== 0) throw new Error(`plant-store ${args.join(' ')}: ${stderr}`);
    const id = /Token (\w+)/.exec(stderr)?.[1] ?? '';
    return { stdout, id, trace: readFileSync(output, 'utf8') };
  };
  const created = run('token', 'create', 'alice');
  return [
    ['token create', created.trace],
    ['token revoke', run('token', 'revoke', created.id).trace],
    ['backup', run('backup', join(folder, 'copy.db')).trace],
  ];
}

/**
 * Counts the acknowledgments in a trace before which something was written since the previous one, and then synced.
 * @param {string} text
 */
function count(text) {
  /** What was changed since the last acknowledgment, and whether it was synced. @type {Map<string, boolean>} */
  const changed = new Map();
  let proven = 0;
  /** Calls whose trace line another thread's call interrupts, by thread. @type {Map<string, string>} */
  const unfinished = new Map();
  for (const line of text.split('\n')) {
    const [, thread = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const begins = !rest.startsWith('<...');
    const call = begins ? rest : (unfinished.get(thread) ?? '');
    if (rest.endsWith('<unfinished ...>')) unfinished.set(thread, rest);
    // An acknowledgment and a change count when they begin, a sync when it returns.
    const [, written] = /^pwrite64\(\d+<([^>]*(?:-wal|\.partial))>/.exec(call) ?? [];
    // The name of a complete copy; the links for workers need not survive.
    const [, linked] = /^link(?:at)?\(.*\.partial", .*"([^"]*)\/[^/"]*"/.exec(call) ?? [];
    const [, synced] = /^f(?:data)?sync\(\d+<([^>]*)>/.exec(call) ?? [];
    if (begins && acknowledgments.test(call)) {
      if (changed.size > 0 && [...changed.values()].every(Boolean)) proven++;
      changed.clear();
    } else if (begins && (written ?? linked) !== undefined) {
      changed.set(written ?? linked ?? '', false);
    } else if (synced !== undefined && / = 0$/.test(rest) && changed.has(synced)) {
      changed.set(synced, true);
    }
  }
  return proven;
}

/** Runs a server that does not sync, on the store of DATABASE_URL. */
async function serveWithoutSync() {
  const file = (process.env['DATABASE_URL'] ?? '').replace('file:', '');
  const storage = await openSqlite({ store: service, file, synchronous: 'OFF' });
  const app = await buildApp({ service, storage });
  await app.listen({ host: '127.0.0.1', port: 0 });
  console.log(JSON.stringify({ pid: process.pid, contract: `${app.listeningOrigin}/openapi.yaml` }));
  process.once('SIGTERM', () => void app.close().then(() => storage.close()));
}
