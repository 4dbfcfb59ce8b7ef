// The faults of prove:workers.
import { execFileSync } from 'node:child_process';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { isAlive, openFilesOf, signalAll, until } from './workers-processes.js';
import { descriptors } from './workers-world.js';

/** @typedef {import('./workers-world.js').World} World */
/** @typedef {import('./workers-random.js').Random} Random */
/** @typedef {import('./workers-meter.js').Kind} Kind */

/**
 * A fault, and what the service promises meanwhile. The bounds are far above what an idle machine needs.
 * @typedef {object} Fault
 * @property {string} name
 * @property {(world: World, random: Random) => Repair} inject - Returns how it is repaired, which throws an Error when
 *   the service has broken a promise.
 * @property {readonly [number, number]} hold - The shortest and the longest time for which it lasts, in ms.
 * @property {boolean} [withDeath] - Whether workers may be killed meanwhile.
 * @property {number} [replaced] - Within how many s workers that die meanwhile are replaced before it is repaired;
 *   undefined if they need not be.
 * @property {readonly Kind[]} [down] - The kinds of requests that need not succeed while it lasts.
 * @property {readonly Kind[]} [downWithDeath] - The same if workers are killed meanwhile.
 * @property {boolean} [allow500] - Whether 500 is a valid response while it lasts.
 * @property {{ during: number, after: number }} bound - The longest time without a success, in s: of the kinds that
 *   must succeed, while it lasts; of all, from its repair until every request succeeds again on kept and on new
 *   connections and all workers serve. The pause before a worker is restarted, as logged, is added.
 */
/** @typedef {() => void | Promise<void>} Repair */

const none = () => undefined;
/** A limit of descriptors that every process has reached when it serves. */
const fewDescriptors = 10;
/** @type {readonly Kind[]} */
const writes = ['create', 'delete'];
/** @type {readonly Kind[]} */
const all = ['create', 'delete', 'list'];

/** @type {Fault} */
export const killWorker = {
  name: 'kill a worker',
  hold: [0, 0],
  bound: { during: 6, after: 10 },
  inject: (world, random) => {
    signalAll([random.pick(world.workerProcesses())], 'SIGKILL');
    return none;
  },
};

/** @type {Fault} */
export const killAllWorkers = {
  name: 'kill all workers',
  hold: [0, 0],
  down: all,
  bound: { during: 15, after: 15 },
  inject: (world) => {
    signalAll(world.workerProcesses(), 'SIGKILL');
    return none;
  },
};

/** @type {Fault} */
export const pauseWorker = {
  name: 'stop a worker for a moment',
  hold: [200, 2_000],
  bound: { during: 6, after: 8 },
  inject: (world, random) => {
    const pid = random.pick(world.workerProcesses());
    signalAll([pid], 'SIGSTOP');
    return () => {
      signalAll([pid], 'SIGCONT');
    };
  },
};

/** @type {Fault} */
const stopWorker = {
  name: 'stop a worker until it is replaced',
  hold: [0, 0],
  bound: { during: 6, after: 10 },
  inject: (world, random) => {
    const pid = random.pick(world.workerProcesses());
    signalAll([pid], 'SIGSTOP');
    return async () => {
      if (!(await until(() => !isAlive(pid), 20)))
        throw new Error('a stopped worker was not replaced within 20 s');
    };
  },
};

/** @type {Fault} */
const pauseSupervisor = {
  name: 'stop the supervisor for a moment',
  hold: [200, 2_000],
  down: all,
  withDeath: true,
  bound: { during: 6, after: 10 },
  inject: ({ supervisor }) => {
    process.kill(supervisor, 'SIGSTOP');
    return () => {
      process.kill(supervisor, 'SIGCONT');
    };
  },
};

/** @type {Fault} */
const signalWorkers = {
  name: 'send the signals of an end to workers',
  hold: [100, 500],
  bound: { during: 3, after: 3 },
  inject: (world, random) => {
    const processes = world.workerProcesses();
    for (const signal of random.shuffle(/** @type {const} */ (['SIGTERM', 'SIGINT', 'SIGHUP']))) {
      process.kill(random.pick(processes), signal);
    }
    return () => {
      if (!processes.every(isAlive)) throw new Error('a worker has ended by a signal that it must ignore');
    };
  },
};

/** @type {Fault} */
const emptyTemporaryFolder = {
  name: 'empty the folder of temporary files',
  hold: [100, 500],
  withDeath: true,
  replaced: 12,
  bound: { during: 6, after: 10 },
  inject: ({ temporaryFolder }) => {
    for (const name of readdirSync(temporaryFolder)) {
      rmSync(join(temporaryFolder, name), { recursive: true, force: true });
    }
    return none;
  },
};

/** Moves files of the store away. @param {World} world @param {readonly string[]} names @returns {Repair} */
function moveAway({ storeFolder, awayFolder }, names) {
  const move = (/** @type {string} */ from, /** @type {string} */ to) => {
    for (const name of names) renameSync(join(from, name), join(to, name));
  };
  move(storeFolder, awayFolder);
  return () => {
    move(awayFolder, storeFolder);
  };
}

/** @type {Fault} */
export const moveStore = {
  name: 'move the store away and back',
  hold: [200, 1_500],
  down: writes,
  withDeath: true,
  replaced: 12,
  bound: { during: 6, after: 10 },
  inject: (world) => moveAway(world, ['plants.db', 'plants.db-wal', 'plants.db-shm']),
};

/** @type {Fault} */
export const moveDatabase = {
  ...moveStore,
  name: 'move plants.db alone away and back',
  inject: (world) => moveAway(world, ['plants.db']),
};

/** @type {Fault} */
export const stallLog = {
  name: "stall the log's reader",
  hold: [1_500, 3_000],
  withDeath: true,
  replaced: 12,
  bound: { during: 6, after: 10 },
  inject: (world) => {
    world.stallLog();
    return () => {
      world.resumeLog();
    };
  },
};

/** @type {Fault} */
const idleConnections = {
  name: 'take the descriptors by idle connections',
  hold: [300, 1_500],
  withDeath: true,
  replaced: 12,
  downWithDeath: all,
  allow500: true,
  bound: { during: 6, after: 10 },
  inject: ({ port }) => {
    const sockets = Array.from({ length: 400 }, () => connect(port, '127.0.0.1').on('error', none));
    return () => {
      for (const socket of sockets) socket.destroy();
    };
  },
};

/**
 * Leaves a running process hardly a free descriptor, or none at all.
 * @param {number} pid
 * @param {Random} random
 * @returns {Repair}
 */
function takeDescriptors(pid, random) {
  const limit = (/** @type {number} */ soft) =>
    execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${soft}:`]);
  limit(random.pick([openFilesOf(pid), fewDescriptors]));
  return () => {
    if (isAlive(pid)) limit(descriptors);
  };
}

/** @type {Fault} */
const supervisorDescriptors = {
  name: 'leave the supervisor no descriptors',
  hold: [300, 1_500],
  withDeath: true,
  downWithDeath: all,
  allow500: true,
  bound: { during: 6, after: 10 },
  inject: ({ supervisor }, random) => takeDescriptors(supervisor, random),
};

/** @type {Fault} */
const workerDescriptors = {
  name: 'leave a worker no descriptors',
  hold: [300, 1_500],
  allow500: true,
  bound: { during: 6, after: 10 },
  inject: (world, random) => takeDescriptors(random.pick(world.workerProcesses()), random),
};

/** All faults that a server must survive. */
export const faults = [
  killWorker,
  killAllWorkers,
  pauseWorker,
  stopWorker,
  pauseSupervisor,
  signalWorkers,
  emptyTemporaryFolder,
  moveStore,
  moveDatabase,
  stallLog,
  idleConnections,
  supervisorDescriptors,
  workerDescriptors,
];
