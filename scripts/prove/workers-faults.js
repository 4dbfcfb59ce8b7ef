// The faults and the ends of the server in prove:workers. Signals during a start, and a second one, are tested in
// packages/server/test/process.
import { execFileSync } from 'node:child_process';
import { linkSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { required, signalAll } from '../lib/processes.js';
import { kinds } from './workers-load.js';
import { descriptors } from './workers-world.js';

/** @typedef {import('./workers-world.js').World} World */
/** @typedef {import('./workers-random.js').Random} Random */

/**
 * A fault, and what the service promises meanwhile.
 * @typedef {object} Fault
 * @property {string} name
 * @property {import('./workers-world.js').Engine} [engine] - The only one that it concerns.
 * @property {number} [workers] - How many workers the server must have.
 * @property {(world: World, random: Random) => Repair | Promise<Repair>} inject - Returns how it is repaired, unless it is
 *   over. Both throw an Error when the service has broken a promise.
 * @property {readonly import('./workers-load.js').Kind[]} [down] - The kinds of requests that need not succeed while it lasts.
 * @property {boolean} [noNewWorkers] - Whether workers that die meanwhile are replaced only after the repair.
 * @property {boolean} [allow500] - Whether 500 is a valid response while it lasts.
 */
/** @typedef {(() => unknown) | undefined} Repair */

/** A limit of descriptors that every process has reached when it serves. */
const fewDescriptors = 10;

/** Stops processes, and lets them continue. @param {readonly number[]} processes @returns {Repair} */
function stopForAMoment(processes) {
  signalAll(processes, 'SIGSTOP');
  return () => signalAll(processes, 'SIGCONT');
}

/** The processes of PostgreSQL but for the first one. @param {World} world */
const sessionsOf = ({ postgres }) => postgres?.processes().slice(1) ?? [];

/**
 * Moves files of the store away.
 * @param {string} name
 * @param {readonly string[]} suffixes - Of their names.
 * @returns {Fault}
 */
const moveAway = (name, suffixes) => ({
  name,
  engine: 'sqlite',
  down: ['write'],
  inject: ({ store, awayFolder }) => {
    const away = join(awayFolder, 'away');
    const move = (/** @type {string} */ from, /** @type {string} */ to) => {
      for (const suffix of suffixes) renameSync(`${from}${suffix}`, `${to}${suffix}`);
    };
    move(store, away);
    return () => move(away, store);
  },
});

/**
 * Leaves a running process hardly a free descriptor, or none at all.
 * @param {World} world
 * @param {number} pid
 * @param {Random} random
 * @returns {Repair}
 */
function takeDescriptors(world, pid, random) {
  const limit = (/** @type {number} */ soft) =>
    execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${soft}:`]);
  limit(random.pick([readdirSync(`/proc/${pid}/fd`).length, fewDescriptors]));
  return () => {
    if (world.processes().includes(pid)) limit(descriptors);
  };
}

/** All faults that a server must survive. @satisfies {Record<string, Fault>} */
export const faults = {
  killWorker: {
    name: 'kill a worker',
    workers: 2,
    inject: (world, random) => {
      const workers = world.workerProcesses();
      // Another fault may have killed all of them.
      if (workers.length > 0) signalAll([random.pick(workers)], 'SIGKILL');
      return undefined;
    },
  },
  killAllWorkers: {
    name: 'kill all workers',
    workers: 2,
    down: kinds,
    inject: (world) => void signalAll(world.workerProcesses(), 'SIGKILL'),
  },
  pauseWorker: {
    name: 'stop a worker for a moment',
    workers: 2,
    inject: (world, random) => stopForAMoment([random.pick(world.workerProcesses())]),
  },
  stopWorker: {
    name: 'stop a worker until it is replaced',
    workers: 2,
    inject: (world, random) => {
      const pid = random.pick(world.workerProcesses());
      signalAll([pid], 'SIGSTOP');
      return () => required('a stopped worker is replaced', () => !world.processes().includes(pid));
    },
  },
  pauseSupervisor: {
    name: 'stop the supervisor for a moment',
    down: kinds,
    noNewWorkers: true,
    inject: ({ supervisor }) => stopForAMoment([supervisor]),
  },
  emptyTemporaryFolder: {
    name: 'empty the folder of temporary files',
    inject: ({ temporaryFolder }) => {
      for (const name of readdirSync(temporaryFolder))
        rmSync(join(temporaryFolder, name), { recursive: true, force: true });
      return undefined;
    },
  },
  moveStore: moveAway('move the store away and back', ['', '-wal', '-shm']),
  moveDatabase: moveAway('move the database alone away and back', ['']),
  moveLog: moveAway('move the write-ahead log alone away and back', ['-wal']),
  endSessions: {
    name: 'end the sessions of PostgreSQL',
    engine: 'postgres',
    inject: (world) => void signalAll(sessionsOf(world), 'SIGTERM'),
  },
  killSession: {
    name: 'kill a process of PostgreSQL, which restarts',
    engine: 'postgres',
    down: kinds,
    noNewWorkers: true,
    inject: (world, random) => void signalAll([random.pick(sessionsOf(world))], 'SIGKILL'),
  },
  pausePostgres: {
    name: 'stop PostgreSQL for a moment',
    engine: 'postgres',
    down: kinds,
    noNewWorkers: true,
    inject: ({ postgres }) => stopForAMoment(postgres?.processes() ?? []),
  },
  restartPostgres: {
    name: 'end PostgreSQL without a checkpoint, and start it',
    engine: 'postgres',
    down: kinds,
    noNewWorkers: true,
    inject: async ({ postgres }) => {
      await postgres?.stop('SIGQUIT');
      return () => postgres?.start();
    },
  },
  stallLog: {
    name: "stall the log's reader",
    inject: async (world) => {
      await world.stallLog();
      return () => world.resumeLog();
    },
  },
  idleConnections: {
    name: 'take the descriptors by idle connections',
    allow500: true,
    inject: ({ port }) => {
      const sockets = Array.from({ length: 400 }, () => connect(port, '127.0.0.1').on('error', () => {}));
      return () => sockets.forEach((socket) => socket.destroy());
    },
  },
  supervisorDescriptors: {
    name: 'leave the supervisor no descriptors',
    noNewWorkers: true,
    allow500: true,
    inject: (world, random) => takeDescriptors(world, world.supervisor, random),
  },
  workerDescriptors: {
    name: 'leave a worker no descriptors',
    workers: 2,
    allow500: true,
    inject: (world, random) => takeDescriptors(world, random.pick(world.workerProcesses()), random),
  },
};

/** How a server ends, and what must be so afterwards. @typedef {(world: World, random: Random) => Promise<void>} Ending */

/** @type {Ending} */
export async function endGracefully(world, random) {
  process.kill(world.supervisor, random.pick(/** @type {const} */ (['SIGTERM', 'SIGINT', 'SIGHUP'])));
  const status = await world.exited();
  if (status !== 0) throw new Error(`a graceful end had the status ${status}`);
  const left = world.leftovers();
  if (left.length > 0) throw new Error(`left after the end: ${left.join(', ')}`);
}

/** @type {Ending} */
async function killSupervisor(world) {
  process.kill(world.supervisor, 'SIGKILL');
  await allExit(world);
}

/** @type {Ending} */
async function killEverything(world) {
  world.kill();
  await allExit(world);
}

/** Waits until the supervisor and then its workers have ended. @param {World} world */
async function allExit(world) {
  await world.exited();
  await required('no process outlives its supervisor', () => world.processes().length === 0);
}

/** @type {Ending} */
async function deleteLog(world, random) {
  const log = `${world.store}-wal`;
  const restored = join(world.awayFolder, 'log');
  linkSync(log, restored);
  rmSync(log);
  await pause(random.integer(0, 500));
  await killEverything(world, random);
  world.launch(world.workers);
  const status = await world.settled();
  if (status === 1) renameSync(restored, log);
  // A command that outlives the server closes the store, with all that the deleted log has.
  else if (status === undefined) rmSync(restored);
  else throw new Error(`a start without the log had the status ${status}`);
  await killEverything(world, random);
}

/**
 * Ends the server, and starts it again.
 * @param {string} name
 * @param {Ending} end
 * @param {Fault} [fault] - Lasts meanwhile.
 * @returns {Fault}
 */
const restart = (name, end, fault) => ({
  ...fault,
  name: fault === undefined ? name : `${name} during a fault: ${fault.name}`,
  down: kinds,
  inject: async (world, random) => {
    const repair = await fault?.inject(world, random);
    await pause(random.integer(0, 500));
    try {
      await end(world, random);
    } finally {
      await repair?.();
    }
    await world.start(random);
    return undefined;
  },
});

/** @type {Fault} */
export const restartAfterKill = restart('kill all processes', killEverything);

/** All ends, with the next start. @type {readonly Fault[]} */
export const restarts = [
  restart('end the supervisor by a signal', endGracefully),
  restart('kill the supervisor', killSupervisor),
  restartAfterKill,
  {
    ...restart('delete the write-ahead log, kill all processes, and restore the log', deleteLog),
    engine: 'sqlite',
  },
  restart('kill the supervisor', killSupervisor, faults.moveDatabase),
  restart('kill all processes', killEverything, faults.moveStore),
  restart('end the supervisor by a signal', endGracefully, faults.killWorker),
  restart('end the supervisor by a signal', endGracefully, faults.pauseWorker),
  restart('end the supervisor by a signal', endGracefully, faults.stallLog),
];
