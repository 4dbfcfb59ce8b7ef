// The faults of prove:workers.
import { execFileSync } from 'node:child_process';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { until } from '../lib/processes.js';
import { kinds } from './workers-meter.js';
import { descriptors, signalAll } from './workers-world.js';

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
const usual = { during: 6, after: 10 };
/** A limit of descriptors that every process has reached when it serves. */
const fewDescriptors = 10;

/** Files of the store are moved away. @param {readonly string[]} names */
const moveAway = (names) => ({
  hold: /** @type {const} */ ([200, 1_500]),
  down: /** @type {const} */ (['create', 'delete']),
  withDeath: true,
  replaced: 12,
  bound: usual,
  inject: (/** @type {World} */ { storeFolder, awayFolder }) => {
    const move = (/** @type {string} */ from, /** @type {string} */ to) => {
      for (const name of names) renameSync(join(from, name), join(to, name));
    };
    move(storeFolder, awayFolder);
    return () => move(awayFolder, storeFolder);
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
    hold: [0, 0],
    bound: usual,
    inject: (world, random) => {
      signalAll([random.pick(world.workerProcesses())], 'SIGKILL');
      return none;
    },
  },
  killAllWorkers: {
    name: 'kill all workers',
    hold: [0, 0],
    down: kinds,
    bound: { during: 15, after: 15 },
    inject: (world) => {
      signalAll(world.workerProcesses(), 'SIGKILL');
      return none;
    },
  },
  pauseWorker: {
    name: 'stop a worker for a moment',
    hold: [200, 2_000],
    bound: { during: 6, after: 8 },
    inject: (world, random) => {
      const pid = random.pick(world.workerProcesses());
      signalAll([pid], 'SIGSTOP');
      return () => signalAll([pid], 'SIGCONT');
    },
  },
  stopWorker: {
    name: 'stop a worker until it is replaced',
    hold: [0, 0],
    bound: usual,
    inject: (world, random) => {
      const pid = random.pick(world.workerProcesses());
      signalAll([pid], 'SIGSTOP');
      return async () => {
        if (!(await until(() => !world.processes().includes(pid), 20)))
          throw new Error('a stopped worker was not replaced within 20 s');
      };
    },
  },
  pauseSupervisor: {
    name: 'stop the supervisor for a moment',
    hold: [200, 2_000],
    down: kinds,
    withDeath: true,
    bound: usual,
    inject: ({ supervisor }) => {
      process.kill(supervisor, 'SIGSTOP');
      return () => void process.kill(supervisor, 'SIGCONT');
    },
  },
  signalWorkers: {
    name: 'send the signals of an end to workers',
    hold: [100, 500],
    bound: { during: 3, after: 3 },
    inject: (world, random) => {
      const workers = world.workerProcesses();
      for (const signal of random.shuffle(/** @type {const} */ (['SIGTERM', 'SIGINT', 'SIGHUP']))) {
        process.kill(random.pick(workers), signal);
      }
      return () => {
        const left = world.processes();
        if (!workers.every((pid) => left.includes(pid)))
          throw new Error('a worker has ended by a signal that it must ignore');
      };
    },
  },
  emptyTemporaryFolder: {
    name: 'empty the folder of temporary files',
    hold: [100, 500],
    withDeath: true,
    replaced: 12,
    bound: usual,
    inject: ({ temporaryFolder }) => {
      for (const name of readdirSync(temporaryFolder)) {
        rmSync(join(temporaryFolder, name), { recursive: true, force: true });
      }
      return none;
    },
  },
  moveStore: {
    name: 'move the store away and back',
    ...moveAway(['plants.db', 'plants.db-wal', 'plants.db-shm']),
  },
  moveDatabase: { name: 'move plants.db alone away and back', ...moveAway(['plants.db']) },
  stallLog: {
    name: "stall the log's reader",
    hold: [1_500, 3_000],
    withDeath: true,
    replaced: 12,
    bound: usual,
    inject: (world) => {
      world.stallLog();
      return () => world.resumeLog();
    },
  },
  idleConnections: {
    name: 'take the descriptors by idle connections',
    hold: [300, 1_500],
    withDeath: true,
    replaced: 12,
    downWithDeath: kinds,
    allow500: true,
    bound: usual,
    inject: ({ port }) => {
      const sockets = Array.from({ length: 400 }, () => connect(port, '127.0.0.1').on('error', none));
      return () => {
        for (const socket of sockets) socket.destroy();
      };
    },
  },
  supervisorDescriptors: {
    name: 'leave the supervisor no descriptors',
    hold: [300, 1_500],
    withDeath: true,
    downWithDeath: kinds,
    allow500: true,
    bound: usual,
    inject: (world, random) => takeDescriptors(world, world.supervisor, random),
  },
  workerDescriptors: {
    name: 'leave a worker no descriptors',
    hold: [300, 1_500],
    allow500: true,
    bound: usual,
    inject: (world, random) => takeDescriptors(world, random.pick(world.workerProcesses()), random),
  },
};
