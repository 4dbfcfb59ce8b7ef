// The faults and the ends of the server in prove:threads. Signals during a start, and a second one, are tested in
// packages/server/test/process.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { signalAll } from '../lib/processes.js';
import { kinds } from './threads-load.js';
import { descriptors } from './threads-world.js';

/** @typedef {import('./threads-world.js').World} World */
/** @typedef {import('./threads-random.js').Random} Random */

/**
 * A fault, and what the service promises meanwhile.
 * @typedef {object} Fault
 * @property {string} name
 * @property {import('./threads-world.js').Engine} [engine] - The only one that it concerns.
 * @property {(world: World, random: Random) => Repair | Promise<Repair>} inject - Returns how it is repaired, unless it is
 *   over. Both throw an Error when the service has broken a promise.
 * @property {readonly import('./threads-load.js').Kind[]} [down] - The kinds of requests that need not succeed while it lasts.
 * @property {boolean} [allow500] - Whether 500 is a valid response while it lasts.
 */
/** @typedef {(() => unknown) | undefined} Repair */

/** A limit of descriptors that the process has reached when it serves. */
const fewDescriptors = 10;

/** Stops processes, and lets them continue. @param {readonly number[]} processes @returns {Repair} */
function stopForAMoment(processes) {
  signalAll(processes, 'SIGSTOP');
  return () => signalAll(processes, 'SIGCONT');
}

/** The processes of PostgreSQL but for the first one. @param {World} world */
const sessionsOf = ({ postgres }) => postgres?.processes().slice(1) ?? [];

/**
 * Lowers a limit of the running process, and raises it again.
 * @param {World} world
 * @param {string} name - As prlimit calls it.
 * @param {number} low
 * @param {number | string} high
 * @returns {Repair}
 */
function lower(world, name, low, high) {
  const limit = (/** @type {number | string} */ soft) =>
    execFileSync('prlimit', [`--pid=${world.pid}`, `--${name}=${soft}:`]);
  limit(low);
  return () => {
    if (world.runs) limit(high);
  };
}

/** All faults that a server must survive. @satisfies {Record<string, Fault>} */
export const faults = {
  pause: {
    name: 'stop the server for a moment',
    down: kinds,
    inject: ({ pid }) => stopForAMoment([pid]),
  },
  fullDisk: {
    name: 'let no file grow, as on a full disk',
    engine: 'sqlite',
    down: ['write'],
    inject: (world) => lower(world, 'fsize', statSync(`${world.store}-wal`).size, 'unlimited'),
  },
  endSessions: {
    name: 'end the sessions of PostgreSQL',
    engine: 'postgres',
    inject: (world) => void signalAll(sessionsOf(world), 'SIGTERM'),
  },
  killSession: {
    name: 'kill a process of PostgreSQL, which restarts',
    engine: 'postgres',
    down: kinds,
    inject: (world, random) => void signalAll([random.pick(sessionsOf(world))], 'SIGKILL'),
  },
  pausePostgres: {
    name: 'stop PostgreSQL for a moment',
    engine: 'postgres',
    down: kinds,
    inject: ({ postgres }) => stopForAMoment(postgres?.processes() ?? []),
  },
  restartPostgres: {
    name: 'end PostgreSQL without a checkpoint, and start it',
    engine: 'postgres',
    down: kinds,
    inject: async ({ postgres }) => {
      await postgres?.stop('SIGQUIT');
      return () => postgres?.start();
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
  noDescriptors: {
    name: 'leave the server no descriptors',
    allow500: true,
    inject: (world, random) =>
      lower(
        world,
        'nofile',
        random.pick([readdirSync(`/proc/${world.pid}/fd`).length, fewDescriptors]),
        descriptors,
      ),
  },
};

/** How a server ends, and what must be so afterwards. @typedef {(world: World, random: Random) => Promise<void>} Ending */

/** @type {Ending} */
export async function endGracefully(world, random) {
  const status = await world.end(random.pick(/** @type {const} */ (['SIGTERM', 'SIGINT'])));
  if (status !== 0) throw new Error(`a graceful end had the status ${status}`);
  const left = world.leftovers();
  if (left.length > 0) throw new Error(`left after the end: ${left.join(', ')}`);
}

/** @type {Ending} */
async function kill(world) {
  await world.end('SIGKILL');
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

/** All ends, with the next start. @type {readonly Fault[]} */
export const restarts = [
  restart('end the server by a signal', endGracefully),
  restart('kill the server', kill),
  restart('kill the server', kill, faults.fullDisk),
];
