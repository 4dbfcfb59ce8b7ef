// The faults and the ends of the server in prove:threads. Signals during a start, and a second one, are tested in
// packages/server/test/process.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { signalAll } from '../lib/processes.js';
import { kinds } from './load.js';
import { descriptors } from './threads-world.js';

/** @typedef {import('./threads-world.js').World} World */

/**
 * A fault, and what the service promises meanwhile.
 * @typedef {object} Fault
 * @property {string} name
 * @property {import('./threads-world.js').Engine} [engine] - The only one that it concerns.
 * @property {(world: World) => Repair | Promise<Repair>} inject - Returns how it is repaired, unless it is over. Both throw
 *   an Error when the service has broken a promise.
 * @property {readonly import('./load.js').Kind[]} [down] - The kinds of requests that need not succeed while it lasts.
 * @property {boolean} [allow500] - Whether 500 is a valid response while it lasts.
 */
/** @typedef {(() => unknown) | undefined} Repair */

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

/** @type {Fault} */
const fullDisk = {
  name: 'let no file grow, as on a full disk',
  engine: 'sqlite',
  down: ['write'],
  inject: (world) => lower(world, 'fsize', statSync(`${world.store}-wal`).size, 'unlimited'),
};

/** @type {Fault} */
export const failover = {
  name: 'kill the primary, and promote the standby',
  engine: 'standby',
  down: kinds,
  inject: async (world) => void (await world.failOver()),
};

/** All faults that a server must survive. @type {readonly Fault[]} */
export const faults = [
  fullDisk,
  {
    name: 'stop the server for a moment',
    down: kinds,
    inject: ({ pid }) => stopForAMoment([pid]),
  },
  {
    name: 'end the sessions of PostgreSQL',
    engine: 'postgres',
    inject: (world) => void signalAll(sessionsOf(world), 'SIGTERM'),
  },
  {
    name: 'kill a process of PostgreSQL, which restarts',
    engine: 'postgres',
    down: kinds,
    inject: (world) => {
      const sessions = sessionsOf(world);
      signalAll(sessions.slice(Math.floor(Math.random() * sessions.length)).slice(0, 1), 'SIGKILL');
      return undefined;
    },
  },
  {
    name: 'stop PostgreSQL for a moment',
    engine: 'postgres',
    down: kinds,
    inject: ({ postgres }) => stopForAMoment(postgres?.processes() ?? []),
  },
  {
    name: 'end PostgreSQL without a checkpoint, and start it',
    engine: 'postgres',
    down: kinds,
    inject: async ({ postgres }) => {
      await postgres?.stop('SIGQUIT');
      return () => postgres?.start();
    },
  },
  failover,
  {
    name: 'take the descriptors by idle connections',
    allow500: true,
    inject: ({ port }) => {
      const sockets = Array.from({ length: 400 }, () => connect(port, '127.0.0.1').on('error', () => {}));
      return () => sockets.forEach((socket) => socket.destroy());
    },
  },
  {
    name: 'leave the server no descriptors',
    allow500: true,
    inject: (world) => lower(world, 'nofile', readdirSync(`/proc/${world.pid}/fd`).length, descriptors),
  },
];

/** Ends the server as an operator does, and checks what it leaves. @param {World} world */
export async function endGracefully(world) {
  const status = await world.end('SIGTERM');
  if (status !== 0) throw new Error(`a graceful end had the status ${status}`);
  if (world.leftovers.length > 0) throw new Error(`left beside the store: ${world.leftovers.join(', ')}`);
}

/**
 * Ends the server, and starts it again.
 * @param {string} name
 * @param {(world: World) => Promise<unknown>} end - What must be so afterwards, too.
 * @param {Fault} [fault] - Lasts meanwhile.
 * @returns {Fault}
 */
const restart = (name, end, fault) => ({
  ...fault,
  name: fault === undefined ? name : `${name} during a fault: ${fault.name}`,
  down: kinds,
  inject: async (world) => {
    const repair = await fault?.inject(world);
    await pause(Math.random() * 500);
    try {
      await end(world);
    } finally {
      await repair?.();
    }
    await world.start();
    return undefined;
  },
});

/** All ends, with the next start. @type {readonly Fault[]} */
export const restarts = [
  restart('end the server by a signal', endGracefully),
  restart('kill the server', (world) => world.end('SIGKILL')),
  restart('kill the server', (world) => world.end('SIGKILL'), fullDisk),
];
