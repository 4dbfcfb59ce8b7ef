// The embedded engine: one SQLite file. Reads run here, on the main thread; writes are group committed in a worker.
import { DatabaseSync, type DatabaseSyncInstance, type StatementSyncInstance } from '@photostructure/sqlite';
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Plant, PlantPage, PlantRepository } from '../../domain/plants.js';
import { StorageError, type Storage } from '../../domain/storage.js';
import type { Scope, Token, TokenRepository } from '../../domain/tokens.js';
import {
  defaultWriterLimits,
  GroupWriter,
  type GroupWriterLimits,
  type Write,
  type WriteOutcome,
} from '../group-writer.js';
import { loadMigrations, pendingMigrations, type AppliedMigration, type Migration } from '../migrations.js';
import {
  separator,
  writeOutcomes,
  type WriterData,
  type WriterReply,
  type WriterRequest,
} from './writer-thread.js';

/** The first SQLite without the WAL-reset bug, which could corrupt a database that two connections write. */
const oldestSqlite = '3.51.3';
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

/** How to open the embedded engine. */
export interface SqliteOptions {
  /** The path of the file. It and its folder are created when they are not there, for this user only. */
  file: string;
  writer?: Partial<GroupWriterLimits>;
  /** What the writer's `PRAGMA synchronous` is. Anything but FULL is for the script that proves what FULL does. */
  synchronous?: 'FULL' | 'OFF';
}

/**
 * Opens the embedded engine, and brings its schema up to date.
 * @throws StorageError when the file cannot be opened, or is one of a newer application.
 */
export async function openSqlite({
  file,
  writer: limits,
  synchronous = 'FULL',
}: SqliteOptions): Promise<Storage> {
  const database = guard(() => openDatabase(file));
  try {
    guard(() => {
      migrate(database);
    });
    const writer = await SqliteWriter.start({ file, synchronous }, { ...defaultWriterLimits, ...limits });
    return new SqliteStorage(database, writer);
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Brings the schema of a file up to date, which is created when it is not there.
 * @returns The migrations that were applied now.
 * @throws StorageError when the file cannot be opened, or is one of a newer application.
 */
export function migrateSqlite(file: string): Migration[] {
  return guard(() => {
    const database = openDatabase(file);
    try {
      return migrate(database);
    } finally {
      database.close();
    }
  });
}

function openDatabase(file: string): DatabaseSyncInstance {
  makeFolder(dirname(file));
  // SQLite gives its other files the permissions of this one.
  closeSync(openSync(file, 'a', 0o600));
  const database = new DatabaseSync(file, { timeout: 5_000 });
  const { version } = database.prepare('SELECT sqlite_version() AS version').get() as { version: string };
  if (version.localeCompare(oldestSqlite, 'en', { numeric: true }) < 0) {
    throw new Error(`SQLite ${version} is older than ${oldestSqlite}`);
  }
  // Only tokens are written through this connection, by the command line. A checkpoint is the writer's business.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;');
  return database;
}

/** Makes a folder and those above it. Node's `recursive` does not end where nothing can be made, as in /proc (Node 20). */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  const parent = dirname(folder);
  if (parent !== folder) makeFolder(parent);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have been quicker.
    if (!existsSync(folder)) throw error;
  }
}

function migrate(database: DatabaseSyncInstance): Migration[] {
  database.exec('BEGIN IMMEDIATE');
  try {
    database.exec(`CREATE TABLE IF NOT EXISTS migrations (
      version INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      oldest_application TEXT NOT NULL,
      applied_at INTEGER NOT NULL
    ) STRICT`);
    const applied = database
      .prepare('SELECT version, oldest_application AS oldestApplication FROM migrations')
      .all() as AppliedMigration[];
    const record = database.prepare('INSERT INTO migrations VALUES (?, ?, ?, ?)');
    const pending = pendingMigrations(loadMigrations('sqlite'), applied);
    for (const { version, name, oldestApplication, sql } of pending) {
      database.exec(sql);
      record.run(version, name, oldestApplication, Date.now());
    }
    database.exec('COMMIT');
    return pending;
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}

/** Runs something on the engine; whatever it throws becomes a StorageError. */
function guard<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new StorageError('unavailable', `SQLite: ${(error as Error).message}`, { cause: error });
  }
}

class SqliteStorage implements Storage {
  readonly plants: SqlitePlants;
  readonly tokens: TokenRepository;
  readonly broken: Promise<StorageError>;
  // Kept here also so that it lives as long as its statements: they do not hold it themselves.
  readonly #database: DatabaseSyncInstance;
  readonly #writer: SqliteWriter;

  constructor(database: DatabaseSyncInstance, writer: SqliteWriter) {
    this.#database = database;
    this.#writer = writer;
    this.plants = new SqlitePlants(database, writer);
    this.tokens = new SqliteTokens(database);
    this.broken = writer.broken;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not
  async check(): Promise<void> {
    guard(() => {
      this.#database.prepare('SELECT 1 FROM plants LIMIT 1').get();
    });
    this.#writer.check();
  }

  async close(): Promise<void> {
    if (!this.#database.isOpen) return;
    await this.#writer.drain();
    this.plants.readAll();
    this.#database.close();
    // The last connection to close checkpoints, and that is the writer's.
    await this.#writer.close();
  }
}

class SqlitePlants implements PlantRepository {
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

interface TokenRow {
  id: string;
  subject: string;
  scopes: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
}

function toToken(row: TokenRow): Token {
  return {
    id: row.id,
    subject: row.subject,
    scopes: row.scopes.split(' ') as Scope[],
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
class SqliteTokens implements TokenRepository {
  readonly #insert: StatementSyncInstance;
  readonly #find: StatementSyncInstance;
  readonly #list: StatementSyncInstance;
  readonly #revoke: StatementSyncInstance;

  constructor(database: DatabaseSyncInstance) {
    const columns = 'id, subject, scopes, created_at, expires_at, revoked_at';
    this.#insert = database.prepare(`INSERT INTO tokens (${columns}, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`);
    this.#find = database.prepare(`SELECT ${columns} FROM tokens WHERE hash = ?`);
    this.#list = database.prepare(`SELECT ${columns} FROM tokens ORDER BY created_at, id`);
    this.#revoke = database.prepare('UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?');
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    const { id, subject, scopes, createdAt, expiresAt = null, revokedAt = null } = token;
    guard(() => this.#insert.run(id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash));
  }

  async find(hash: Uint8Array): Promise<Token | undefined> {
    const row = guard(() => this.#find.get(hash) as TokenRow | undefined);
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<Token[]> {
    return guard(() => this.#list.all() as TokenRow[]).map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    return guard(() => this.#revoke.run(at, id)).changes > 0;
  }
}
/* eslint-enable @typescript-eslint/require-await */

/** The writing half: batches go to the worker, which owns the connection that writes and checkpoints. */
class SqliteWriter {
  readonly #worker: Worker;
  readonly #group: GroupWriter;
  #pending:
    { resolve: (outcomes: WriteOutcome[]) => void; reject: (error: StorageError) => void } | undefined;
  #failure: StorageError | undefined;
  #closing = false;
  readonly #exited: Promise<void>;
  readonly broken: Promise<StorageError>;

  /** Resolves once the worker has its connection. */
  static async start(data: WriterData, limits: GroupWriterLimits): Promise<SqliteWriter> {
    const worker = new Worker(new URL('./writer-thread.js', import.meta.url), { workerData: data });
    await new Promise<void>((resolve, reject) => {
      worker.once('message', () => {
        resolve();
      });
      worker.once('error', (error) => {
        reject(new StorageError('unavailable', `SQLite: ${error.message}`, { cause: error }));
      });
      worker.once('exit', (code) => {
        reject(new StorageError('unavailable', `SQLite: the writer ended at its start with status ${code}`));
      });
    });
    return new SqliteWriter(worker, limits);
  }

  private constructor(worker: Worker, limits: GroupWriterLimits) {
    this.#worker = worker;
    this.#group = new GroupWriter((batch) => this.#commit(batch), limits);
    worker.on('message', (reply: WriterReply) => {
      const pending = this.#pending;
      this.#pending = undefined;
      if (reply instanceof Uint8Array) {
        pending?.resolve(Array.from(reply, (code) => writeOutcomes[code]!));
      } else {
        pending?.reject(new StorageError(reply.failure, `SQLite: ${reply.message}`));
      }
    });
    this.broken = new Promise((resolve) => {
      const fail = (cause: Error) => {
        const broken = this.#fail(cause);
        if (!this.#closing) resolve(broken);
      };
      worker.on('error', fail);
      worker.on('exit', () => {
        fail(new Error('the writer has ended'));
      });
    });
    this.#exited = new Promise((resolve) => {
      worker.once('exit', () => {
        resolve();
      });
    });
  }

  write(subject: string, id: bigint, plant?: string): Promise<WriteOutcome> {
    return this.#group.write(subject, id, plant);
  }

  /** @throws StorageError when the worker is gone. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  drain(): Promise<void> {
    return this.#group.close();
  }

  async close(): Promise<void> {
    this.#closing = true;
    // Ended from outside in the middle of a statement, the worker could take the process with it.
    this.#worker.postMessage('close' satisfies WriterRequest);
    await this.#exited;
  }

  #commit(batch: readonly Write[]): Promise<WriteOutcome[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const request: WriterRequest = {
      subjects: batch.map((write) => write.subject).join(separator),
      ids: BigInt64Array.from(batch, (write) => write.id),
      plants: batch.map((write) => write.plant ?? '').join(separator),
    };
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject };
      this.#worker.postMessage(request);
    });
  }

  #fail(cause: Error): StorageError {
    this.#failure ??= new StorageError('unavailable', `SQLite: ${cause.message}`, { cause });
    // Nobody can tell how far it got with the batch that it had.
    this.#pending?.reject(new StorageError('unknown-outcome', `SQLite: ${cause.message}`, { cause }));
    this.#pending = undefined;
    return this.#failure;
  }
}
