// Reads pages from SQLite. Those requested in the same iteration of the event loop are read together.
import { setImmediate as nextIteration } from 'node:timers/promises';
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import {
  type CollectionDefinition,
  type Id,
  type Page,
  type StorageError,
  toStorageError,
} from '../interface.js';
import type { ReadPage } from '../collections.js';
import { idRules, type IdRules } from '../ids.js';
import { pageBytes, pageRows } from '../page-size.js';
import { afterAccepting } from '../../node/accepting.js';
import { SubjectQueue } from '../../subject-queue.js';

/** The part of `pageBytes` that long documents may use together. Short ones may use the rest. */
const longDocumentsBytes = pageBytes / 2;
/** A document with more bytes is long; `pageRows` others fit into a page. An index has the same condition. */
export const longBytes = 512;
/** The maximum number of pages to read without a break, which blocks the event loop. */
const maxPagesTogether = 64;
/** The length of text, in characters, after which no further page is read: all of it is in memory together. */
const maxTextTogether = 1024 * 1024;
/** The length of text, in characters, from which new connections come first after it has been read. */
const delayingText = maxTextTogether / 2;

/** The name of the index of a collection's long documents. */
export function longIndexOf({ name }: CollectionDefinition): string {
  return `long_${name}`;
}

/** A page that a caller waits for. */
interface PageRequest {
  readonly statements: PageStatements;
  readonly subject: string;
  readonly from: Id;
  readonly rows: number;
  readonly resolve: (page: Page<Id>) => void;
  readonly reject: (error: StorageError) => void;
}

/** Reads the pages of all collections. */
export class PageReader {
  // Keeps the database open as long as its statements, which do not reference it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #requests = new SubjectQueue<PageRequest>();
  /** Whether a call of `#readRequested` is due. */
  #isDue = false;

  constructor(database: DatabaseSyncInstance) {
    this.#database = database;
  }

  /** Returns what reads a page of a collection, at the end of an iteration of the event loop. */
  of(definition: CollectionDefinition): ReadPage {
    const statements = new PageStatements(this.#database, definition);
    return (subject, from, limit) =>
      new Promise((resolve, reject) => {
        const rows = Math.min(limit, pageRows);
        this.#requests.add({ statements, subject, from, rows, resolve, reject });
        this.#readSoon(setImmediate);
      });
  }

  /** Resolves when all requested pages have been read. */
  async drain(): Promise<void> {
    while (this.#requests.size > 0) await nextIteration();
  }

  /** @param defer - Calls a function later. */
  #readSoon(defer: (action: () => void) => void): void {
    if (this.#isDue) return;
    this.#isDue = true;
    defer(() => {
      this.#isDue = false;
      this.#readRequested();
    });
  }

  /** Reads the requested pages in one transaction, which saves locking for each page and keeps the CPU caches warm. */
  #readRequested(): void {
    if (this.#requests.size === 0) return;
    let text = 0;
    // If the store is closed, each read fails on its own.
    if (this.#database.isOpen) this.#database.exec('BEGIN');
    for (let pages = 0; pages < maxPagesTogether && text < maxTextTogether; pages++) {
      const request = this.#requests.take();
      if (request === undefined) break;
      try {
        const page = request.statements.read(request.subject, request.from, request.rows);
        text += page.json.length;
        request.resolve(page);
      } catch (error) {
        request.reject(toStorageError('SQLite', error));
      }
    }
    // SQLite has already rolled back after an I/O error.
    if (this.#database.isOpen && this.#database.isTransaction) this.#database.exec('COMMIT');
    if (text >= delayingText) this.#readSoon(afterAccepting);
    else if (this.#requests.size > 0) this.#readSoon(setImmediate);
  }
}

/** The statements that read the pages of one collection. */
class PageStatements {
  readonly #page: StatementSyncInstance;
  readonly #pageWithoutLong: StatementSyncInstance;
  readonly #long: StatementSyncInstance;
  readonly #lastBefore: StatementSyncInstance;
  readonly #ids: IdRules;

  constructor(database: DatabaseSyncInstance, definition: CollectionDefinition) {
    const { name, column } = definition;
    this.#ids = idRules[definition.id];
    const longDocuments = `FROM ${name} INDEXED BY ${longIndexOf(definition)}
      WHERE subject = ?1 AND id >= ?2 AND octet_length(${column}) > ${longBytes}`;
    // Looks up the last id first, so that the page is one range of the primary key and group_concat follows its order.
    // This is faster than a subquery with a LIMIT, which passes on its rows one by one.
    const page = (condition: string) =>
      database.prepare(`
        SELECT group_concat(${column}, ','), count(*), CAST(last AS TEXT)
        FROM (
          SELECT (
            SELECT id FROM ${name} WHERE subject = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT 1 OFFSET ?4 - 1
          ) AS last
          WHERE ${condition}
        ) CROSS JOIN ${name}
        WHERE subject = ?1 AND id BETWEEN ?2 AND ifnull(last, ?3)`);
    this.#page = page('true');
    this.#pageWithoutLong = page(`NOT EXISTS (SELECT 1 ${longDocuments})`);
    this.#long = database.prepare(
      `SELECT CAST(id AS TEXT), octet_length(${column}) ${longDocuments} ORDER BY id LIMIT ?3`,
    );
    this.#lastBefore = database.prepare(
      `SELECT CAST(id AS TEXT) FROM ${name} WHERE subject = ? AND id >= ? AND id < ? ORDER BY id DESC LIMIT 1`,
    );
    const statements = [this.#page, this.#pageWithoutLong, this.#long, this.#lastBefore];
    for (const statement of statements) statement.setReturnArrays(true);
  }

  read(subject: string, from: Id, rows: number): Page<Id> {
    const page = this.#readRange(this.#pageWithoutLong, subject, from, this.#ids.last, rows);
    // This page is empty if there are no documents or if any of them is long.
    return page.count > 0 ? page : this.#readWithLong(subject, from, rows);
  }

  #readWithLong(subject: string, from: Id, rows: number): Page<Id> {
    let total = 0;
    let excess: Id | undefined;
    // Row by row, up to the first document that does not fit: SQLite reads the whole row even for its length.
    for (const row of this.#long.iterate(subject, from, rows)) {
      const [id, bytes] = row as [string, number];
      if (total + bytes > longDocumentsBytes) {
        excess = this.#ids.parse(id);
        break;
      }
      total += bytes;
    }
    const fitting = Math.min(rows, Math.floor((pageBytes - total) / (longBytes + 1)));
    if (excess === undefined) return this.#readRange(this.#page, subject, from, this.#ids.last, fitting);
    const before = this.#lastBefore.get(subject, from, excess) as [string] | undefined;
    return before === undefined
      ? this.#readRange(this.#page, subject, excess, excess, 1)
      : this.#readRange(this.#page, subject, from, this.#ids.parse(before[0]), fitting);
  }

  /** Reads the first documents in a range of ids, which includes both ends. */
  #readRange(page: StatementSyncInstance, subject: string, from: Id, to: Id, rows: number): Page<Id> {
    const [json, count, last] = page.get(subject, from, to, rows) as [string | null, number, string | null];
    // The last id of a full page, or the end of the range.
    const next = last !== null ? this.#ids.parse(last) : to === this.#ids.last ? undefined : to;
    return { json: json ?? '', count, next };
  }
}
