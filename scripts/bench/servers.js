// Defines the servers that are compared, and starts each on a store of its own.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { plants as collection, PlantRepository } from '../../dist/plants/repository.js';
import { service as plantStore } from '../../dist/service.js';
import { kernelDistributes } from '../../packages/server/dist/process/system-limits.js';
import { issueToken } from '../../packages/server/dist/storage/access-token.js';
import { migrateStorage, openStorage } from '../../packages/server/dist/storage/open.js';
import { runSql, systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { startServer } from '../../packages/server/test/support/server-process.js';
import { seed as commonSeed } from './workloads.js';

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'floor' | 'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another ecosystem.
 * @property {Engine} engine
 * @property {string} [comparedWith] - The name of the Plant Store that it is compared with.
 * @property {string} [program] - Its path, from this folder; the Plant Store by default.
 * @property {Record<string, string>} [env]
 * @property {import('contract-server').Service} [service] - What its store is for, if it is not the Plant Store.
 * @property {Seed} [seed]
 *
 * @typedef {'SQLite' | 'PostgreSQL'} Engine
 * @typedef {Iterable<{ subject: string, plants: number }>} Seed - The contents of a store: the number of plants per subject.
 *
 * @typedef {object} Side - A server on a store of its own, and the state of the workloads there.
 * @property {string} name
 * @property {() => Promise<import('../../packages/server/test/support/server-process.js').ServerProcess>} start
 * @property {(subject: string) => string} tokenOf
 * @property {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer | undefined} database
 * @property {number} created - The highest id that was created.
 * @property {number} deleted - The highest id that was deleted.
 * @property {number} deletable - The highest id that may be deleted.
 * @property {number} random - The state of the pseudorandom sequence, which is the same for all servers.
 */

const rust = 'peers/axum/target/release/';
const onSqlite = 'Plant Store on SQLite';
const onTwo = `${onSqlite}, 2 threads`;
const two = { WORKERS: '2' };

/** @param {string} name @param {string} program @param {Engine} [engine] @returns {Server} */
const peer = (name, program, engine = 'SQLite') => ({
  ...{ name, program, engine, comparedWith: `Plant Store on ${engine}` },
  kind: program.startsWith(rust) ? 'foreign' : 'peer',
});

/** @type {readonly Server[]} */
const all = [
  { ...peer('Fastify', 'floors/fastify.js'), kind: 'floor' },
  peer('express + express-openapi-validator', 'peers/express.js'),
  peer('Hono + zod-openapi', 'peers/hono.js'),
  peer('fastify-openapi-glue, plain', 'peers/glue.js'),
  peer('axum + rusqlite (Rust)', `${rust}rusqlite`),
  { name: 'Plant Store before', kind: 'before', engine: 'SQLite', comparedWith: onSqlite },
  { name: 'Plant Store before, 2 workers', kind: 'before', engine: 'SQLite', env: two, comparedWith: onTwo },
  { name: onSqlite, kind: 'ours', engine: 'SQLite' },
  { name: onTwo, kind: 'ours', engine: 'SQLite', env: two, comparedWith: onSqlite },
  peer('axum + sqlx on PostgreSQL (Rust)', `${rust}sqlx`, 'PostgreSQL'),
  peer('fastify-openapi-glue, plain, on PostgreSQL', 'peers/glue.js', 'PostgreSQL'),
  { name: 'Plant Store on PostgreSQL', kind: 'ours', engine: 'PostgreSQL', comparedWith: onSqlite },
];

const cluster = await systemPostgres().catch(() => undefined);
const folder = mkdtempSync(join(tmpdir(), 'plant-store-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** PostgreSQL only where Debian's is installed. @type {readonly Engine[]} */
export const engines = cluster === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL'];

/** The servers on these engines. @param {string} [against] - The folder of another built Plant Store. @returns {Server[]} */
export function allServers(against) {
  return all.flatMap((server) => {
    if (!engines.includes(server.engine)) return [];
    // Before Node.js 22.12, several threads cannot share a port.
    if (server.kind === 'ours' && server.env === two && !kernelDistributes) return [];
    if (server.kind !== 'before') return server;
    return against === undefined ? [] : { ...server, program: join(against, 'dist/main.js') };
  });
}

/** Makes the names of stores differ. */
let stores = 0;

/** Creates the store of a server, and fills it. @param {Server} server @returns {Promise<Side>} */
export async function prepareSide({ name, kind, engine, program, env, service, seed = commonSeed }) {
  const store = String(++stores);
  const database = engine === 'SQLite' ? undefined : await cluster?.createServer(store);
  const url = database?.url() ?? `file:${join(folder, store)}.db`;
  /** A subject's token is its name, except in our own stores. @type {Map<string, string>} */
  let tokens = new Map();
  if (kind === 'ours' || kind === 'before') tokens = await fillStore(url, seed, service);
  else if (kind !== 'floor') await fillPeer(url, seed);
  const path = program && resolve(import.meta.dirname, program);
  return {
    ...{ name, database, created: 0, deleted: 0, deletable: 0, random: 1 },
    tokenOf: (subject) => tokens.get(subject) ?? subject,
    start: () =>
      startServer({
        measured: true,
        env: { NODE_ENV: 'production', DATABASE_URL: url, ...env },
        // A foreign server ignores what it should launch.
        ...(path && (kind === 'foreign' ? { launcher: [path] } : { script: path })),
      }),
  };
}

/** How many plants are written concurrently; more would exceed the write queue. */
const groupSize = 10_000;

/**
 * Puts plants and one token per subject into an empty store.
 * @param {string} url
 * @param {Seed} seed
 * @param {import('contract-server').Service} [service]
 * @returns {Promise<Map<string, string>>} The tokens by subject.
 */
async function fillStore(url, seed, service = plantStore) {
  await migrateStorage(service, url);
  const storage = await openStorage(service, url);
  const tokens = new Map();
  const { scopes, tokenPrefix: prefix } = service;
  for (const { subject, plants } of seed) {
    const { secret } = await issueToken(storage.tokens, { prefix, subject, scopes, now: Date.now() });
    tokens.set(subject, secret);
    for (let first = 1; first <= plants; first += groupSize) {
      const repository = new PlantRepository(storage.collection(collection));
      const ids = Array.from({ length: Math.min(groupSize, plants - first + 1) }, (_, i) => -first - i);
      const plant = { name: 'Monstera deliciosa', tag: 'indoor' };
      await Promise.all(ids.map((id) => repository.create(subject, BigInt(id), plant)));
    }
  }
  await storage.close();
  return tokens;
}

/** Creates the table of a peer, and fills it. @param {string} url @param {Seed} seed */
async function fillPeer(url, seed) {
  const isFile = url.startsWith('file:');
  const inserts = Array.from(
    seed,
    ({ subject, plants }) => `INSERT INTO plants
      WITH RECURSIVE ids(id) AS (VALUES (-1) UNION ALL SELECT id - 1 FROM ids WHERE id > -${plants})
      SELECT '${subject}', id, 'Monstera deliciosa', 'indoor' FROM ids;`,
  );
  const sql = `
    BEGIN;
    CREATE TABLE plants (subject text, id bigint, name text NOT NULL, tag text, PRIMARY KEY (subject, id))
      ${isFile ? 'WITHOUT ROWID' : ''};
    ${inserts.join('\n')}
    COMMIT;
    ANALYZE plants`;
  if (!isFile) return runSql(url, sql);
  const database = new DatabaseSync(url);
  database.exec(`PRAGMA journal_mode = WAL; ${sql}`);
  database.close();
}
