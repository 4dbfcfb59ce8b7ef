// Records which requests were sent and acknowledged, and checks the files that a power failure left against them.
import { DatabaseSync } from '@photostructure/sqlite';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { service as libraryService } from '../../examples/library/dist/service.js';
import { service as plantStore } from '../../dist/service.js';
import { openStorage } from '../../packages/server/dist/storage/open.js';
import { copyingLibrary } from '../lib/copying-library.js';
import { Subject } from './documents.js';
import { readOutcome, statesIn } from './model.js';

/** @typedef {import('./model.js').Collection} Collection */
/** @typedef {import('./documents.js').Document} Document */
/** @typedef {import('./documents.js').Request} Request */
/**
 * A line of the journal: a request that concerns a document, or what a command has done. A token that is being revoked may
 * be valid or not. `serve` is a start.
 * @typedef {import('./documents.js').Note
 *   | { act: 'token', key: string, state: 'valid' | 'revoking' | 'revoked', done: boolean }
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

/**
 * @param {import('contract-server').Service} definition
 * @param {string} folder
 * @param {Partial<Record<Collection, number>>} counts - How many documents its clients use.
 */
const built = (definition, folder, counts) => {
  const dist = fileURLToPath(new URL(`../../${folder}dist/`, import.meta.url));
  return { definition, counts, main: join(dist, 'main.js'), command: join(dist, 'cli.js') };
};
const library = built(libraryService, 'examples/library/', { books: 40, loans: 40 });
/** The services that the power cuts hit. */
export const services = {
  plants: built(plantStore, '', { plants: 1_200 }),
  library,
  transactions: { ...library, main: copyingLibrary },
};
/** @typedef {keyof typeof services} ServiceName */

/** Where the store is below the simulated disk. */
export const storePath = 'srv/data/store.db';
/** Where the backup is below the simulated disk. */
export const backupPath = 'backups/copy.db';

/** What takes the place of the first page of a database that is damaged. */
export const damage = Buffer.alloc(4_096, 0x55);
/** @param {string} file */
const isDamaged = (file) => readFileSync(file).subarray(0, damage.length).equals(damage);

/** @param {string} key */
const isToken = (key) => key.startsWith('tokens/');

/** Reads a line of the journal. @param {string} line @returns {Entry} */
export const readEntry = (line) => JSON.parse(line);

/** Whether an entry acknowledges something. @param {Entry} entry */
export const isDone = (entry) =>
  entry.act === 'end' ? typeof entry.outcome === 'string' : 'done' in entry && entry.done;

/** Whether a damaged database was moved aside. @param {string} store */
function isKept(store) {
  const names = readdirSync(dirname(store)).filter((name) => name.startsWith('store.db-damaged-'));
  return names.some((name) => isDamaged(join(dirname(store), name)));
}

/** What was requested and acknowledged so far. */
export class Ledger {
  /** The only subject. */
  subject;
  /** The documents that were ever used, and the states of tokens. @type {Map<string, Document>} */
  #documents = new Map();
  /** @type {Map<string, string>} */
  #tokens = new Map();
  /** By document and number. @type {Map<string, Request>} */
  #requests = new Map();
  /** @type {Backup | undefined} */
  #backup;
  /** The restore of the backup. @type {{ done: boolean, damaged: boolean } | undefined} */
  #restore;
  /** The secret of the first token. @type {string | undefined} */
  secret;

  /** @param {ServiceName} service */
  constructor(service) {
    this.service = service;
    this.subject = new Subject('alice', '', services[service].counts);
  }

  /** @param {Entry} entry @throws {Error} when the responses contradict each other. */
  add(entry) {
    if ('key' in entry && this.#backup?.done === false) this.#backup.touched.add(entry.key);
    if (entry.act === 'secret') this.secret ??= entry.secret;
    else if (entry.act === 'token') this.#tokens.set(entry.key, entry.state);
    else if (entry.act === 'restore') this.#restore = entry;
    else if (entry.act === 'backup')
      this.#backup = { ...(this.#backup ?? this.#snapshot()), done: entry.done };
    else if ('key' in entry) this.#addRequest(entry);
  }

  /** The states that are certain now. @returns {Backup} */
  #snapshot() {
    /** @type {Backup['before']} */
    const before = new Map(this.#tokens);
    for (const [key, state] of this.#tokens) if (state === 'revoking') before.set(key, undefined);
    for (const [key, { register }] of this.#documents) before.set(key, register.state);
    return { done: false, before, touched: new Set() };
  }

  /** @param {import('./documents.js').Note} note */
  #addRequest(note) {
    const document = this.#documentOf(note.key);
    if (note.act === 'begin') {
      const request = document.begin(note.operation);
      this.#requests.set(`${note.key} ${request.number}`, request);
      return;
    }
    const request = this.#requests.get(`${note.key} ${note.number}`);
    if (request === undefined) throw new Error(`a request for ${note.key} ends, but has not begun`);
    const [fault] = document.end(request, note.outcome);
    if (fault !== undefined) throw new Error(fault);
  }

  /** @param {string} key */
  #documentOf(key) {
    const [collection, id = ''] = /** @type {[Collection, string]} */ (key.split('/'));
    const document = this.subject.document(collection, collection === 'books' ? id : Number(id));
    this.#documents.set(key, document);
    return document;
  }

  /**
   * Checks the store and the backup on a disk. Opens the store as a start does.
   * @param {string} disk - The folder that holds the disk's files.
   * @returns {Promise<string | undefined>} The fault, if any.
   */
  async check(disk) {
    const [store, copy] = [join(disk, storePath), join(disk, backupPath)];
    /** @type {IsRight} */
    const isPossible = (key, state) => {
      const token = this.#tokens.get(key);
      if (token !== undefined) return token === 'revoking' ? state !== undefined : state === token;
      return this.#documents.get(key)?.register.permits({ act: 'read' }, readOutcome(state)) ?? false;
    };
    /** @type {IsRight} */
    const wasThere = (key, state) => {
      const { before = new Map(), touched } = this.#backup ?? {};
      const expected = before.has(key) ? before.get(key) : null;
      return touched?.has(key) || expected === undefined || expected === (state ?? null);
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
    const known = [...this.#documents.keys(), ...this.#tokens.keys()];
    const wrong = known.filter((key) => !isRight(key, found.get(key)));
    // The server creates a token at its first start.
    const unknown = [...found.keys()].filter((key) => !isToken(key) && !this.#documents.has(key));
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
      const { name, collections } = this.subject;
      for (const collection of collections)
        for (const [id, state] of statesIn(database, name, collection))
          found.set(`${collection}/${id}`, state);
      return found;
    } finally {
      database.close();
    }
  }
}
