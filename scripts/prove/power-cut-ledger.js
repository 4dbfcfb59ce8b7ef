// Records which requests were sent and acknowledged, and checks the files that a power failure left against them.
import { DatabaseSync } from '@photostructure/sqlite';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { service as libraryService } from '../../examples/library/dist/service.js';
import { service as plantStore } from '../../dist/service.js';
import { openStorage } from '../../packages/server/dist/storage/open.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { Register } from '../lib/linearizability.js';
import { send } from '../lib/request.js';
import { Document } from './documents.js';
import { idOf, readOutcome, stateOf, statesIn } from './model.js';

/** @typedef {import('./model.js').Collection} Collection */
/** @typedef {import('./model.js').Operation} Operation */
/** @typedef {import('../lib/linearizability.js').Request<Operation>} Request */

/** @typedef {string | null | undefined} Outcome */
/**
 * A line of the journal. A request concerns a document, or a token, which commands create and change (revoke). It ends
 * without an outcome if nobody knows that, and with null if it certainly had no effect. `serve` is a start.
 * @typedef {{ act: 'begin', key: string, number: number, operation: Operation }
 *   | { act: 'end', key: string, number: number, outcome?: Outcome }
 *   | { act: 'secret', secret: string }
 *   | { act: 'backup' | 'serve', done: boolean }
 *   | { act: 'restore', done: boolean, damaged: boolean }} Entry
 */
/**
 * The backup: which states were certain when it began, and what was requested since, until it was done.
 * @typedef {{ done: boolean, before: Map<string, string | null | undefined>, touched: Set<string> }} Backup
 */
/** What a store holds: the states of documents and tokens. @typedef {Map<string, string>} States */
/** @typedef {(key: string, state: string | undefined) => boolean} IsRight */

/** @param {string} path */
const built = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
/** @type {{ books: number, loans: number }} */
const libraryCounts = { books: 40, loans: 40 };
const library = {
  definition: libraryService,
  main: built('examples/library/dist/main.js'),
  command: built('examples/library/dist/cli.js'),
  counts: libraryCounts,
};
/** The services that the power cuts hit, and how many documents their clients use. */
export const services = {
  plants: {
    definition: plantStore,
    main: built('dist/main.js'),
    command: built('dist/cli.js'),
    counts: { plants: 1_200 },
  },
  library,
  transactions: { ...library, main: copyingLibrary },
};
/** @typedef {keyof typeof services} ServiceName */

/** The only subject. */
export const subject = 'alice';
/** Where the store is below the simulated disk. */
export const storePath = 'srv/data/store.db';
/** Where the backup is below the simulated disk. */
export const backupPath = 'backups/copy.db';

/** What takes the place of the first page of a database that is damaged. */
export const damage = Buffer.alloc(4_096, 0x55);
/** @param {string} file */
const isDamaged = (file) => readFileSync(file).subarray(0, damage.length).equals(damage);

/** The name of a document or a token in the journal. @param {string} collection @param {string | number} id */
export const keyOf = (collection, id) => `${collection}/${id}`;
/** @param {string} key */
const isToken = (key) => key.startsWith('tokens/');
/** The outcome of commands, which do not report the state of a token. */
export const success = 'success';

/** Reads lines of the journal. @param {string} lines @returns {Entry[]} */
export const readEntries = (lines) =>
  lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** Whether an entry acknowledges something. @param {Entry} entry */
export const isDone = (entry) =>
  entry.act === 'end' ? typeof entry.outcome === 'string' : 'done' in entry && entry.done;

/** The effect of commands on a token. @type {import('../lib/linearizability.js').Apply<Operation>} */
const applyToToken = (state, { act }) =>
  act === 'read'
    ? { outcome: readOutcome(state ?? undefined), state }
    : { outcome: success, state: act === 'create' ? 'valid' : 'revoked' };

/** Whether a damaged database was moved aside. @param {string} store */
function isKept(store) {
  const names = readdirSync(dirname(store)).filter((name) => name.startsWith('store.db-damaged-'));
  return names.some((name) => isDamaged(join(dirname(store), name)));
}

/** The requests so far. */
export class Ledger {
  /** Documents and tokens, as far as they are known. @type {Map<string, Register<Operation>>} */
  #registers;
  /** By number. @type {Map<number, Request>} */
  #requests = new Map();
  /** @type {Backup | undefined} */
  #backup;
  /** The restore of the backup. @type {{ done: boolean, damaged: boolean } | undefined} */
  #restore;
  #collections;
  /** The secret of the first token. @type {string | undefined} */
  secret;

  /** @param {ServiceName} service */
  constructor(service) {
    this.service = service;
    const { counts } = services[service];
    this.#collections = /** @type {Collection[]} */ (Object.keys(counts));
    this.documents = Object.entries(counts).flatMap(([name, count]) =>
      Array.from({ length: count }, (_, i) => {
        const collection = /** @type {Collection} */ (name);
        // Both signs, since the order of numbers is not that of texts.
        const id = collection === 'books' ? String(9_780_000_000_000 + i) : i - count / 2;
        return new Document(collection, id);
      }),
    );
    this.#registers = new Map(
      this.documents.map(({ collection, id, register }) => [keyOf(collection, id), register]),
    );
  }

  /** The number of requests so far. */
  get requests() {
    return this.#requests.size;
  }

  /** @param {Entry} entry @throws {Error} when the responses contradict each other. */
  add(entry) {
    if ('key' in entry) this.#addRequest(entry);
    else if ('secret' in entry) this.secret ??= entry.secret;
    else if (entry.act === 'restore') this.#restore = entry;
    else if (entry.act === 'backup') {
      const before = new Map([...this.#registers].map(([key, { state }]) => [key, state]));
      this.#backup = { before, touched: new Set(), ...this.#backup, done: entry.done };
    }
  }

  /** @param {Extract<Entry, { key: string }>} entry */
  #addRequest(entry) {
    const { act, key, number } = entry;
    const register = this.#registers.get(key) ?? new Register(applyToToken, null);
    this.#registers.set(key, register);
    const request = this.#requests.get(number);
    if (act === 'begin') this.#requests.set(number, register.begin(entry.operation));
    else if (request === undefined) throw new Error(`request ${number} ends, but has not begun`);
    else if (entry.outcome === null) register.withdraw(request);
    else register.end(request, entry.outcome);
    if (register.fault !== undefined) throw new Error(`${key}: ${register.fault}`);
    if (this.#backup?.done === false) this.#backup.touched.add(key);
  }

  /**
   * Checks the store and the backup on a disk. Opens the store as a start does.
   * @param {string} disk - The folder that holds the disk's files.
   * @returns {Promise<string | undefined>} The fault, if any.
   */
  async check(disk) {
    const [store, copy] = [join(disk, storePath), join(disk, backupPath)];
    /** @type {IsRight} */
    const isPossible = (key, state) =>
      this.#registers.get(key)?.permits({ act: 'read' }, readOutcome(state)) ?? false;
    /** @type {IsRight} */
    const wasThere = (key, state) => {
      const expected = this.#backup?.before.get(key);
      return expected === undefined || this.#backup?.touched.has(key) || expected === (state ?? null);
    };
    // No token is valid that was revoked; all are revoked if the damaged store does not say which.
    /** @type {IsRight} */
    const isRestored = (key, state) =>
      isToken(key) ? state !== 'valid' || isPossible(key, state) : wasThere(key, state);
    const { done = false, damaged = false } = this.#restore ?? {};
    try {
      // Nothing has changed yet.
      const isMarked = existsSync(`${store}-restore`);
      if (damaged && !done && !isMarked && isDamaged(store)) return undefined;
      if (isMarked || existsSync(store))
        await (await openStorage(services[this.service].definition, `file:${store}`)).close();
      if (damaged && !isKept(store)) return 'the damaged store is not kept';
      const found = this.#read(store);
      const restored = this.#restore && this.#compare(found, isRestored);
      const isOld = this.#restore === undefined || (!done && !damaged && restored !== undefined);
      const fault = isOld ? this.#compare(found, isPossible) : restored;
      // A backup may be missing before it was acknowledged. But once it has its name, it must be complete.
      const hasBackup = this.#backup !== undefined && (this.#backup.done || existsSync(copy));
      const inBackup = hasBackup ? this.#compare(this.#read(copy), wasThere) : undefined;
      return fault ?? (inBackup && `backup: ${inBackup}`);
    } catch (error) {
      return String(error).slice(0, 200);
    }
  }

  /**
   * Compares a store or a backup with what it must contain.
   * @param {States} found
   * @param {IsRight} isRight
   * @returns {string | undefined} The difference.
   */
  #compare(found, isRight) {
    const wrong = [...this.#registers.keys()].filter((key) => !isRight(key, found.get(key)));
    // The server creates a token at its first start.
    const unknown = [...found.keys()].filter((key) => !isToken(key) && !this.#registers.has(key));
    const count = wrong.length + unknown.length;
    return count === 0 ? undefined : `${count} lost, changed or unknown, such as ${wrong[0] ?? unknown[0]}`;
  }

  /** @param {string} file @returns {States} Without states if it does not exist. @throws {Error} when it is corrupt. */
  #read(file) {
    /** @type {States} */
    const found = new Map();
    if (!existsSync(file)) return found;
    const database = new DatabaseSync(file);
    try {
      database.exec('PRAGMA synchronous = OFF');
      const verdict = database.prepare('PRAGMA integrity_check').all();
      if (verdict.length !== 1 || Object.values(verdict[0] ?? {})[0] !== 'ok')
        throw new Error(JSON.stringify(verdict));
      for (const { id, revoked_at } of database.prepare('SELECT id, revoked_at FROM tokens').all())
        found.set(`tokens/${id}`, revoked_at === null ? 'valid' : 'revoked');
      for (const collection of this.#collections)
        for (const [id, state] of statesIn(database, subject, collection))
          found.set(keyOf(collection, id), state);
      return found;
    } finally {
      database.close();
    }
  }

  /**
   * Returns the documents that a server lists. @param {string} origin @param {string} token @returns {Promise<States>}
   */
  async lists(origin, token) {
    /** @type {States} */
    const found = new Map();
    for (const collection of this.#collections) {
      const { status, text } = await send(origin, { path: `/${collection}`, token });
      if (status !== 200) throw new Error(`GET /${collection}: ${status} ${text}`);
      for (const value of JSON.parse(text))
        found.set(keyOf(collection, idOf(collection, value)), stateOf(collection, value));
    }
    return found;
  }
}
