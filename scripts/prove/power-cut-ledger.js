// Records which writes were requested and acknowledged, and checks the files that a power failure left against them.
import { DatabaseSync } from '@photostructure/sqlite';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { service } from '../../dist/service.js';
import { migrateStorage } from '../../dist/storage/open.js';
import { lockStore } from '../../dist/storage/sqlite/lock.js';

/**
 * What was requested and, once `done`, acknowledged. `serve` stands for the start of the server.
 * @typedef {'create' | 'delete' | 'issue' | 'revoke' | 'backup' | 'serve'} Act
 */
/** The last request that concerns a plant or token. @typedef {{ act: string, done: boolean }} Last */
/** @typedef {{ done: boolean, before: Map<string, Last>, touched: Set<string> }} Backup */

/** Where the store is below the simulated disk. */
export const storePath = 'srv/data/plants.db';
/** Where the backups are below the simulated disk. */
export const backupFolder = 'backups';

/**
 * Returns the name of a plant. Some are long, so that the log needs more than one checkpoint.
 * @param {number} id
 */
export function nameOf(id) {
  return `Plant ${id} `.padEnd(id % 20 === 0 ? 20_000 : id % 5 === 0 ? 1_500 : 40, 'x');
}

/**
 * Writes a line for the ledger.
 * @param {Act} act
 * @param {string | number} key - The id of a plant or token, or the name of a backup.
 * @param {boolean} done
 * @param {string} [secret] - That of a new token.
 */
export function entry(act, key, done, secret = '') {
  return `${act} ${key} ${done ? 'done' : 'begun'} ${secret}\n`;
}

/** The requests so far. */
export class Ledger {
  /** By id; the ids of plants are numbers. @type {Map<string, Last>} */
  #last = new Map();
  /** @type {Map<string, Backup>} */
  #backups = new Map();
  /** The secret of the first token. @type {string | undefined} */
  secret;

  /**
   * Adds lines made by `entry`.
   * @param {string} lines
   */
  add(lines) {
    for (const line of lines.trimEnd().split('\n')) {
      const [act = '', key = '', state, secret] = line.split(' ');
      if (act === 'issue') this.secret ??= secret;
      const done = state === 'done';
      if (act === 'serve') continue;
      if (act === 'backup') {
        const known = this.#backups.get(key);
        if (known === undefined)
          this.#backups.set(key, { done, before: new Map(this.#last), touched: new Set() });
        else known.done = done;
        continue;
      }
      this.#last.set(key, { act, done });
      for (const backup of this.#backups.values()) if (!backup.done) backup.touched.add(key);
    }
  }

  /** The number of plants that were requested so far. */
  get plants() {
    return [...this.#last.values()].filter(({ act }) => act === 'create' || act === 'delete').length;
  }

  /** The writes of plants without an acknowledgment. @returns {{ act: 'create' | 'delete', id: number }[]} */
  get open() {
    return [...this.#last].flatMap(([key, { act, done }]) =>
      !done && (act === 'create' || act === 'delete') ? [{ act, id: Number(key) }] : [],
    );
  }

  /**
   * Checks the store and the backups on a disk. Takes the lock of the store and brings its schema up to date, as a
   * start would.
   * @param {string} disk - The folder that holds the disk's files.
   * @returns {Promise<string | undefined>} The fault, if any.
   */
  async check(disk) {
    try {
      const store = join(disk, storePath);
      if (existsSync(dirname(store))) (await lockStore(store)).release();
      if (existsSync(store)) await migrateStorage(service, `file:${store}`);
      const faults = [compare(store, this.#last)];
      for (const [name, { done, before, touched }] of this.#backups) {
        const file = join(disk, backupFolder, name);
        // A copy may be missing before it was acknowledged. But once it has its name, it must be complete.
        if (!done && !existsSync(file)) continue;
        const fault = compare(file, before, touched);
        faults.push(fault === undefined ? undefined : `backup: ${fault}`);
      }
      return faults.find((fault) => fault !== undefined);
    } catch (error) {
      return String(error).slice(0, 200);
    }
  }
}

/**
 * Compares a store with what it must contain.
 * @param {string} file
 * @param {Map<string, Last>} expected
 * @param {Set<string>} [excepted] - The ids that may be in any state.
 * @returns {string | undefined} The differences, if any.
 * @throws {Error} when the store is corrupt.
 */
function compare(file, expected, excepted = new Set()) {
  const { names, tokens } = readStore(file);
  let lost = 0;
  let back = 0;
  for (const [key, { act, done }] of expected) {
    if (!done || excepted.has(key)) continue;
    const revoked = tokens.get(key);
    if (act === 'create' && !names.has(Number(key))) lost++;
    if (act === 'delete' && names.has(Number(key))) back++;
    if (act === 'issue' && revoked === undefined) lost++;
    if (act === 'revoke' && revoked !== true) back++;
  }
  const isKnown = (/** @type {number} */ id) => expected.has(String(id)) || excepted.has(String(id));
  const wrong = [...names].filter(([id, name]) => name !== nameOf(id) || !isKnown(id)).length;
  return lost + back + wrong === 0 ? undefined : `${lost} lost, ${back} back, ${wrong} wrong`;
}

/**
 * Reads the names of a store's plants, and whether its tokens are revoked, by id.
 * @param {string} file
 * @returns {{ names: Map<number, string>, tokens: Map<string, boolean> }} Empty if the file does not exist.
 * @throws {Error} when the store is corrupt.
 */
function readStore(file) {
  if (!existsSync(file)) return { names: new Map(), tokens: new Map() };
  const database = new DatabaseSync(file);
  try {
    database.exec('PRAGMA synchronous = OFF');
    const verdict = database.prepare('PRAGMA integrity_check').all();
    if (verdict.length !== 1 || Object.values(verdict[0] ?? {})[0] !== 'ok')
      throw new Error(JSON.stringify(verdict));
    const plants = database.prepare('SELECT id, name FROM plants').all();
    const tokens = database.prepare('SELECT id, revoked_at IS NOT NULL AS revoked FROM tokens').all();
    return {
      names: new Map(plants.map((row) => [Number(row['id']), String(row['name'])])),
      tokens: new Map(tokens.map((row) => [String(row['id']), row['revoked'] === 1])),
    };
  } finally {
    database.close();
  }
}
