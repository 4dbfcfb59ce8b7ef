// Sales of all callers, and a report on them, in a database of their own.
import { DatabaseSync } from '@photostructure/sqlite';
import { Kysely, PostgresDialect, sql, SqliteDialect, type Dialect } from 'kysely';
import { Pool } from 'pg';
import type { Caller, ServiceContext } from 'contract-server';

interface Tables {
  sales: { id: string; seller: string; product: string; cents: number };
}
interface Sale {
  id: string;
  product: string;
  cents: number;
}

/**
 * What Kysely calls of a driver for SQLite. Every transaction takes the lock for writing when it begins: one that reads first
 * could not wait for it later, and would fail with "database is locked" whenever another one has written meanwhile.
 */
export function sqliteDialect(file: string): Dialect {
  const database = new DatabaseSync(file, { timeout: 5_000 });
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  return new SqliteDialect({
    database: {
      close: () => {
        database.close();
      },
      prepare: (text) => {
        const statement = database.prepare(text === 'begin' ? 'begin immediate' : text);
        return {
          reader: statement.columns().length > 0,
          all: (values) => statement.all(...(values as [])) as unknown[],
          run: (values) => statement.run(...(values as [])),
          iterate: (values) => statement.iterate(...(values as [])) as IterableIterator<unknown>,
        };
      },
    },
  });
}

function postgresDialect(connectionString: string, log: ServiceContext['log'], schema: string): Dialect {
  // Each thread has a pool: WORKERS times `max` connections, beside those of the store.
  const limits = { max: 5, connectionTimeoutMillis: 5_000, query_timeout: 10_000 };
  // With a schema of its own, it may also be the database of the store.
  const pool = new Pool({ connectionString, ...limits, options: `-c search_path=${schema}` });
  // Without this, a connection that is lost while nothing uses it would end the process.
  pool.on('error', (error) => {
    log.warn({ err: error }, 'a connection to the database was lost');
  });
  return new PostgresDialect({ pool });
}

/** @param schema - Of PostgreSQL. */
export function dialectOf({ log }: Pick<ServiceContext, 'log'>, url: string, schema: string): Dialect {
  return url.startsWith('postgres') ? postgresDialect(url, log, schema) : sqliteDialect(url);
}

export async function openSales(context: Pick<ServiceContext, 'log'>, url: string) {
  const isPostgres = url.startsWith('postgres');
  const database = new Kysely<Tables>({ dialect: dialectOf(context, url, 'sales') });
  try {
    await database.transaction().execute(async (transaction) => {
      // On PostgreSQL, several threads that create the same table at once would fail.
      if (isPostgres) {
        await sql`SELECT pg_advisory_xact_lock(20261124)`.execute(transaction);
        await sql`CREATE SCHEMA IF NOT EXISTS sales`.execute(transaction);
      }
      await sql`CREATE TABLE IF NOT EXISTS sales (
        seller text NOT NULL, id text NOT NULL, product text NOT NULL, cents bigint NOT NULL,
        PRIMARY KEY (seller, id)
      )`.execute(transaction);
    });
  } catch (error) {
    await database.destroy();
    throw error;
  }
  return {
    handlers: {
      /** Repeating it is no second sale, since the client chooses the id; nor is another sale with an id of the seller. */
      addSale: async ({ caller, body }: { caller: Caller; body: Sale }) => {
        await database
          .insertInto('sales')
          .values({ ...body, seller: caller.subject })
          .onConflict((conflict) => conflict.columns(['seller', 'id']).doNothing())
          .execute();
      },
      reportSales: async () => {
        const sellers = sql<string>`count(DISTINCT seller)`.as('sellers');
        const total = sql<string>`sum(cents)`.as('cents');
        const rows = await database
          .selectFrom('sales')
          .select(['product', sellers, total])
          .groupBy('product')
          .orderBy('product')
          .limit(1_000)
          .execute();
        // PostgreSQL returns 64-bit integers as texts.
        return rows.map((row) => ({
          product: row.product,
          sellers: Number(row.sellers),
          cents: Number(row.cents),
        }));
      },
    },
    check: async () => {
      await sql`SELECT 1 FROM sales LIMIT 1`.execute(database);
    },
    close: () => database.destroy(),
  };
}
