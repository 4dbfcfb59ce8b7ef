// The plants of the embedded engine: pages are read on the main thread, writes go to the writer.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { Plant, PlantPage, PlantRepository } from '../../domain/plants.js';
import type { StorageError } from '../../domain/storage.js';
import { guard } from './database.js';
import type { SqliteWriter } from './writer.js';

/** The most rows in a page of a list, which bounds how long reading it holds up the event loop. */
const pageRows = 500;
/** The most bytes that the long plants of a page have together (a single one may have more); the others have no more either. */
const pageBytes = 256 * 1024;
/** A plant of more bytes is long: the condition of the index long_plants. */
const longBytes = 512;
/** The most pages that are read at a time: whoever comes meanwhile waits for all of them. */
const mostRead = 64;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

export class SqlitePlants implements PlantRepository {
  // Kept here also so that it lives as long as its statements: they do not hold it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #writer: SqliteWriter;
  readonly #page: StatementSyncInstance;
  readonly #pageWithoutLong: StatementSyncInstance;
  readonly #long: StatementSyncInstance;
  readonly #asked: PageRequest[] = [];

  constructor(database: DatabaseSyncInstance, writer: SqliteWriter) {
    this.#database = database;
    this.#writer = writer;
    const longPlants = `FROM plants INDEXED BY long_plants
      WHERE subject = ?1 AND id >= ?2 AND octet_length(plant) > ${longBytes}`;
    // The page's last id is looked up first, so that the page is one range of the key, whose order group_concat then follows:
    // a subquery with a LIMIT would take its rows one by one, for 70 µs instead of 40 for a hundred.
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

  create(subject: string, id: bigint, { name, tag }: Plant): ReturnType<PlantRepository['create']> {
    const plant = tag === undefined ? JSON.stringify({ name }) : JSON.stringify({ name, tag });
    return this.#writer.write(subject, id, plant) as ReturnType<PlantRepository['create']>;
  }

  async delete(subject: string, id: bigint): Promise<boolean> {
    return (await this.#writer.write(subject, id)) === 'deleted';
  }

  /** The pages that are asked for in one turn of the event loop are read together, at its end. */
  list(subject: string, { after, limit }: { after?: bigint | undefined; limit: number }): Promise<PlantPage> {
    if (after === maxId) return Promise.resolve({ json: '', count: 0, next: undefined });
    const from = after === undefined ? minId : after + 1n;
    return new Promise((resolve, reject) => {
      this.#asked.push({ subject, from, rows: Math.min(limit, pageRows), resolve, reject });
      if (this.#asked.length === 1) setImmediate(this.#readAsked);
    });
  }

  /** Reads what is asked for now. */
  readAll(): void {
    while (this.#asked.length > 0) this.#readAsked();
  }

  /** In one transaction, which spares each page its locks; and a page behind another finds the processor's caches warm (DESIGN.md). */
  readonly #readAsked = (): void => {
    const asked = this.#asked.splice(0, mostRead);
    if (this.#asked.length > 0) setImmediate(this.#readAsked);
    // In a store that is closed, each page fails for itself.
    if (this.#database.isOpen) this.#database.exec('BEGIN');
    for (const { subject, from, rows, resolve, reject } of asked) {
      try {
        resolve(guard(() => this.#readPage(subject, from, rows)));
      } catch (error) {
        reject(error as StorageError);
      }
    }
    // A failing disk ends it by itself.
    if (this.#database.isOpen && this.#database.isTransaction) this.#database.exec('COMMIT');
  };

  #readPage(subject: string, from: bigint, rows: number): PlantPage {
    const page = readRange(this.#pageWithoutLong, subject, from, maxId, rows);
    if (page.count > 0) return page;
    // There are none, or some of them are long.
    const tooMuch = this.#firstTooMuch(subject, from);
    if (tooMuch === undefined) return readRange(this.#page, subject, from, maxId, rows);
    if (tooMuch > from) {
      const before = readRange(this.#page, subject, from, tooMuch - 1n, rows);
      if (before.count > 0) return before;
    }
    return readRange(this.#page, subject, tooMuch, tooMuch, 1);
  }

  /** The first plant that does not fit in a page any more, for the long ones before it and its own length. */
  #firstTooMuch(subject: string, from: bigint): bigint | undefined {
    let total = 0;
    // Row by row: SQLite reads a row of this table whole even to find it, so no more of them than one that does not fit.
    for (const row of this.#long.iterate(subject, from)) {
      const [id, bytes] = row as unknown as [string, number];
      total += bytes;
      if (total > pageBytes) return BigInt(id);
    }
    return undefined;
  }
}

/** The first plants of a range of ids, both ends included. */
function readRange(
  page: StatementSyncInstance,
  subject: string,
  from: bigint,
  to: bigint,
  rows: number,
): PlantPage {
  const [json, count, last] = page.get(subject, from, to, rows) as [string | null, number, string | null];
  // The last one of a full page, or where the page had to end.
  const next = last !== null ? BigInt(last) : to < maxId ? to : undefined;
  return { json: json ?? '', count, next };
}

/** A page that somebody waits for. */
interface PageRequest {
  readonly subject: string;
  readonly from: bigint;
  readonly rows: number;
  readonly resolve: (page: PlantPage) => void;
  readonly reject: (error: StorageError) => void;
}
