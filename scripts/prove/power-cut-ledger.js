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
import { idOf, readOutcome, stateOf, statesIn } from './workers-model.js';

/** @typedef {import('./workers-model.js').Collection} Collection */
/** @typedef {import('./workers-model.js').Operation} Operation */
/** @typedef {import('../lib/linearizability.js').Request<Operation>} Request */

/**
 * What is requested. `document` is a request to the service, `log` the deletion of the log by an operator, `migrate` the
 * command that runs before the start, and `serve` that start.
 * @typedef {'document' | 'issue' | 'revoke' | 'backup' | 'log' | 'migrate' | 'serve'} Act
 */
/** A request whose outcome nobody knows is `unknown`, one that had no effect `none`. @typedef {'begun' | 'done' | 'unknown' | 'none'} State */
/** The last request that concerns a token. @typedef {{ act: string, done: boolean }} Last */
/**
 * A backup: what was known when it began, and what was requested since, until it was done.
 * @typedef {object} Backup
 * @property {boolean} done
 * @property {Map<string, Last>} before
 * @property {Map<string, string | null | undefined>} documents
 * @property {Set<string>} touched
 */
/** The states of documents, by collection. @typedef {Map<Collection, Map<string | number, string>>} States */
/**
 * What a store holds: the states of its documents, and whether tokens are revoked. What is not known is undefined.
 * @typedef {{ states?: States, tokens?: Map<string, boolean> }} Found
 */

/** @param {string} path */
const built = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const inUse = { books: 40, loans: 40 };
/** The services that the power cuts hit, and how many of their documents are in use at a time. */
export const services = {
  plants: {
    definition: plantStore,
    main: built('dist/main.js'),
    command: built('dist/cli.js'),
    inUse: { plants: 1_200 },
  },
  library: {
    definition: library,
    main: built('examples/library/dist/main.js'),
    command: built('examples/library/dist/cli.js'),
    inUse,
  },
  transactions: {
    definition: library,
    main: copyingLibrary,
    command: built('examples/library/dist/cli.js'),
    inUse,
  },
};
/** @typedef {keyof typeof services} ServiceName */

/** The only subject. */
export const subject = 'alice';
/** Where the store is below the simulated disk. */
export const storePath = 'srv/data/store.db';
/** Where the backups are below the simulated disk. */
export const backupFolder = 'backups';

/**
 * Writes a line for the ledger.
 * @param {Act} act
 * @param {string | number} key - The id of a token, the name of a backup, or the path of a document.
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
  /** By id. @type {Map<string, Last>} */
  #tokens = new Map();
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
  /** @param {ServiceName} service */
  constructor(service) {
    this.service = service;
    /** What is known of the documents. */
    this.known = new Subject(subject, '', services[service].inUse);
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
        else this.#tokens.set(key, { act, done });
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
        this.known.all.map(({ collection, id, register }) => [`${collection}/${id}`, register.state]),
      );
      this.#backups.set(name, { done, before: new Map(this.#tokens), documents, touched: new Set() });
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
    if (register.fault !== undefined) throw new Error(`${key}: ${register.fault}`);
  }

  /** @param {string} key @returns {Document} */
  #document(key) {
    const [name, text = ''] = key.split('/');
    const collection = /** @type {Collection} */ (name);
    const id = collection === 'books' ? text : Number(text);
    const known = this.known.documents[collection].get(id);
    if (known !== undefined) return known;
    const added = new Document(collection, id);
    this.known.documents[collection].set(id, added);
    this.known.inUse[collection].push(added);
    return added;
  }

  /** The number of requests so far. */
  get requests() {
    return this.#requests.size;
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
  #compare({ states, tokens }) {
    const isPossible = (/** @type {Document} */ { register, collection, id }) =>
      register.permits({ act: 'read' }, readOutcome(states?.get(collection)?.get(id)));
    return [
      ...compareTokens(this.#tokens, new Set(), tokens),
      ...this.#compareDocuments((document) => isPossible(document), states),
    ];
  }

  /** Compares a backup. @param {Found} found @param {Backup} backup @returns {string[]} The differences. */
  #compareBackup({ states, tokens }, { before, documents, touched }) {
    const isRight = (/** @type {Document} */ { collection, id }) => {
      const state = documents.get(`${collection}/${id}`);
      const isKnown = state !== undefined && !touched.has(`${collection}/${id}`);
      return !isKnown || state === (states?.get(collection)?.get(id) ?? null);
    };
    return [...compareTokens(before, touched, tokens), ...this.#compareDocuments(isRight, states)];
  }

  /** @param {(document: Document) => boolean} isRight @param {States} [states] */
  #compareDocuments(isRight, states) {
    if (states === undefined) return [];
    const wrong = this.known.all.filter((document) => !isRight(document)).length;
    const unknown = [...states].flatMap(([collection, found]) =>
      [...found.keys()].filter((id) => !this.known.documents[collection].has(id)),
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
    const { collections } = this.known;
    if (!existsSync(file))
      return { states: new Map(collections.map((name) => [name, new Map()])), tokens: new Map() };
    const database = new DatabaseSync(file);
    try {
      database.exec('PRAGMA synchronous = OFF');
      const verdict = database.prepare('PRAGMA integrity_check').all();
      if (verdict.length !== 1 || Object.values(verdict[0] ?? {})[0] !== 'ok')
        throw new Error(JSON.stringify(verdict));
      const rows = database.prepare('SELECT id, revoked_at IS NOT NULL AS revoked FROM tokens').all();
      const tokens = new Map(rows.map((row) => [String(row['id']), row['revoked'] === 1]));
      return {
        states: new Map(collections.map((name) => [name, statesIn(database, subject, name)])),
        tokens,
      };
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
    /** @type {States} */
    const states = new Map();
    for (const name of this.known.collections) {
      const { status, text } = await send(origin, { path: `/${name}`, token });
      if (status !== 200) throw new Error(`GET /${name}: ${status} ${text}`);
      const list = /** @type {Record<string, unknown>[]} */ (JSON.parse(text));
      states.set(name, new Map(list.map((value) => [idOf(name, value), stateOf(name, value)])));
    }
    return { states };
  }
}

/**
 * @param {Map<string, Last>} expected
 * @param {Set<string>} excepted - The ids that may be in any state.
 * @param {Map<string, boolean>} [tokens] - Whether each is revoked.
 * @returns {string[]} The differences.
 */
function compareTokens(expected, excepted, tokens) {
  if (tokens === undefined) return [];
  const wrong = [...expected].filter(
    ([id, { act, done }]) =>
      done && !excepted.has(id) && (act === 'issue' ? !tokens.has(id) : tokens.get(id) !== true),
  ).length;
  return wrong === 0 ? [] : [`${wrong} tokens lost, or no longer revoked`];
}
