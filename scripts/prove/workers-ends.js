// How prove:workers ends the supervisor, and what must be so afterwards. The server is then started again.
import { setTimeout as pause } from 'node:timers/promises';
import { killWorker, moveDatabase, moveStore, pauseWorker, stallLog } from './workers-faults.js';
import { signalAll, until } from './workers-processes.js';

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
    const status = await exit(world, gracefulTime);
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
    const status = await exit(world, orphanTime);
    if (status !== 0 && status !== 1) throw new Error(`an end by two signals had the status ${status}`);
    await workersEnd(world);
    checkLeftovers(world);
  },
};

/** @type {End} */
export const killSupervisor = {
  name: 'kill the supervisor',
  run: async (world) => {
    process.kill(world.supervisor, 'SIGKILL');
    await exit(world, orphanTime);
    await workersEnd(world);
  },
};

/** @type {End} */
export const killEverything = {
  name: 'kill all processes',
  run: async (world) => {
    world.kill();
    await exit(world, orphanTime);
    await workersEnd(world);
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

/** @type {End} */
const interruptStart = {
  name: 'end the supervisor by a signal while it starts',
  run: async (world, random) => {
    await endGracefully.run(world, random);
    world.launch(2);
    await pause(random.integer(0, 1_500));
    const signal = random.pick(signals);
    process.kill(world.supervisor, signal);
    const status = await exit(world, orphanTime);
    // Until Node.js has started, a signal ends the process.
    if (status !== 0 && status !== signal) throw new Error(`an end while it starts had the status ${status}`);
    await workersEnd(world);
    checkLeftovers(world);
  },
};

/** All of them. */
export const ends = [
  endGracefully,
  endTwice,
  killSupervisor,
  killEverything,
  interruptStart,
  during('while plants.db is away', moveDatabase, killSupervisor),
  during('while the store is away', moveStore, killEverything),
  during('while a worker is replaced', killWorker, endGracefully),
  during('while a worker is stopped', pauseWorker, endGracefully),
  during("while the log's reader stalls", stallLog, endGracefully),
];

/** @param {World} world @param {number} patience - In s. @returns The exit status or the signal. */
async function exit(world, patience) {
  /** @type {number | string | undefined} */
  let status;
  void world.ended.then((ended) => (status = ended));
  if (await until(() => status !== undefined, patience)) return status;
  throw new Error(`the supervisor did not end within ${patience} s`);
}

/** @param {World} world */
async function workersEnd(world) {
  if (await until(() => world.processes().length === 0, orphanTime)) return;
  throw new Error(`processes run ${orphanTime} s after their supervisor: ${world.leftovers().join(', ')}`);
}

/** @param {World} world */
function checkLeftovers(world) {
  const left = world.leftovers();
  if (left.length > 0) throw new Error(`left after the end: ${left.join(', ')}`);
}
