// A run of prove:workers: injects faults under load, and records every broken promise.
import { DatabaseSync } from '@photostructure/sqlite';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../lib/processes.js';
import { Commands } from './workers-commands.js';
import { Subject } from './workers-documents.js';
import { Load } from './workers-load.js';
import { kinds, Meter } from './workers-meter.js';
import { World } from './workers-world.js';

/** @typedef {import('./workers-faults.js').Fault} Fault */
/** @typedef {import('./workers-ends.js').End} End */
/** @typedef {import('./workers-random.js').Random} Random */
/** @typedef {import('./workers-meter.js').PerKind} PerKind */

/** How long anything may take, in s: far beyond what a slow machine needs, so that only what never happens fails. */
const patience = 180;
/** How many broken promises are printed. */
const mostPrinted = 12;

/**
 * The names of the subjects, and how many books and loans their clients use at a time: many, so that lists have several
 * pages, or few, so that requests meet.
 */
const inUse = {
  many: { books: 600, loans: 60 },
  some: { books: 25, loans: 25 },
  few: { books: 2, loans: 2 },
};

/** A server, its clients, and what they have seen. */
export class Run {
  /** What broke a promise. @type {string[]} */
  violations = [];
  meter = new Meter();
  /** The clients, which run from `begin` on. @type {Load | undefined} */
  load;
  /** The operator, who does the same. @type {Commands | undefined} */
  commands;
  #begin = performance.now();
  #print;
  #counts;
  #world;
  #overdue = 0;

  /**
   * @param {string} root - The folder of a build of the project.
   * @param {(line: string) => void} print
   * @param {(what: string) => boolean} [counts] - Which broken promises are recorded, and end what waits; by default all.
   * @param {string} [server] - The program that serves, if not the library's own.
   */
  constructor(root, print, counts = () => true, server) {
    this.#print = print;
    this.#counts = counts;
    this.#world = new World(root, server);
  }

  /**
   * Creates the store, and starts the server for the first time.
   * @param {import('./workers-world.js').Engine} engine
   * @param {number} workers
   */
  async begin(engine, workers) {
    const tokens = await this.#world.prepare(engine, Object.keys(inUse));
    await this.#world.start(workers, patience);
    const { origin } = this.#world;
    const violation = (/** @type {string} */ what) => this.violate(what);
    const subjects = Object.entries(inUse).map(
      ([name, counts], i) => new Subject(name, tokens[i] ?? '', counts),
    );
    this.load = new Load({ origins: [origin], subjects, meter: this.meter, violation });
    this.commands = new Commands(this.#world, this.load, () => this.meter.disturbances, violation);
  }

  /** Whether a fault or an end can happen to the running server. @param {Fault | End} fault */
  applies({ engine, workers = 1 }) {
    const { isFile } = this.#world;
    return (engine === undefined || (engine === 'sqlite') === isFile) && this.#world.workers >= workers;
  }

  /** Records a broken promise. @param {string} what */
  violate(what) {
    if (!this.#counts(what)) return;
    this.violations.push(what);
    if (this.violations.length <= mostPrinted) this.#print(`${this.#time()} VIOLATION: ${what}`);
  }

  /**
   * Injects a fault, repairs it, and waits until the service has recovered.
   * @param {Fault} fault
   * @param {Random} random
   * @param {Fault} [possibleDeath] - The death of workers meanwhile, if the fault allows it.
   */
  async disturb(fault, random, possibleDeath) {
    const mayDie = fault.withDeath === true && possibleDeath !== undefined && this.applies(possibleDeath);
    const death = mayDie ? possibleDeath : undefined;
    const name = death === undefined ? fault.name : `${fault.name}, and ${death.name}`;
    const { down = [], downWithDeath = [], bound = patience, allow500 = false } = fault;
    const mayStop = death === undefined ? down : [...down, ...downWithDeath, ...(death.down ?? [])];
    const failures = this.meter.failed;
    this.#beginFault(mayStop);
    this.#allow500(allow500);
    const repair = await fault.inject(this.#world, random);
    await this.#hold(name, fault, mayStop, random, death);
    await this.#attempt(name, repair);
    this.meter.repaired();
    const recovered = await this.#recover(name, bound);
    this.#allow500(false);
    const longest = this.meter.endFault(recovered);
    this.#report(name, longest, failures);
    await pause(random.integer(100, 500));
  }

  /** @param {readonly import('./workers-meter.js').Kind[]} mayStop */
  #beginFault(mayStop) {
    const { overdue } = this.#world;
    for (const what of this.meter.takeUnexpected()) {
      // A slow machine kills workers that cannot respond in time, and they take their requests with them.
      if (overdue === this.#overdue) this.violate(`without a fault, this failed: ${what}`);
    }
    this.meter.beginFault(mayStop);
  }

  /**
   * Waits while a fault lasts, and until the service works as far as it must meanwhile.
   * @param {string} name
   * @param {Fault} fault
   * @param {readonly import('./workers-meter.js').Kind[]} mayStop
   * @param {Random} random
   * @param {Fault | undefined} death
   */
  async #hold(name, { hold, replaced = false, bound = patience, down = [] }, mayStop, random, death) {
    const time = random.integer(...hold);
    const before = random.integer(0, time);
    await pause(before);
    await death?.inject(this.#world, random);
    const moment = performance.now();
    await pause(time - before);
    const awaitsWorkers = death !== undefined && replaced;
    // Once workers have been replaced, what their death may have stopped must work again.
    const stopped = awaitsWorkers ? down : mayStop;
    const up = kinds.filter((kind) => !stopped.includes(kind));
    const works = async () =>
      this.meter.hasSuccess(moment, up) && (!awaitsWorkers || (await this.#world.allServe()));
    if (await this.#until(works, bound)) return;
    this.violate(`${name}: meanwhile no ${up.join(', ')}, or no new worker, for ${bound} s`);
  }

  /** @param {boolean} allowed */
  #allow500(allowed) {
    if (this.load !== undefined) this.load.allow500 = allowed;
  }

  /** Waits for a condition, and no longer once a promise is broken. @param {() => Promise<boolean>} holds @param {number} bound */
  #until(holds, bound) {
    return until(async () => this.violations.length > 0 || (await holds()), bound + this.#world.longestPause);
  }

  /** @param {string} name @param {() => void | Promise<void>} action - Throws an Error when a promise is broken. */
  async #attempt(name, action) {
    try {
      await action();
    } catch (error) {
      this.violate(`${name}: ${/** @type {Error} */ (error).message}`);
    }
  }

  /**
   * Ends the server, starts it again, and compares all lists.
   * @param {End} end
   * @param {Random} random
   * @param {number} workers - Of the next server.
   */
  async restart(end, random, workers) {
    const failures = this.meter.failed;
    this.#beginFault(kinds);
    const begun = performance.now();
    await this.#attempt(end.name, () => end.run(this.#world, random));
    this.#world.kill();
    const ended = performance.now();
    await this.#world.start(workers, patience);
    const times = `${seconds(ended - begun)} s, and start with ${workers} workers: ${seconds(performance.now() - ended)} s`;
    this.meter.repaired();
    const recovered = await this.#recover(end.name, patience);
    this.#report(`${end.name}: ${times}`, this.meter.endFault(recovered), failures);
    await this.load?.verify();
  }

  /** Ends the clients, compares everything once more, and ends the server. @param {End} end @param {Random} random */
  async finish(end, random) {
    this.#beginFault([]);
    this.meter.endFault(true);
    await this.commands?.end();
    await this.load?.end();
    await this.load?.verify();
    await this.commands?.verify();
    await this.#attempt(end.name, () => end.run(this.#world, random));
    if (!this.#world.isFile) return;
    const integrity = integrityOf(this.#world.store);
    if (integrity !== 'ok') this.violate(`the store is damaged: ${integrity}`);
  }

  /** Ends the clients, kills what still runs, and removes all files. */
  async abandon() {
    this.meter.beginFault(kinds);
    this.#world.kill();
    await this.commands?.end();
    await this.load?.end();
    this.#world.remove();
  }

  /** Prints what led to a violation, besides the faults. */
  explain() {
    this.#print(['the last lines of the log:', ...this.#world.lines].join('\n  '));
  }

  /** @param {string} name @param {number} bound - In s. @returns {Promise<boolean>} Whether it has recovered. */
  async #recover(name, bound) {
    const since = Date.now();
    const world = this.#world;
    const recovered = async () =>
      (await world.allServe()) &&
      this.meter.isCalm() &&
      world.workersWithNewConnections(since) >= world.workers &&
      (await world.ready());
    if (await this.#until(recovered, bound)) {
      this.#overdue = world.overdue;
      return true;
    }
    const serving = await world.servingWorkers();
    this.violate(
      `${name}: not recovered after ${bound} s: ${serving ?? 'unknown'} of ${world.workers} workers serve, ` +
        `${world.workersWithNewConnections(since)} with new connections, ` +
        `${(await world.ready()) ? 'ready' : 'not ready'}, last failure: ${this.meter.lastFailure}`,
    );
    return false;
  }

  /** @param {string} what @param {PerKind} longest @param {number} failures - Before the fault. */
  #report(what, longest, failures) {
    const silences = kinds.map((request) => `${request} ${seconds(longest[request])} s`).join(', ');
    const failed = this.meter.failed - failures;
    this.#print(`${this.#time()} ${what}: without ${silences}; failed requests: ${failed}`);
  }

  #time() {
    return `${((performance.now() - this.#begin) / 1_000).toFixed(1).padStart(6)} s`;
  }
}

/** A time in s, from ms. @param {number} milliseconds */
function seconds(milliseconds) {
  return (milliseconds / 1_000).toFixed(2);
}

/** Checks a store that no process has open. @param {string} file @returns {string} "ok", or what is wrong. */
function integrityOf(file) {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return String(Object.values(database.prepare('PRAGMA integrity_check').get() ?? {})[0]);
  } finally {
    database.close();
  }
}
