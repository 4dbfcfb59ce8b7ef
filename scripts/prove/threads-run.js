// A run of prove:threads: injects faults under load, and records every broken promise.
import { DatabaseSync } from '@photostructure/sqlite';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { longPatience, until } from '../lib/processes.js';
import { Subject } from './documents.js';
import { kinds, Load } from './load.js';
import { Commands } from './threads-commands.js';
import { endGracefully } from './threads-faults.js';
import { World } from './threads-world.js';

/** The number of broken promises that are printed. */
const mostPrinted = 12;
/** The longest time for which a fault lasts before the service must work as far as it can, in ms. */
const longestHold = 1_500;

/**
 * The names of the subjects, and how many books and loans their clients use at a time: many, so that lists have several
 * pages, or few, so that requests meet.
 */
const inUse = {
  many: { books: 600, loans: 60 },
  some: { books: 25, loans: 25 },
  few: { books: 2, loans: 2 },
};

/** @typedef {{ print: (line: string) => void }} RunOptions */

/** A server, its clients, and what they have seen. */
export class Run {
  /** The broken promises. @type {string[]} */
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
    this.load = new Load({ origin: world.origin, subjects, violation });
    this.commands = new Commands(world, this.load, violation);
  }

  /**
   * Creates the store, starts the server and its clients, and waits until all of them are served.
   * @param {import('./threads-world.js').WorldOptions & RunOptions} options
   */
  static async begin(options) {
    const world = new World(options);
    const tokens = await world.prepare(Object.keys(inUse));
    await world.start();
    const run = new Run(world, tokens, options);
    // Without descriptors, a server serves only those clients that have connected before.
    await run.#recover();
    return run;
  }

  /** Records a broken promise. @param {string} what */
  violate(what) {
    this.violations.push(what);
    if (this.violations.length <= mostPrinted) this.#print(`VIOLATION: ${what}`);
  }

  /**
   * Injects a fault, repairs it, waits until the service has recovered, and compares all lists.
   * @param {import('./threads-faults.js').Fault} fault
   */
  async disturb({ name, inject, down = [], allow500 = false }) {
    const { load } = this;
    const { failed } = load;
    load.calmSince = Infinity;
    load.allow500 = allow500;
    try {
      const repair = await inject(this.#world);
      try {
        if (repair !== undefined) await this.#hold(kinds.filter((kind) => !down.includes(kind)));
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
    await pause(100 + Math.random() * 400);
  }

  /** Waits while a fault lasts, and until what must work meanwhile does. @param {readonly import('./load.js').Kind[]} up */
  async #hold(up) {
    const moment = performance.now();
    await pause(Math.random() * longestHold);
    await this.#required(`meanwhile no ${up.join(', ')}`, () => this.load.hasSuccess(moment, up));
  }

  /** Waits until all threads serve, and no request fails any more; from then on, none may. */
  async #recover() {
    const moment = performance.now();
    const isWell = async () => this.load.isCalm(moment) && (await this.#world.ready());
    await this.#required('not recovered', isWell);
    this.load.allow500 = false;
    this.load.calmSince = performance.now();
  }

  /**
   * Waits for what must happen, and no longer once a promise is broken.
   * @param {string} what
   * @param {() => boolean | Promise<boolean>} holds
   */
  async #required(what, holds) {
    if (await until(async () => this.violations.length > 0 || (await holds()), longPatience)) return;
    throw new Error(`${what} for ${longPatience} s; last failure: ${this.load.lastFailure}`);
  }

  /** Ends the clients, compares everything once more, and ends the server. */
  async finish() {
    await this.commands.end();
    await this.load.end();
    await this.load.verify();
    await this.commands.verify();
    await endGracefully(this.#world);
    if (this.#world.engine !== 'sqlite') return;
    const database = new DatabaseSync(this.#world.store, { readOnly: true });
    const [integrity] = Object.values(database.prepare('PRAGMA integrity_check').get() ?? {});
    database.close();
    if (integrity !== 'ok') throw new Error(`the store is damaged: ${integrity}`);
  }

  /** Says what led to a violation, besides the faults; ends the clients, kills what still runs, and removes all files. */
  async abandon() {
    if (this.violations.length > 0)
      this.#print(['the last lines of the log:', ...this.#world.output].join('\n  '));
    this.load.calmSince = Infinity;
    await this.#world.end('SIGKILL');
    await this.commands.end();
    await this.load.end();
    this.#world.remove();
  }

  /** @param {string} line */
  #print(line) {
    const time = ((performance.now() - this.#begin) / 1_000).toFixed(1);
    this.#options.print(`${time.padStart(6)} s ${line}`);
  }
}
