// A run of prove:workers: injects faults under load, and records every broken promise.
import { DatabaseSync } from '@photostructure/sqlite';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { longPatience, until } from '../lib/processes.js';
import { Commands } from './workers-commands.js';
import { Subject } from './workers-documents.js';
import { endGracefully } from './workers-faults.js';
import { kinds, Load } from './workers-load.js';
import { World } from './workers-world.js';

/** @typedef {import('./workers-faults.js').Fault} Fault */
/** @typedef {import('./workers-random.js').Random} Random */

/** How many broken promises are printed. */
const mostPrinted = 12;
/** The longest time for which a fault lasts before and after workers may die meanwhile, in ms. */
const longestHold = 750;

/**
 * The names of the subjects, and how many books and loans their clients use at a time: many, so that lists have several
 * pages, or few, so that requests meet.
 */
const inUse = {
  many: { books: 600, loans: 60 },
  some: { books: 25, loans: 25 },
  few: { books: 2, loans: 2 },
};

/**
 * @typedef {object} RunOptions
 * @property {(line: string) => void} print
 * @property {RegExp} [counted] - The broken promises that are recorded, and end what waits; by default all.
 * @property {number} [patience] - How long a fault may hold up what must work, in s.
 */

/** A server, its clients, and what they have seen. */
export class Run {
  /** What broke a promise. @type {string[]} */
  violations = [];
  /** The clients. */
  load;
  /** The operator. */
  commands;
  #begin = performance.now();
  #options;
  #world;

  /** @param {World} world @param {readonly string[]} tokens - Of the subjects. @param {RunOptions} options */
  constructor(world, tokens, options) {
    this.#world = world;
    this.#options = options;
    const violation = (/** @type {string} */ what) => this.violate(what);
    const subjects = Object.entries(inUse).map(
      ([name, counts], i) => new Subject(name, tokens[i] ?? '', counts),
    );
    this.load = new Load({ origins: [world.origin], subjects, violation });
    this.commands = new Commands(world, this.load, violation);
  }

  /**
   * Creates the store, starts the server and its clients, and waits until all of them are served.
   * @param {import('./workers-world.js').WorldOptions & RunOptions} options
   * @param {Random} random
   */
  static async begin(options, random) {
    const world = new World(options);
    const tokens = await world.prepare(Object.keys(inUse));
    await world.start(random);
    const run = new Run(world, tokens, options);
    // Without descriptors, a server serves only those clients that have connected before.
    await run.#recover();
    return run;
  }

  /** Whether a fault can happen to the running server. @param {Fault} fault */
  applies({ engine = this.#world.engine, workers = 1 }) {
    return engine === this.#world.engine && this.#world.workers >= workers;
  }

  /** Records a broken promise. @param {string} what */
  violate(what) {
    if (this.#options.counted?.test(what) === false) return;
    this.violations.push(what);
    if (this.violations.length <= mostPrinted) this.#print(`VIOLATION: ${what}`);
  }

  /**
   * Injects a fault, repairs it, waits until the service has recovered, and compares all lists.
   * @param {Fault} fault
   * @param {Random} random
   * @param {Fault} [possibleDeath] - The death of workers meanwhile, if it applies.
   */
  async disturb(fault, random, possibleDeath) {
    const { load } = this;
    const death = possibleDeath && this.applies(possibleDeath) ? possibleDeath : undefined;
    const name = death === undefined ? fault.name : `${fault.name}, and ${death.name}`;
    const failed = load.failed;
    this.#endCalm();
    load.allow500 = fault.allow500 === true;
    try {
      const repair = await fault.inject(this.#world, random);
      try {
        if (repair !== undefined || death !== undefined) await this.#hold(fault, random, death);
      } finally {
        await repair?.();
      }
      const repaired = performance.now();
      await this.#recover();
      const time = ((performance.now() - repaired) / 1_000).toFixed(2);
      this.#print(`${name}: recovered after ${time} s; failed requests: ${load.failed - failed}`);
      await load.verify();
    } catch (error) {
      this.violate(`${name}: ${/** @type {Error} */ (error).message}`);
    }
    await pause(random.integer(100, 500));
  }

  /** From now on requests may fail. */
  #endCalm() {
    const unexpected = this.load.unexpected.splice(0);
    // A slow machine kills workers that cannot respond in time, and they take their requests with them.
    if (!this.#world.isOverdue)
      for (const what of unexpected) this.violate(`without a fault, this failed: ${what}`);
    this.load.calmSince = Infinity;
  }

  /**
   * Waits while a fault lasts, and until the service works as far as it must meanwhile.
   * @param {Fault} fault
   * @param {Random} random
   * @param {Fault | undefined} death
   */
  async #hold({ down = [], noNewWorkers = false }, random, death) {
    await pause(random.integer(0, longestHold));
    await death?.inject(this.#world, random);
    const moment = performance.now();
    await pause(random.integer(0, longestHold));
    if (death !== undefined && noNewWorkers) return;
    const up = kinds.filter((kind) => !down.includes(kind));
    await this.#required(`meanwhile no ${up.join(', ')}`, () => this.load.hasSuccess(moment, up));
    if (death !== undefined) await this.#required('meanwhile no new worker', () => this.#world.allServe());
  }

  /** Waits until all workers serve, and no request fails any more; from then on, none may. */
  async #recover() {
    const world = this.#world;
    const [moment, time] = [performance.now(), Date.now()];
    await this.#required(
      'not recovered',
      async () =>
        (await world.allServe()) &&
        this.load.isCalm(moment) &&
        world.workersWithNewConnections(time) >= world.workers &&
        (await world.ready()),
    );
    world.isOverdue = false;
    this.load.allow500 = false;
    this.load.calmSince = performance.now();
  }

  /**
   * Waits for what must happen, and no longer once a promise is broken.
   * @param {string} what
   * @param {() => boolean | Promise<boolean>} holds
   */
  async #required(what, holds) {
    const { patience = longPatience } = this.#options;
    if (await until(async () => this.violations.length > 0 || (await holds()), patience)) return;
    throw new Error(`${what} for ${patience} s; last failure: ${this.load.lastFailure}`);
  }

  /** Ends the clients, compares everything once more, and ends the server. @param {Random} random */
  async finish(random) {
    this.#endCalm();
    await this.commands.end();
    await this.load.end();
    await this.load.verify();
    await this.commands.verify();
    await endGracefully(this.#world, random);
    if (this.#world.engine === 'postgres') return;
    const database = new DatabaseSync(this.#world.store, { readOnly: true });
    const [integrity] = Object.values(database.prepare('PRAGMA integrity_check').get() ?? {});
    database.close();
    if (integrity !== 'ok') throw new Error(`the store is damaged: ${integrity}`);
  }

  /** Ends the clients, kills what still runs, and removes all files. */
  async abandon() {
    this.load.calmSince = Infinity;
    this.#world.kill();
    await this.commands.end();
    await this.load.end();
    this.#world.remove();
  }

  /** Prints what led to a violation, besides the faults. */
  explain() {
    this.#print(['the last lines of the log:', ...this.#world.lines].join('\n  '));
  }

  /** @param {string} line */
  #print(line) {
    const time = ((performance.now() - this.#begin) / 1_000).toFixed(1);
    this.#options.print(`${time.padStart(6)} s ${line}`);
  }
}
