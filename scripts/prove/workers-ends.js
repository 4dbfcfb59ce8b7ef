// How prove:workers ends the supervisor, and what must be so afterwards. The server is then started again. Signals during a
// start, and a second one, are tested in packages/server/test/process.
import { linkSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../lib/processes.js';
import { faults } from './workers-faults.js';

/** @typedef {import('./workers-world.js').World} World */
/** @typedef {import('./workers-faults.js').Fault} Fault */
/** @typedef {import('./workers-random.js').Random} Random */

/**
 * An end of the supervisor.
 * @typedef {object} End
 * @property {string} name
 * @property {import('./workers-world.js').Engine} [engine] - The only one that it concerns.
 * @property {number} [workers] - How many workers the server must have.
 * @property {(world: World, random: Random) => Promise<void>} run - Throws an Error when a promise is broken.
 */

/** How long an end may take, in s: far beyond what a slow machine needs. */
const patience = 180;

/** @type {readonly NodeJS.Signals[]} */
const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'];

/** @type {End} */
export const endGracefully = {
  name: 'end the supervisor by a signal',
  run: async (world, random) => {
    process.kill(world.supervisor, random.pick(signals));
    const status = await world.exited(patience);
    if (status !== 0) throw new Error(`a graceful end had the status ${status}`);
    const left = world.leftovers();
    if (left.length > 0) throw new Error(`left after the end: ${left.join(', ')}`);
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
const deleteLog = {
  name: 'delete the write-ahead log, kill all processes, and restore the log',
  engine: 'sqlite',
  run: async (world, random) => {
    const log = `${world.store}-wal`;
    const restored = join(world.awayFolder, 'log');
    linkSync(log, restored);
    rmSync(log);
    await pause(random.integer(0, 500));
    await killEverything.run(world, random);
    world.launch(world.workers);
    const status = await world.settled(patience);
    if (status === 1) renameSync(restored, log);
    // A command that outlives the server closes the store, with all that the deleted log has.
    else if (status === undefined) rmSync(restored);
    else throw new Error(`a start without the log had the status ${status}`);
  },
};

/** @param {string} name @param {Fault} fault @param {End} end @returns {End} An end while a fault lasts. */
const during = (name, fault, end) => ({
  name: `${end.name} ${name}`,
  ...(fault.engine && { engine: fault.engine }),
  ...(fault.workers && { workers: fault.workers }),
  run: async (world, random) => {
    const repair = await fault.inject(world, random);
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
  killSupervisor,
  killEverything,
  deleteLog,
  during('while the database is away', faults.moveDatabase, killSupervisor),
  during('while the store is away', faults.moveStore, killEverything),
  during('while a worker is replaced', faults.killWorker, endGracefully),
  during('while a worker is stopped', faults.pauseWorker, endGracefully),
  during("while the log's reader stalls", faults.stallLog, endGracefully),
];

/** Waits until the supervisor and then its workers have ended. @param {World} world */
async function allExit(world) {
  await world.exited(patience);
  if (await until(() => world.processes().length === 0, patience)) return;
  throw new Error(`processes run ${patience} s after their supervisor: ${world.leftovers().join(', ')}`);
}
