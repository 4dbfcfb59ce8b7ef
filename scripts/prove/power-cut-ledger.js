// Records which requests were sent and acknowledged, and checks the files that a power failure left against them.
import { DatabaseSync } from '@photostructure/sqlite';
import { existsSync, linkSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { service as library } from '../../examples/library/dist/service.js';
import { service as plantStore } from '../../dist/service.js';
import { migrateStorage } from '../../packages/server/dist/storage/open.js';
import { lockStore } from '../../packages/server/dist/storage/sqlite/lock.js';
import { checkStore } from '../../packages/server/dist/storage/sqlite/store-check.js';
import { strayFiles } from '../../packages/server/dist/storage/sqlite/worker-folder.js';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { send } from '../lib/request.js';
import { Document, Subject } from './workers-documents.js';
import { collections, idOf, readOutcome, stateOf, statesIn } from './workers-model.js';

/** @typedef {import('./workers-model.js').Collection} Collection */
/** @typedef {import('./workers-model.js').Operation} Operation */
/** @typedef {import('../lib/linearizability.js').Request<Operation>} Request */

/**
 * What is requested. `document` is a request to the library, `log` the deletion of the log by an operator, `migrate` the
 * command that runs before the start, and `serve` that start.
 * @typedef {'create' | 'delete' | 'document' | 'issue' | 'revoke' | 'backup' | 'log' | 'migrate' | 'serve'} Act
 */
/** A request whose outcome nobody knows is `unknown`, one that had no effect `none`. @typedef {'begun' | 'done' | 'unknown' | 'none'} State */
/** The last request that concerns a plant or token. @typedef {{ act: string, done: boolean }} Last */
/**
 * A backup: what was known when it began, and what was requested since, until it was done.
 * @typedef {object} Backup
 * @property {boolean} done
 * @property {Map<string, Last>} before
 * @property {Map<string, string | null | undefined>} documents
 * @property {Set<string>} touched
 */
/**
 * What a store holds: the names of the plants, the states of the library's documents and whether tokens are revoked.
 * What is not known is undefined.
 * @typedef {{ names?: Map<number, string>, states?: Record<Collection, Map<string | number, string>>, tokens?: Map<string, boolean> }} Found
 */

/** @param {string} path */
const built = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
/** The services that the power cuts hit. */
export const services = {
  plants: { definition: plantStore, main: built('dist/main.js'), command: built('dist/cli.js') },
  library: {
    definition: library,
    main: built('examples/library/dist/main.js'),
    command: built('examples/library/dist/cli.js'),
  },
  transactions: {
    definition: library,
    main: copyingLibrary,
    command: built('examples/library/dist/cli.js'),
  },
};
/** @typedef {keyof typeof services} ServiceName */

/** The only subject. */
export const subject = 'alice';
/** How many documents of the library are in use at a time. */
const inUse = { books: 40, loans: 40 };
/** Where the store is below the simulated disk. */
export const storePath = 'srv/data/store.db';
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
 * @param {string | number} key - The id of a plant or token, the name of a backup, or the path of a document.
 * @param {State} state
 * @param {string} [text] - The secret of a new token; for a document the number of the request, and what it requests or
 *   its outcome.
 */
export function entry(act, key, state, text = '') {
  return `${act} ${key} ${state} ${text}\n`;
}

/**
 * Does what the message of a start advises when a log is missing: puts the one that workers have back into place.
 * @param {string} store
 * @returns {boolean} Whether there is one.
 */
export function putLogBack(store) {
  const [link] = strayFiles(store).filter((path) => path.endsWith('-wal'));
  if (link === undefined) return false;
  rmSync(`${store}-wal`, { force: true });
  linkSync(link, `${store}-wal`);
  return true;
}

/** The requests so far. */
export class Ledger {
  /** By id; the ids of plants are numbers. @type {Map<string, Last>} */
  #last = new Map();
  /** @type {Map<string, Backup>} */
  #backups = new Map();
  /** By number. @type {Map<string, Request>} */
  #requests = new Map();
  #isLogDeleted = false;
  /** The images that were refused for want of the log, with and without one to put back. */
  repaired = 0;
  refused = 0;
  /** The secret of the first token. @type {string | undefined} */
  secret;
  /** What is known of the documents of the library. */
  library = new Subject(subject, '', inUse);

  /** @param {ServiceName} service */
  constructor(service) {
    this.service = service;
  }

  /**
   * Adds lines made by `entry`.
   * @param {string} lines
   * @throws {Error} when the responses contradict each other.
   */
  add(lines) {
    for (const line of lines.split('\n').filter((text) => text !== '')) {
      const [, act = '', key = '', state = '', text = ''] = /^(\S+) (\S+) (\S+) ?(.*)$/.exec(line) ?? [];
      const done = state === 'done';
      if (act === 'log') this.#isLogDeleted = true;
      else if (act === 'serve') this.#isLogDeleted = false;
      else if (act === 'migrate') continue;
      else if (act === 'backup') this.#addBackup(key, done);
      else {
        if (act === 'issue') this.secret ??= text;
        if (act === 'document') this.#addRequest(key, state, text);
        else this.#last.set(key, { act, done });
        for (const backup of this.#backups.values()) if (!backup.done) backup.touched.add(key);
      }
    }
  }

  /** @param {string} name @param {boolean} done */
  #addBackup(name, done) {
    const known = this.#backups.get(name);
    if (known !== undefined) known.done = done;
    else {
      const documents = new Map(
        [...this.documents].map(({ collection, id, register }) => [`${collection}/${id}`, register.state]),
      );
      this.#backups.set(name, { done, before: new Map(this.#last), documents, touched: new Set() });
    }
  }

  /** @param {string} key @param {string} state @param {string} text */
  #addRequest(key, state, text) {
    const [, number = '', rest = ''] = /^(\d+) ?(.*)$/.exec(text) ?? [];
    const { register } = this.#document(key);
    const request = this.#requests.get(number);
    if (request === undefined) this.#requests.set(number, register.begin(JSON.parse(rest)));
    else if (state === 'none') register.withdraw(request);
    else register.end(request, state === 'done' ? rest : undefined);
    if (register.fault !== undefined)
      throw new Error(`${register.fault.kind}: ${key}: ${register.fault.text}`);
  }

  /** @param {string} key @returns {Document} */
  #document(key) {
    const [name, text = ''] = key.split('/');
    const collection = name === 'books' ? 'books' : 'loans';
    const id = collection === 'books' ? text : Number(text);
    const known = this.library.documents[collection].get(id);
    if (known !== undefined) return known;
    const added = new Document(collection, id);
    this.library.documents[collection].set(id, added);
    this.library.inUse[collection].push(added);
    return added;
  }

  /** All documents that were ever used. */
  get documents() {
    const { books, loans } = this.library.documents;
    return [...books.values(), ...loans.values()];
  }

  /** The number of requests to the library so far. */
  get requests() {
    return this.#requests.size;
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
   * @param {boolean} served - Whether to start a server with two workers, too, and to compare what it lists.
   * @returns {Promise<string | undefined>} The fault, if any.
   */
  async check(disk, served) {
    const store = join(disk, storePath);
    try {
      if (existsSync(dirname(store)) && !this.#isWhole(store)) return undefined;
      const faults = [];
      if (served) faults.push(...this.#compare(await this.#list(store)));
      if (existsSync(dirname(store))) (await lockStore(store)).release();
      if (existsSync(store)) await migrateStorage(services[this.service].definition, `file:${store}`);
      faults.push(...this.#compare(this.#read(store)));
      for (const [name, backup] of this.#backups) {
        const file = join(disk, backupFolder, name);
        // A copy may be missing before it was acknowledged. But once it has its name, it must be complete.
        if (!backup.done && !existsSync(file)) continue;
        faults.push(...this.#compareBackup(this.#read(file), backup).map((fault) => `backup: ${fault}`));
      }
      return faults[0];
    } catch (error) {
      return String(error).slice(0, 200);
    }
  }

  /**
   * Whether a store can be opened. After an operator has deleted the log, the start must say so, unless the power
   * failure has undone that; and if workers have the log, it must be whole.
   * @param {string} store
   * @throws {Error} when a start would refuse it, though nobody has deleted anything.
   */
  #isWhole(store) {
    try {
      checkStore(store);
      return true;
    } catch (error) {
      if (!this.#isLogDeleted) throw error;
      const repaired = putLogBack(store);
      if (repaired) this.repaired++;
      else this.refused++;
      return repaired;
    }
  }

  /** Compares a store with what it must contain. @param {Found} found @returns {string[]} The differences. */
  #compare({ names, states, tokens }) {
    const faults = comparePlants(this.#last, new Set(), names, tokens);
    if (states === undefined) return faults;
    const isPossible = (/** @type {Document} */ { register, collection, id }) =>
      register.permits({ act: 'read' }, readOutcome(states[collection].get(id)));
    const wrong = this.documents.filter((document) => !isPossible(document)).length;
    return [...faults, ...this.#compareDocuments(wrong, states)];
  }

  /** Compares a backup. @param {Found} found @param {Backup} backup @returns {string[]} The differences. */
  #compareBackup({ names, states, tokens }, { before, documents, touched }) {
    const faults = comparePlants(before, touched, names, tokens);
    if (states === undefined) return faults;
    const wrong = this.documents.filter(({ collection, id }) => {
      const state = documents.get(`${collection}/${id}`);
      const isKnown = state !== undefined && !touched.has(`${collection}/${id}`);
      return isKnown && state !== (states[collection].get(id) ?? null);
    });
    return [...faults, ...this.#compareDocuments(wrong.length, states)];
  }

  /** @param {number} wrong @param {Record<Collection, Map<string | number, string>>} states */
  #compareDocuments(wrong, states) {
    const unknown = collections.flatMap((collection) =>
      [...states[collection].keys()].filter((id) => !this.library.documents[collection].has(id)),
    ).length;
    return wrong + unknown === 0 ? [] : [`${wrong} documents lost or changed, ${unknown} unknown`];
  }

  /**
   * Reads a store.
   * @param {string} file
   * @returns {Found} Without documents if the file does not exist.
   * @throws {Error} when the store is corrupt.
   */
  #read(file) {
    const isLibrary = this.service !== 'plants';
    if (!existsSync(file)) {
      const none = isLibrary ? { states: { books: new Map(), loans: new Map() } } : { names: new Map() };
      return { ...none, tokens: new Map() };
    }
    const database = new DatabaseSync(file);
    try {
      database.exec('PRAGMA synchronous = OFF');
      const verdict = database.prepare('PRAGMA integrity_check').all();
      if (verdict.length !== 1 || Object.values(verdict[0] ?? {})[0] !== 'ok')
        throw new Error(JSON.stringify(verdict));
      const rows = database.prepare('SELECT id, revoked_at IS NOT NULL AS revoked FROM tokens').all();
      const tokens = new Map(rows.map((row) => [String(row['id']), row['revoked'] === 1]));
      if (isLibrary) {
        const read = (/** @type {Collection} */ collection) => statesIn(database, subject, collection);
        return { states: { books: read('books'), loans: read('loans') }, tokens };
      }
      const plants = database.prepare('SELECT id, name FROM plants').all();
      return { names: new Map(plants.map((row) => [Number(row['id']), String(row['name'])])), tokens };
    } finally {
      database.close();
    }
  }

  /**
   * Starts a server with two workers, which recovers the store, and lists everything. Without a token, it only starts.
   * @param {string} store
   * @returns {Promise<Found>}
   * @throws {Error} when it does not start, serve or end.
   */
  async #list(store) {
    const env = { DATABASE_URL: `file:${store}`, WORKERS: '2' };
    const { origin, end } = await startServer({ script: services[this.service].main, env });
    const listing = this.lists(origin);
    await listing.catch(() => undefined);
    const ended = await end();
    if (ended !== 0) throw new Error(`the server ended with ${ended}`);
    return listing;
  }

  /** What a server lists, if there is a token. @param {string} origin @returns {Promise<Found>} */
  async lists(origin) {
    const { secret: token } = this;
    if (token === undefined) return {};
    const list = async (/** @type {string} */ path) => {
      const { status, text } = await send(origin, { path, token });
      if (status !== 200) throw new Error(`GET ${path}: ${status} ${text}`);
      return JSON.parse(text);
    };
    if (this.service === 'plants') {
      const plants = /** @type {{ name: string }[]} */ (await list('/plants'));
      return { names: new Map(plants.map(({ name }) => [Number(/\d+/.exec(name)?.[0]), name])) };
    }
    const states = async (/** @type {Collection} */ collection) =>
      new Map(
        (await list(`/${collection}`)).map((/** @type {Record<string, unknown>} */ value) => [
          idOf(collection, value),
          stateOf(collection, value),
        ]),
      );
    return { states: { books: await states('books'), loans: await states('loans') } };
  }
}

/**
 * @param {Map<string, Last>} expected
 * @param {Set<string>} excepted - The ids that may be in any state.
 * @param {Map<number, string>} [names]
 * @param {Map<string, boolean>} [tokens]
 * @returns {string[]} The differences.
 */
function comparePlants(expected, excepted, names, tokens) {
  let lost = 0;
  let back = 0;
  for (const [key, { act, done }] of expected) {
    if (!done || excepted.has(key)) continue;
    if (act === 'create' && names?.has(Number(key)) === false) lost++;
    if (act === 'delete' && names?.has(Number(key)) === true) back++;
    if (act === 'issue' && tokens?.has(key) === false) lost++;
    if (act === 'revoke' && tokens !== undefined && tokens.get(key) !== true) back++;
  }
  const isKnown = (/** @type {number} */ id) => expected.has(String(id)) || excepted.has(String(id));
  const wrong = [...(names ?? [])].filter(([id, name]) => name !== nameOf(id) || !isKnown(id)).length;
  return lost + back + wrong === 0 ? [] : [`${lost} lost, ${back} back, ${wrong} wrong`];
}
