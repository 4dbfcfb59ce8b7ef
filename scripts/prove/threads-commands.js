// The operator of prove:threads: creates, uses, lists and revokes tokens and backs up the store, whatever else happens.
import { DatabaseSync } from '@photostructure/sqlite';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';
import { statesIn } from './model.js';

/** The pause between two rounds, in ms. */
const between = 500;
/** The subject of the tokens, which has no documents. */
const subject = 'operator';

/** Runs one command after the other. While a fault lasts, a command may fail; what succeeds must hold. */
export class Commands {
  /** The numbers of commands that succeeded, and that failed during a fault. */
  succeeded = 0;
  failed = 0;
  #world;
  #load;
  #violation;
  #ends = false;
  #ended;
  /** The state of each acknowledged token by its id; undefined if that is unknown. @type {Map<string, string | undefined>} */
  #tokens = new Map();

  /**
   * @param {import('./threads-world.js').World} world
   * @param {import('./load.js').Load} load
   * @param {(what: string) => void} violation
   */
  constructor(world, load, violation) {
    this.#world = world;
    this.#load = load;
    this.#violation = violation;
    this.#ended = this.#run();
    // `end` reports a failure.
    this.#ended.catch(() => undefined);
  }

  /** Ends after the commands that are under way. */
  end() {
    this.#ends = true;
    return this.#ended;
  }

  async #run() {
    while (!this.#ends) await this.#work();
  }

  /** Compares the list of tokens with what was acknowledged. */
  async verify() {
    const listed = await this.#command('token', 'list', '--subject', subject);
    if (listed === undefined) return;
    const states = new Map(
      listed.split('\n').flatMap((line) => {
        if (line === '') return [];
        const { id, state } = JSON.parse(line);
        return [[id, state]];
      }),
    );
    for (const [id, state] of this.#tokens)
      if (!states.has(id) || (state !== undefined && states.get(id) !== state))
        this.#violation(`lost: the token ${id} is ${states.get(id)}, and not ${state}`);
  }

  /** Makes a token, uses and revokes it, and backs up the store. */
  async #work() {
    const made = await this.#command('token', 'create', subject, '--json');
    if (made !== undefined) {
      const { id, token } = JSON.parse(made);
      const { status } = await send(this.#world.origin, { path: '/books', token });
      if (status === 401) this.#violation(`lost: the new token ${id} is refused`);
      this.#tokens.set(id, undefined);
      if ((await this.#command('token', 'revoke', id)) !== undefined) this.#tokens.set(id, 'revoked');
    }
    await this.verify();
    if (this.#world.engine === 'sqlite') await this.#backUp();
    await pause(between);
  }

  /** Backs up the store, and compares the copy with what is known. */
  async #backUp() {
    const copy = join(this.#world.backupFolder, 'copy.db');
    const begun = performance.now();
    if ((await this.#command('backup', copy)) !== undefined) {
      const database = new DatabaseSync(copy, { readOnly: true });
      try {
        this.#load.compareBackup(begun, (owner, collection) => statesIn(database, owner, collection));
      } catch (error) {
        this.#violation(`lost: in a backup, ${String(error)}`);
      }
      database.close();
    }
    rmSync(copy, { force: true });
  }

  /** @param {string[]} args @returns {Promise<string | undefined>} What it printed; undefined if it failed. */
  async #command(...args) {
    const begun = performance.now();
    try {
      const printed = await this.#world.command(...args);
      this.succeeded++;
      return printed;
    } catch (error) {
      this.failed++;
      if (begun >= this.#load.calmSince) this.#violation(`without a fault, ${String(error)}`);
      return undefined;
    }
  }
}
