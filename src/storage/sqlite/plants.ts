// The plants of the SQLite engine. Pages requested in the same turn of the event loop are read together.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { PlantPage } from '../../domain/plants.js';
import { toStorageError, type StorageError } from '../../domain/storage.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';

/** The maximum number of rows in a page, which limits how long reading it blocks the event loop. */
const pageRows = 500;
/** The maximum size of a page in bytes, including commas. A single plant may exceed it. */
const pageBytes = 256 * 1024;
/** The part of `pageBytes` that long plants may use together. Short plants may use the rest. */
const longPlantsBytes = pageBytes / 2;
/** A plant with more bytes is long. The index long_plants has the same condition. */
const longBytes = 512;
/** The maximum number of pages to read without a break, which blocks the event loop. */
const maxPagesTogether = 64;
/** The length of text, in characters, after which no further page is read: all of it is in memory together. */
const maxTextTogether = 1024 * 1024;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

/** A page that a caller waits for. */
interface PageRequest {
  readonly subject: string;
  readonly from: bigint;
  readonly rows: number;
  readonly resolve: (page: PlantPage) => void;
  readonly reject: (error: StorageError) => void;
}

/** The plants in a database. */
export class SqlitePlants extends GroupWrittenPlants {
  // Keeps the database open as long as its statements, which do not reference it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #page: StatementSyncInstance;
  readonly #pageWithoutLong: StatementSyncInstance;
  readonly #long: StatementSyncInstance;
  readonly #requests: PageRequest[] = [];

  constructor(database: DatabaseSyncInstance, writer: PlantGroupWriter) {
    super(writer);
    this.#database = database;
    const longPlants = `FROM plants INDEXED BY long_plants
      WHERE subject = ?1 AND id >= ?2 AND octet_length(plant) > ${longBytes}`;
    // Looks up the last id first, so that the page is one range of the primary key and group_concat follows its order.
    // This is faster than a subquery with a LIMIT, which passes on its rows one by one.
    const page = (condition: string) =>
      database.prepare(`
        SELECT group_concat(plant, ','), count(*), CAST(last AS TEXT)
        FROM (
          SELECT (
            SELECT id FROM plants WHERE subject = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT 1 OFFSET ?4 - 1
          ) AS last
          WHERE ${condition}
        ) CROSS JOIN plants
        WHERE subject = ?1 AND id BETWEEN ?2 AND ifnull(last, ?3)`);
    this.#page = page('true');
    this.#pageWithoutLong = page(`NOT EXISTS (SELECT 1 ${longPlants})`);
    this.#long = database.prepare(
      `SELECT CAST(id AS TEXT), octet_length(plant) ${longPlants} ORDER BY id LIMIT ${pageRows}`,
    );
    for (const statement of [this.#page, this.#pageWithoutLong, this.#long]) statement.setReturnArrays(true);
  }

  list(subject: string, { after, limit }: { after?: bigint | undefined; limit: number }): Promise<PlantPage> {
    if (after === maxId) return Promise.resolve({ json: '', count: 0, next: undefined });
    const from = after === undefined ? minId : after + 1n;
    return new Promise((resolve, reject) => {
      this.#requests.push({ subject, from, rows: Math.min(limit, pageRows), resolve, reject });
      if (this.#requests.length === 1) setImmediate(this.#readRequested);
    });
  }

  /** Reads all requested pages immediately. */
  readAll(): void {
    while (this.#requests.length > 0) this.#readRequested();
  }

  /** Reads the requested pages in one transaction, which saves locking for each page and keeps the CPU caches warm. */
  readonly #readRequested = (): void => {
    let pages = 0;
    let text = 0;
    // If the store is closed, each read fails on its own.
    if (this.#database.isOpen) this.#database.exec('BEGIN');
    for (const { subject, from, rows, resolve, reject } of this.#requests) {
      if (pages === maxPagesTogether || text >= maxTextTogether) break;
      pages++;
      try {
        const page = this.#readPage(subject, from, rows);
        text += page.json.length;
        resolve(page);
      } catch (error) {
        reject(toStorageError('SQLite', error));
      }
    }
    // SQLite has already rolled back after an I/O error.
    if (this.#database.isOpen && this.#database.isTransaction) this.#database.exec('COMMIT');
    this.#requests.splice(0, pages);
    if (this.#requests.length > 0) setImmediate(this.#readRequested);
  };

  #readPage(subject: string, from: bigint, rows: number): PlantPage {
    const page = readRange(this.#pageWithoutLong, subject, from, maxId, rows);
    // This page is empty if there are no plants or if any of them is long.
    return page.count > 0 ? page : this.#readPageWithLong(subject, from, rows);
  }

  #readPageWithLong(subject: string, from: bigint, rows: number): PlantPage {
    let total = 0;
    let excess: bigint | undefined;
    // Row by row, up to the first plant that does not fit: SQLite reads the whole row even for its length.
    for (const row of this.#long.iterate(subject, from)) {
      const [id, bytes] = row as [string, number];
      if (total + bytes > longPlantsBytes) {
        excess = BigInt(id);
        break;
      }
      total += bytes;
    }
    const fitting = Math.min(rows, Math.floor((pageBytes - total) / (longBytes + 1)));
    if (excess === undefined) return readRange(this.#page, subject, from, maxId, fitting);
    if (excess > from) {
      const before = readRange(this.#page, subject, from, excess - 1n, fitting);
      if (before.count > 0) return before;
    }
    return readRange(this.#page, subject, excess, excess, 1);
  }
}

/** Reads the first plants in a range of ids, which includes both ends. */
function readRange(
  page: StatementSyncInstance,
  subject: string,
  from: bigint,
  to: bigint,
  rows: number,
): PlantPage {
  const [json, count, last] = page.get(subject, from, to, rows) as [string | null, number, string | null];
  // The last id of a full page, or the end of the range.
  const next = last !== null ? BigInt(last) : to < maxId ? to : undefined;
  return { json: json ?? '', count, next };
}
