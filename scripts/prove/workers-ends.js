// How prove:workers ends the supervisor, and what must be so afterwards. The server is then started again.
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../lib/processes.js';
import { faults } from './workers-faults.js';
import { signalAll } from './workers-world.js';

/** @typedef {import('./workers-world.js').World} World */
/** @typedef {import('./workers-faults.js').Fault} Fault */
/** @typedef {import('./workers-random.js').Random} Random */

/**
 * An end of the supervisor.
 * @typedef {object} End
 * @property {string} name
 * @property {(world: World, random: Random) => Promise<void>} run - Throws an Error when a promise is broken.
 */

/** How long a graceful end may take, in s: SHUTDOWN_SECONDS, what the supervisor adds, and a slow machine. */
const gracefulTime = 20;
/** How long workers may run after their supervisor, in s. */
const orphanTime = 5;

/** @type {readonly NodeJS.Signals[]} */
const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'];

/** @type {End} */
export const endGracefully = {
  name: 'end the supervisor by a signal',
  run: async (world, random) => {
    process.kill(world.supervisor, random.pick(signals));
    const status = await world.exited(gracefulTime);
    if (status !== 0) throw new Error(`a graceful end had the status ${status}`);
    checkLeftovers(world);
  },
};

/** @type {End} */
const endTwice = {
  name: 'end the supervisor by two signals',
  run: async (world, random) => {
    process.kill(world.supervisor, random.pick(signals));
    await pause(random.integer(0, 100));
    // The first one may have ended it.
    signalAll([world.supervisor], random.pick(signals));
    const status = await allExit(world);
    if (status !== 0 && status !== 1) throw new Error(`an end by two signals had the status ${status}`);
    checkLeftovers(world);
  },
};

/** @type {End} */
const killSupervisor = {
  name: 'kill the supervisor',
  run: async (world) => {
    process.kill(world.supervisor, 'SIGKILL');
    await allExit(world);
  },
};

/** @type {End} */
export const killEverything = {
  name: 'kill all processes',
  run: async (world) => {
    world.kill();
    await allExit(world);
  },
};

/** @type {End} */
const interruptStart = {
  name: 'end the supervisor by a signal while it starts',
  run: async (world, random) => {
    await endGracefully.run(world, random);
    world.launch(2);
    await pause(random.integer(0, 1_500));
    const signal = random.pick(signals);
    process.kill(world.supervisor, signal);
    const status = await allExit(world);
    // Until Node.js has started, a signal ends the process.
    if (status !== 0 && status !== signal) throw new Error(`an end while it starts had the status ${status}`);
    checkLeftovers(world);
  },
};

/** @param {string} name @param {Fault} fault @param {End} end @returns {End} An end while a fault lasts. */
const during = (name, fault, end) => ({
  name: `${end.name} ${name}`,
  run: async (world, random) => {
    const repair = fault.inject(world, random);
    await pause(random.integer(0, 500));
    try {
      await end.run(world, random);
    } finally {
      await repair();
    }
  },
});

/** All of them. */
export const ends = [
  endGracefully,
  endTwice,
  killSupervisor,
  killEverything,
  interruptStart,
  during('while plants.db is away', faults.moveDatabase, killSupervisor),
  during('while the store is away', faults.moveStore, killEverything),
  during('while a worker is replaced', faults.killWorker, endGracefully),
  during('while a worker is stopped', faults.pauseWorker, endGracefully),
  during("while the log's reader stalls", faults.stallLog, endGracefully),
];

/**
 * Waits until the supervisor and then its workers have ended.
 * @param {World} world
 * @returns The status or the signal.
 */
async function allExit(world) {
  const status = await world.exited(orphanTime);
  if (await until(() => world.processes().length === 0, orphanTime)) return status;
  throw new Error(`processes run ${orphanTime} s after their supervisor: ${world.leftovers().join(', ')}`);
}

/** @param {World} world */
function checkLeftovers(world) {
  const left = world.leftovers();
  if (left.length > 0) throw new Error(`left after the end: ${left.join(', ')}`);
}
