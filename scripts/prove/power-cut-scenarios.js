// Defines the scenarios of the replayed power failures, and records what the real processes do to the disk in each.
// cspell:ignore seccomp
import { DatabaseSync } from '@photostructure/sqlite';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { service } from '../../dist/service.js';
import { loadSchema } from '../../packages/server/dist/storage/migrations.js';
import { backUp } from '../../packages/server/dist/storage/sqlite/backup.js';
import { readTrace, traceOptions } from '../lib/file-trace.js';
import { ReplayedDisk } from '../lib/replayed-disk.js';
import { openStore } from '../lib/store.js';
import { subject } from './power-cut-ledger.js';
import { longName } from './workers-model.js';

/** @typedef {import('../lib/file-trace.js').FileEvent} FileEvent */
/** @typedef {import('./power-cut-stage.js').Stage} Stage */
/** @typedef {import('./power-cut-ledger.js').ServiceName} ServiceName */

/**
 * An event of a run: a change of the disk, or lines of the journal. `starting` is true until the server of its stage is
 * ready.
 * @typedef {(FileEvent | { kind: 'journal', path: string, lines: string }) & { starting: boolean }} RunEvent
 */
/**
 * A recorded run of a service. The simulated disk is the folder `disk`. Before the event with the index `first`, nothing is promised:
 * an operator may have copied only a part of a file.
 * @typedef {{ service: ServiceName, disk: string, events: RunEvent[], first: number }} Run
 */
/** @typedef {{ name: string, service: ServiceName, stages: Stage[] }} Scenario */
/** The number of plants in the files that an operator puts into place. */
const restoredPlants = 300;

/**
 * Makes the stores that operators put into place, and returns the scenarios with them.
 * @param {string} folder - An empty folder for these stores.
 * @returns {Promise<Scenario[]>}
 */
export async function makeScenarios(folder) {
  const stopped = join(folder, 'stopped.db');
  const killed = join(folder, 'killed.db');
  const copied = join(folder, 'copied.db');
  const old = join(folder, 'old.db');

  const storage = await openStore(`file:${stopped}`);
  const creates = Array.from({ length: restoredPlants }, (_, id) =>
    storage.plants.create(subject, BigInt(id), { name: longName(`Plant ${id}`) }),
  );
  await Promise.all(creates);
  // A killed process would leave these files.
  copyFileSync(stopped, killed);
  copyFileSync(`${stopped}-wal`, `${killed}-wal`);
  backUp(service, `file:${stopped}`, copied);
  await storage.close();

  makeOldStore(old);

  /** @param {string} name @param {number} workers @param {Record<string, string>} files @returns {Scenario} */
  const restored = (name, workers, files) => ({
    ...{ name, service: 'plants' },
    stages: [{ workers, restored: files, restoredPlants }],
  });
  const killedTwice = (/** @type {number} */ workers, migrates = false) => [
    { workers, killAt: 60 },
    { workers, killAt: 40 },
    { workers, commands: true, migrates },
  ];
  return [
    { name: 'one process', service: 'plants', stages: killedTwice(1) },
    { name: 'two workers', service: 'plants', stages: killedTwice(2) },
    { name: 'library', service: 'library', stages: killedTwice(2, true) },
    { name: 'transactions', service: 'transactions', stages: killedTwice(2) },
    {
      ...{ name: 'deleted log', service: 'library' },
      stages: [
        { workers: 2, deletesLog: true },
        { workers: 2, putsLogBack: true },
      ],
    },
    {
      ...{ name: 'older store', service: 'plants' },
      stages: [
        { workers: 0, restored: { 'store.db': old }, restoredPlants },
        { workers: 2, killAt: 7 },
        { workers: 2 },
      ],
    },
    restored('stopped store', 1, { 'store.db': stopped }),
    restored('killed store', 2, { 'store.db': killed, 'store.db-wal': `${killed}-wal` }),
    restored('backup', 1, { 'store.db': copied }),
  ];
}

/** Makes a store with the first schema. @param {string} file */
function makeOldStore(file) {
  const [first] = loadSchema(service, 'sqlite').migrations;
  if (first === undefined) throw new Error('there are no migrations');
  const { version, name, oldestApplication, sql } = first;
  const database = new DatabaseSync(file);
  database.exec(`PRAGMA journal_mode = WAL; ${sql}
    CREATE TABLE migrations (version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL,
      oldest_application TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`);
  database.prepare('INSERT INTO migrations VALUES (?, ?, ?, 0)').run(version, name, oldestApplication);
  const insert = database.prepare(`INSERT INTO plants VALUES ('${subject}', ?, ?)`);
  database.exec('BEGIN');
  for (let id = 0; id < restoredPlants; id++)
    insert.run(id, JSON.stringify({ name: longName(`Plant ${id}`) }));
  database.exec('COMMIT');
  database.close();
}

/**
 * Runs the stages of a scenario one after the other on an empty disk, and traces them.
 * @param {Scenario} scenario
 * @param {number} requests - The number of requests of the clients of each stage.
 * @returns {Promise<Run>}
 * @throws {Error} when a stage fails, or a call changes the disk that cannot be replayed.
 */
export async function record({ service: name, stages }, requests) {
  const root = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const trace = `${root}.trace`;
  const disk = join(root, 'disk');
  mkdirSync(disk);
  const replayed = new ReplayedDisk();
  /** @type {RunEvent[]} */
  const events = [];
  try {
    for (const stage of stages) {
      await runTraced({ ...stage, service: name, root, requests }, trace);
      let starting = true;
      for await (const event of readTrace(trace, root, events.length)) {
        if (!event.path.startsWith(`${disk}/`) && event.path !== disk) {
          replayed.skip();
          const lines = event.kind === 'write' ? event.data.toString() : '';
          starting &&= !lines.startsWith('serve');
          events.push({ kind: 'journal', path: event.path, lines, starting });
        } else {
          replayed.apply(event);
          events.push({ ...event, starting });
        }
      }
      replayed.compare(disk);
    }
    const isPromise = (/** @type {RunEvent} */ event) =>
      event.kind === 'journal' && event.lines.includes(' done');
    const first = stages[0]?.restored === undefined ? 0 : events.findIndex(isPromise);
    return { service: name, disk, events, first };
  } finally {
    rmSync(root, { recursive: true });
    rmSync(trace, { force: true });
  }
}

/**
 * @param {import('./power-cut-stage.js').StageOptions} options
 * @param {string} trace
 */
async function runTraced(options, trace) {
  const { killAt } = options;
  // With --seccomp-bpf, which is faster, strace 6.1 does not inject.
  const kill =
    killAt === undefined ? ['--seccomp-bpf'] : ['-e', `inject=fsync,fdatasync:signal=SIGKILL:when=${killAt}`];
  const script = fileURLToPath(new URL('power-cut-stage.js', import.meta.url));
  const child = spawn(
    'strace',
    [...traceOptions, ...kill, '-o', trace, process.execPath, script, JSON.stringify(options)],
    { stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, UV_USE_IO_URING: '0' } },
  );
  const [status] = await once(child, 'exit');
  if (status !== 0)
    throw new Error(`a traced stage failed with status ${status}: ${JSON.stringify(options)}`);
}
