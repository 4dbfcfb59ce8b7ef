// The plants of the embedded engine: the pages that one turn of the event loop asks for are read together.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { PlantPage } from '../../domain/plants.js';
import { toStorageError, type StorageError } from '../../domain/storage.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';

/** The most rows in a page of a list, which bounds how long reading it holds up the event loop. */
const pageRows = 500;
/** The most bytes in a page of a list, commas included (a single plant may have more). */
const pageBytes = 256 * 1024;
/** How many of these bytes the long plants of a page may have together; the others have what they leave. */
const longPlantsBytes = pageBytes / 2;
/** A plant of more bytes is long: the condition of the index long_plants. */
const longBytes = 512;
/** The most pages that are read at a time: whoever comes meanwhile waits for all of them. */
const maxPagesTogether = 64;
/** The length of their text, in characters, at which no further page is read with them: all are in memory at once. */
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
  // Referenced here so that it lives as long as its statements: they do not keep it open.
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
    // The page's last id is looked up first, so that the page is one range of the key, whose order group_concat then
    // follows: a subquery with a LIMIT would hand over its rows one by one, which is slower.
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

  /** Reads all pages that are requested, without waiting for the end of the turn. */
  readAll(): void {
    while (this.#requests.length > 0) this.#readRequested();
  }

  /** One transaction spares each page its locks, and a page behind another finds the processor's caches warm. */
  readonly #readRequested = (): void => {
    let pages = 0;
    let text = 0;
    // In a store that is closed, each page fails by itself.
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
    // After an I/O error there is none: SQLite has rolled it back.
    if (this.#database.isOpen && this.#database.isTransaction) this.#database.exec('COMMIT');
    this.#requests.splice(0, pages);
    if (this.#requests.length > 0) setImmediate(this.#readRequested);
  };

  #readPage(subject: string, from: bigint, rows: number): PlantPage {
    const page = readRange(this.#pageWithoutLong, subject, from, maxId, rows);
    // It is empty when there are no plants, and when some of them are long.
    return page.count > 0 ? page : this.#readPageWithLong(subject, from, rows);
  }

  #readPageWithLong(subject: string, from: bigint, rows: number): PlantPage {
    let total = 0;
    let excess: bigint | undefined;
    // Row by row, up to the first that does not fit: SQLite reads a whole row of this table even to find it.
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
