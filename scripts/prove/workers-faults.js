// The faults of prove:workers.
import { execFileSync } from 'node:child_process';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { signalAll, until } from '../lib/processes.js';
import { kinds } from './workers-meter.js';
import { descriptors } from './workers-world.js';

/** @typedef {import('./workers-world.js').World} World */
/** @typedef {import('./workers-random.js').Random} Random */
/** @typedef {import('./workers-meter.js').Kind} Kind */

/**
 * A fault, and what the service promises meanwhile.
 * @typedef {object} Fault
 * @property {string} name
 * @property {import('./workers-world.js').Engine} [engine] - The only one that it concerns.
 * @property {number} [workers] - How many workers the server must have.
 * @property {(world: World, random: Random) => Repair | Promise<Repair>} inject - Returns how it is repaired, which throws an Error when
 *   the service has broken a promise.
 * @property {readonly [number, number]} hold - The shortest and the longest time for which it lasts, in ms.
 * @property {boolean} [withDeath] - Whether workers may be killed meanwhile.
 * @property {boolean} [replaced] - Whether workers that die meanwhile are replaced before it is repaired.
 * @property {readonly Kind[]} [down] - The kinds of requests that need not succeed while it lasts.
 * @property {readonly Kind[]} [downWithDeath] - The same if workers are killed meanwhile.
 * @property {boolean} [allow500] - Whether 500 is a valid response while it lasts.
 * @property {number} [bound] - How long what must work may take to do so, in s: by default far more than a slow machine
 *   needs. The pause before a worker is restarted, as logged, is added.
 */
/** @typedef {() => void | Promise<void>} Repair */

const none = () => undefined;
/** A limit of descriptors that every process has reached when it serves. */
const fewDescriptors = 10;

/** Files of the store are moved away. @param {readonly string[]} suffixes - Of their names. */
const moveAway = (suffixes) => ({
  hold: /** @type {const} */ ([200, 1_500]),
  down: /** @type {const} */ (['write']),
  engine: /** @type {const} */ ('sqlite'),
  withDeath: true,
  replaced: true,
  inject: (/** @type {World} */ world) => {
    const { store, awayFolder } = world;
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
    hold: [0, 0],
    inject: (world, random) => {
      signalAll([random.pick(world.workerProcesses())], 'SIGKILL');
      return none;
    },
  },
  killAllWorkers: {
    name: 'kill all workers',
    workers: 2,
    hold: [0, 0],
    down: kinds,
    inject: (world) => {
      signalAll(world.workerProcesses(), 'SIGKILL');
      return none;
    },
  },
  pauseWorker: {
    name: 'stop a worker for a moment',
    workers: 2,
    hold: [200, 2_000],
    inject: (world, random) => {
      const pid = random.pick(world.workerProcesses());
      signalAll([pid], 'SIGSTOP');
      return () => signalAll([pid], 'SIGCONT');
    },
  },
  stopWorker: {
    name: 'stop a worker until it is replaced',
    workers: 2,
    hold: [0, 0],
    inject: (world, random) => {
      const pid = random.pick(world.workerProcesses());
      signalAll([pid], 'SIGSTOP');
      return async () => {
        if (!(await until(() => !world.processes().includes(pid), 180)))
          throw new Error('a stopped worker was not replaced within 180 s');
      };
    },
  },
  pauseSupervisor: {
    name: 'stop the supervisor for a moment',
    hold: [200, 2_000],
    down: kinds,
    withDeath: true,
    inject: ({ supervisor }) => {
      process.kill(supervisor, 'SIGSTOP');
      return () => void process.kill(supervisor, 'SIGCONT');
    },
  },
  emptyTemporaryFolder: {
    name: 'empty the folder of temporary files',
    hold: [100, 500],
    withDeath: true,
    replaced: true,
    inject: ({ temporaryFolder }) => {
      for (const name of readdirSync(temporaryFolder)) {
        rmSync(join(temporaryFolder, name), { recursive: true, force: true });
      }
      return none;
    },
  },
  moveStore: {
    name: 'move the store away and back',
    ...moveAway(['', '-wal', '-shm']),
  },
  moveDatabase: { name: 'move the database alone away and back', ...moveAway(['']) },
  moveLog: { name: 'move the write-ahead log alone away and back', ...moveAway(['-wal']) },
  endSessions: {
    name: 'end the sessions of PostgreSQL',
    engine: 'postgres',
    hold: [0, 0],
    inject: (world) => {
      const [, ...sessions] = world.postgres?.processes() ?? [];
      signalAll(sessions, 'SIGTERM');
      return none;
    },
  },
  killSession: {
    name: 'kill a process of PostgreSQL, which restarts',
    engine: 'postgres',
    hold: [0, 500],
    down: kinds,
    withDeath: true,
    inject: (world, random) => {
      const [, ...sessions] = world.postgres?.processes() ?? [];
      signalAll([random.pick(sessions)], 'SIGKILL');
      return none;
    },
  },
  pausePostgres: {
    name: 'stop PostgreSQL for a moment',
    engine: 'postgres',
    hold: [200, 3_000],
    down: kinds,
    withDeath: true,
    inject: (world) => {
      const processes = world.postgres?.processes() ?? [];
      signalAll(processes, 'SIGSTOP');
      return () => signalAll(processes, 'SIGCONT');
    },
  },
  restartPostgres: {
    name: 'end PostgreSQL without a checkpoint, and start it',
    engine: 'postgres',
    hold: [200, 1_500],
    down: kinds,
    withDeath: true,
    inject: (world) => {
      const stopped = world.postgres?.stop('SIGQUIT');
      return async () => {
        await stopped;
        await world.postgres?.start();
      };
    },
  },
  stallLog: {
    name: "stall the log's reader",
    hold: [1_500, 3_000],
    withDeath: true,
    replaced: true,
    inject: (world) => {
      world.stallLog();
      return () => world.resumeLog();
    },
  },
  idleConnections: {
    name: 'take the descriptors by idle connections',
    hold: [300, 1_500],
    withDeath: true,
    replaced: true,
    downWithDeath: kinds,
    allow500: true,
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
    inject: (world, random) => takeDescriptors(world, world.supervisor, random),
  },
  workerDescriptors: {
    name: 'leave a worker no descriptors',
    workers: 2,
    hold: [300, 1_500],
    allow500: true,
    inject: (world, random) => takeDescriptors(world, random.pick(world.workerProcesses()), random),
  },
};
