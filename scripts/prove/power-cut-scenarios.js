// Defines the scenarios of the replayed power failures, and records what the real processes do to the disk in each.
// cspell:ignore seccomp
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readTrace, traceOptions } from '../lib/file-trace.js';
import { ReplayedDisk } from '../lib/replayed-disk.js';
import { readEntry } from './power-cut-ledger.js';

/** @typedef {import('./power-cut-stage.js').Stage} Stage */
/** @typedef {import('./power-cut-ledger.js').ServiceName} ServiceName */

/**
 * An event of a run: a change of the disk, or an entry of the journal. The server of its stage is starting until it is ready.
 * @typedef {'starting' | 'ready' | 'restoring'} Phase
 * @typedef {import('../lib/file-trace.js').FileEvent & { phase: Phase, entry?: import('./power-cut-ledger.js').Entry }} RunEvent
 */
/**
 * A recorded run of a service. The simulated disk is the folder `disk`.
 * @typedef {{ service: ServiceName, disk: string, events: RunEvent[], each: boolean }} Run
 */
/**
 * A scenario. With `each`, its clients send that number of requests, and the power is cut after each response.
 * @typedef {{ service: ServiceName, stages: Stage[], each?: number }} Scenario
 */
/** @typedef {keyof typeof scenarios} ScenarioName */

/** @param {ServiceName} service @param {number} workers @returns {Scenario} */
const killedTwice = (service, workers) => ({
  service,
  stages: [
    { workers, killAt: 60 },
    { workers, killAt: 40 },
    { workers, commands: true },
  ],
});

/** One client, so that no sync of another write covers its own. @param {ServiceName} service @param {number} workers @returns {Scenario} */
const oneByOne = (service, workers) => ({ service, stages: [{ workers, clients: 1 }], each: 150 });

/** @param {NonNullable<Stage['restore']>} restore @returns {Scenario} */
const restored = (restore) => ({
  service: 'library',
  stages: [
    { workers: 1, commands: true },
    { workers: 1, killAt: 60 },
    { workers: 1, restore },
  ],
});

/** The scenarios whose power is cut. */
export const scenarios = {
  'each write, one thread': oneByOne('plants', 1),
  'each transaction, two threads': oneByOne('transactions', 2),
  'one thread': killedTwice('plants', 1),
  'two threads': killedTwice('plants', 2),
  library: killedTwice('library', 2),
  transactions: killedTwice('transactions', 2),
  'restore over a killed server': restored('whole'),
  'restore beside a reader': restored('read'),
  'restore over a damaged store': restored('damaged'),
};

/**
 * Runs the stages of a scenario one after the other on an empty disk, and traces them.
 * @param {Scenario} scenario
 * @param {number} requests - The number of requests of the clients of each stage.
 * @returns {Promise<Run>}
 * @throws {Error} when a stage fails, or a call has changed the disk that was not replayed.
 */
export async function record({ service: name, stages, each }, requests) {
  const root = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const trace = `${root}.trace`;
  const disk = join(root, 'disk');
  mkdirSync(disk);
  const replayed = new ReplayedDisk();
  /** @type {RunEvent[]} */
  const events = [];
  try {
    for (const stage of stages) {
      await runTraced({ ...stage, service: name, root, requests: each ?? requests }, trace);
      /** @type {Phase} */
      let phase = 'starting';
      for await (const event of readTrace(trace, root, (events.at(-1)?.index ?? -1) + 1)) {
        const isJournal = event.path === join(root, 'journal');
        if (!isJournal) replayed.apply(event);
        // The journal is also opened.
        if (isJournal && event.kind !== 'write') continue;
        const entry = isJournal && event.kind === 'write' ? readEntry(event.data.toString()) : undefined;
        if (entry?.act === 'serve') phase = 'ready';
        if (entry?.act === 'restore') phase = 'restoring';
        events.push({ ...event, phase, ...(entry && { entry }) });
      }
      replayed.compare(disk);
    }
    return { service: name, disk, events, each: each !== undefined };
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
