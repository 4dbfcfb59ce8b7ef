// The engine for more than one machine: PostgreSQL 14 or later, and what speaks its protocol. Writes are group committed.
import { Client, DatabaseError } from 'pg';
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
  begunInTime,
  isRowError,
  PostgresPool,
  standbyHasIt,
  type PostgresOptions,
  type Row,
} from './pool.js';

/** The most rows in a page of a list, which bounds how long reading it holds a connection. */
const pageRows = 500;
/** The most bytes in a page of a list (a single plant may have more). */
const pageBytes = 256 * 1024;
/** Names the advisory lock under which one migration runs at a time: "plants" in ASCII. */
const migrationLock = '123623169254515';
/** How long a migration waits for a lock: what it waits for, all others wait for behind it. */
const migrationLockTime = '5s';
const UNDEFINED_TABLE = '42P01';

/**
 * Opens PostgreSQL, whose schema must be up to date.
 * @throws StorageError when it cannot be reached, does not keep its promises, or has not the schema that is needed.
 */
export async function openPostgres({
  writer: limits,
  ...options
}: PostgresOptions & { writer?: Partial<GroupWriterLimits> }): Promise<Storage> {
  const pool = new PostgresPool(options);
  const storage = new PostgresStorage(pool, { ...defaultWriterLimits, ...limits });
  try {
    await storage.check();
    return storage;
  } catch (error) {
    await storage.close();
    throw error;
  }
}

/**
 * Brings the schema up to date, all of it or nothing. Several at a time are safe: one does it, the others find it done.
 * @param url - Where; the role must own the tables.
 * @returns The migrations that were applied now.
 * @throws StorageError when PostgreSQL cannot do it, or the schema is one of a newer application.
 */
export async function migratePostgres(
  url: string,
  migrations: readonly Migration[] = loadMigrations('postgres'),
): Promise<Migration[]> {
  try {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
    // What ends the connection, the statement tells.
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await migrate(client, migrations);
    } finally {
      await client.end();
    }
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw new StorageError('unavailable', `PostgreSQL: ${(error as Error).message}`, { cause: error });
  }
}

async function migrate(client: Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const encoding = await client.query<[string]>({ text: 'SHOW server_encoding', rowMode: 'array' });
  if (encoding.rows[0]![0] !== 'UTF8') {
    throw new Error(`the database has the encoding ${encoding.rows[0]![0]}, not UTF8`);
  }
  // A failure needs no ROLLBACK: the connection ends then.
  await client.query('BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = on');
  await client.query(`SELECT pg_advisory_xact_lock(${migrationLock})`);
  await client.query(`SET LOCAL lock_timeout = '${migrationLockTime}'`);
  await client.query(`CREATE TABLE IF NOT EXISTS migrations (
    version int NOT NULL PRIMARY KEY,
    name text NOT NULL,
    oldest_application text NOT NULL,
    applied_at bigint NOT NULL
  )`);
  const { rows: applied } = await client.query<AppliedMigration>(
    'SELECT version, oldest_application AS "oldestApplication" FROM migrations',
  );
  const pending = pendingMigrations(migrations, applied);
  for (const { version, name, oldestApplication, sql } of pending) {
    await client.query(sql);
    await client.query('INSERT INTO migrations VALUES ($1, $2, $3, $4)', [
      version,
      name,
      oldestApplication,
      Date.now(),
    ]);
  }
  await client.query('COMMIT');
  return pending;
}

class PostgresStorage implements Storage {
  readonly plants: PlantRepository;
  readonly tokens: TokenRepository;
  /** Never: whatever befalls the server, new connections may find it well again. */
  readonly broken = new Promise<StorageError>(() => undefined);
  readonly #pool: PostgresPool;
  readonly #writer: PostgresWriter;

  constructor(pool: PostgresPool, limits: GroupWriterLimits) {
    this.#pool = pool;
    this.#writer = new PostgresWriter(pool, limits);
    this.plants = new PostgresPlants(pool, this.#writer);
    this.tokens = new PostgresTokens(pool);
  }

  async check(): Promise<void> {
    const rows = await this.#pool
      .read('SELECT version, oldest_application FROM migrations')
      .catch((error: unknown) => {
        const { cause } = error as StorageError;
        if (cause instanceof DatabaseError && cause.code === UNDEFINED_TABLE) return [];
        throw error;
      });
    const applied = (rows as [number, string][]).map(([version, oldestApplication]) => ({
      version,
      oldestApplication,
    }));
    const pending = pendingMigrations(loadMigrations('postgres'), applied);
    if (pending.length > 0) {
      throw new StorageError(
        'unavailable',
        'the database has no schema, or an older one than is needed: run "plant-store migrate"',
      );
    }
  }

  async close(): Promise<void> {
    await this.#writer.drain();
    await this.#pool.close();
  }
}

class PostgresPlants implements PlantRepository {
  readonly #pool: PostgresPool;
  readonly #writer: PostgresWriter;

  constructor(pool: PostgresPool, writer: PostgresWriter) {
    this.#pool = pool;
    this.#writer = writer;
  }

  create(subject: string, id: bigint, { name, tag }: Plant): ReturnType<PlantRepository['create']> {
    const plant = tag === undefined ? JSON.stringify({ name }) : JSON.stringify({ name, tag });
    return this.#writer.write(subject, id, plant) as ReturnType<PlantRepository['create']>;
  }

  async delete(subject: string, id: bigint): Promise<boolean> {
    return (await this.#writer.write(subject, id)) === 'deleted';
  }

  /** Each page is a statement of its own: no transaction is open between pages. */
  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    const rows = Math.min(limit, pageRows);
    // The length of a long text is known without reading it, so only what fits is ever read.
    const [row] = await this.#pool.read(
      `SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits),
              (count(*) FILTER (WHERE fits))::int, max(id) FILTER (WHERE fits), count(*)::int
       FROM (SELECT id, plant, bytes <= $4 OR bytes = octet_length(plant) AS fits
             FROM (SELECT id, plant, sum(octet_length(plant)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS bytes
                   FROM (SELECT id, plant FROM plants WHERE subject = $1 AND ($2::bigint IS NULL OR id > $2)
                         ORDER BY id LIMIT $3) AS page) AS measured) AS chosen`,
      [subject, after, rows, pageBytes],
    );
    const [json, count, lastId, found] = row as [string | null, number, string | null, number];
    const more = found === rows || count < found;
    return { json: json ?? '', count, next: more ? BigInt(lastId!) : undefined };
  }
}

const tokenColumns = 'id, subject, scopes, created_at, expires_at, revoked_at';

function toToken(row: Row): Token {
  const [id, subject, scopes, createdAt, expiresAt, revokedAt] = row as (string | null)[];
  return {
    id: id!,
    subject: subject!,
    scopes: scopes!.split(' ') as Scope[],
    createdAt: Number(createdAt),
    expiresAt: expiresAt == null ? undefined : Number(expiresAt),
    revokedAt: revokedAt == null ? undefined : Number(revokedAt),
  };
}

class PostgresTokens implements TokenRepository {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    const { id, subject, scopes, createdAt, expiresAt, revokedAt } = token;
    await this.#pool.write(
      `INSERT INTO tokens (${tokenColumns}, hash) SELECT $2, $3, $4, $5::bigint, $6::bigint, $7::bigint, $8::bytea
       WHERE ${begunInTime}`,
      [id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash],
    );
  }

  async find(hash: Uint8Array): Promise<Token | undefined> {
    const [row] = await this.#pool.read(`SELECT ${tokenColumns} FROM tokens WHERE hash = $1`, [hash]);
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<Token[]> {
    return (
      await this.#pool.read(`SELECT ${tokenColumns} FROM tokens ORDER BY created_at, id COLLATE "C"`)
    ).map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    const rows = await this.#pool.write(
      `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2::bigint) WHERE id = $3 AND ${begunInTime} RETURNING id`,
      [at, id],
    );
    return rows.length > 0;
  }
}

type Outcome = WriteOutcome | StorageError;

/** The writing half: a batch is one statement for its creates and one for its deletes, over arrays. */
class PostgresWriter {
  readonly #pool: PostgresPool;
  readonly #group: GroupWriter;

  constructor(pool: PostgresPool, limits: GroupWriterLimits) {
    this.#pool = pool;
    this.#group = new GroupWriter((batch) => this.#commit(batch), {
      ...limits,
      patience: pool.budget,
      distinctKeys: true,
    });
  }

  write(subject: string, id: bigint, plant?: string): Promise<WriteOutcome> {
    return this.#group.write(subject, id, plant);
  }

  drain(): Promise<void> {
    return this.#group.close();
  }

  async #commit(batch: readonly Write[]): Promise<Outcome[]> {
    const end = this.#pool.end();
    // All processes lock rows in one order, so that none of them waits for another that waits for it.
    const sorted = [...batch].sort(byKey);
    const outcomes = new Map<Write, Outcome>();
    await this.#apply(
      sorted.filter(({ plant }) => plant !== undefined),
      outcomes,
      (creates) => this.#create(creates, outcomes, end),
    );
    await this.#apply(
      sorted.filter(({ plant }) => plant === undefined),
      outcomes,
      (deletes) => this.#delete(deletes, outcomes, end),
    );
    return batch.map((write) => outcomes.get(write)!);
  }

  /** Runs a statement for some writes. One of them that PostgreSQL does not take is found by halves, and fails alone. */
  async #apply(
    writes: readonly Write[],
    outcomes: Map<Write, Outcome>,
    run: (writes: readonly Write[]) => Promise<void>,
  ): Promise<void> {
    if (writes.length === 0) return;
    try {
      await run(writes);
    } catch (error) {
      const failure = error as StorageError;
      const undecided = writes.filter((write) => !outcomes.has(write));
      if (undecided.length > 1 && isRowError(failure.cause)) {
        const half = undecided.length >> 1;
        await this.#apply(undecided.slice(0, half), outcomes, run);
        await this.#apply(undecided.slice(half), outcomes, run);
      } else {
        for (const write of undecided) outcomes.set(write, failure);
      }
    }
  }

  async #create(creates: readonly Write[], outcomes: Map<Write, Outcome>, end: number): Promise<void> {
    let undecided = creates;
    while (undecided.length > 0) {
      const created = keysOf(
        await this.#pool.write(
          `INSERT INTO plants (subject, id, plant)
           SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[]) WHERE ${begunInTime}
           ON CONFLICT DO NOTHING RETURNING subject, id`,
          [...columnsOf(undecided), undecided.map(({ plant }) => plant)],
          end,
        ),
      );
      for (const write of undecided) if (created.has(keyOf(write))) outcomes.set(write, 'created');
      undecided = undecided.filter((write) => !outcomes.has(write));
      if (undecided.length === 0) return;
      const [same, other] = await this.#compare(undecided, end);
      for (const write of undecided) {
        if (same.has(keyOf(write))) outcomes.set(write, 'identical');
        else if (other.has(keyOf(write))) outcomes.set(write, 'different');
      }
      // What stood in the way may be gone by now: then it is decided again, until the time is up.
      undecided = undecided.filter((write) => !outcomes.has(write));
    }
  }

  async #compare(creates: readonly Write[], end: number): Promise<[Set<string>, Set<string>]> {
    const rows = await this.#pool.read(
      `SELECT subject, id, plants.plant = given.plant
       FROM unnest($1::text[], $2::bigint[], $3::text[]) AS given (subject, id, plant) JOIN plants USING (subject, id)
       WHERE ${standbyHasIt}`,
      [...columnsOf(creates), creates.map(({ plant }) => plant)],
      end,
    );
    return [keysOf(rows.filter((row) => row[2] === true)), keysOf(rows.filter((row) => row[2] === false))];
  }

  async #delete(deletes: readonly Write[], outcomes: Map<Write, Outcome>, end: number): Promise<void> {
    const deleted = keysOf(
      await this.#pool.write(
        `WITH doomed AS (
           SELECT subject, id FROM unnest($2::text[], $3::bigint[]) AS given (subject, id) JOIN plants USING (subject, id)
           WHERE ${begunInTime} AND ${standbyHasIt} ORDER BY subject, id FOR UPDATE OF plants)
         DELETE FROM plants USING doomed WHERE plants.subject = doomed.subject AND plants.id = doomed.id
         RETURNING plants.subject, plants.id`,
        columnsOf(deletes),
        end,
      ),
    );
    for (const write of deletes) outcomes.set(write, deleted.has(keyOf(write)) ? 'deleted' : 'absent');
  }
}

function byKey(a: Write, b: Write): number {
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

function keyOf({ subject, id }: Write): string {
  return `${id} ${subject}`;
}

function keysOf(rows: readonly Row[]): Set<string> {
  return new Set((rows as [string, string][]).map(([subject, id]) => `${id} ${subject}`));
}

function columnsOf(writes: readonly Write[]): [string[], string[]] {
  return [writes.map(({ subject }) => subject), writes.map(({ id }) => `${id}`)];
}
