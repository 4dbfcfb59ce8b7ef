// Defines the servers that are compared, and starts each on a store of its own.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { service as plantStore } from '../../dist/service.js';
import { kernelDistributes } from '../../packages/server/dist/process/variable-types.js';
import { hashSecret } from '../../packages/server/dist/storage/core/tokens.js';
import { runSql, systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { run, startServer } from '../../packages/server/test/support/server-process.js';
import { seed } from './workloads.js';

const dist = resolve(import.meta.dirname, '../../dist');

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another ecosystem.
 * @property {Engine} engine
 * @property {string} [comparedWith] - The name of the Plant Store that it is compared with.
 * @property {string} [program] - Its path, from this folder; the Plant Store by default.
 * @property {Record<string, string>} [env]
 *
 * @typedef {'SQLite' | 'PostgreSQL'} Engine
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

const cluster = await systemPostgres().catch(() => undefined);
const folder = mkdtempSync(join(tmpdir(), 'plant-store-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** PostgreSQL only where Debian's is installed. @type {readonly Engine[]} */
const engines = cluster === undefined ? ['SQLite'] : ['SQLite', 'PostgreSQL'];

/** @param {Engine} engine @returns {Server} */
const ours = (engine) => ({ name: `Plant Store on ${engine}`, kind: 'ours', engine });

/** @param {string} name @param {string} program @param {Engine} [engine] @returns {Server} */
const peer = (name, program, engine = 'SQLite') => ({
  ...{ name, program, engine, comparedWith: ours(engine).name },
  kind: program.startsWith(rust) ? 'foreign' : 'peer',
});

/** The Plant Store beside typical implementations. @type {readonly Server[]} */
const peers = [
  peer('fastify-openapi-glue, plain', 'peers/glue.js'),
  peer('axum + rusqlite (Rust)', `${rust}rusqlite`),
  ours('SQLite'),
  { ...ours('SQLite'), name: onTwo, env: two, comparedWith: onSqlite },
  peer('axum + sqlx on PostgreSQL (Rust)', `${rust}sqlx`, 'PostgreSQL'),
  peer('fastify-openapi-glue, plain, on PostgreSQL', 'peers/glue.js', 'PostgreSQL'),
  { ...ours('PostgreSQL'), comparedWith: onSqlite },
];

/** The Plant Store beside an earlier one. @type {readonly Server[]} */
const versions = [ours('SQLite'), { ...ours('SQLite'), name: onTwo, env: two }, ours('PostgreSQL')].flatMap(
  (server) => [
    { ...server, name: `${server.name}, before`, kind: 'before', comparedWith: server.name },
    server,
  ],
);

/**
 * The servers that can run here.
 * @param {string} [against] - The folder of another built Plant Store, to compare this one with instead.
 */
export function serversOf(against) {
  return (
    (against === undefined ? peers : versions)
      .filter(({ engine }) => engines.includes(engine))
      // Before Node.js 22.12, several threads cannot share a port.
      .filter(({ env }) => env !== two || kernelDistributes)
      .map((server) =>
        server.kind === 'before' ? { ...server, program: join(against ?? '', 'dist/main.js') } : server,
      )
  );
}

/** Makes the names of stores differ. */
let stores = 0;

/** Creates the store of a server, and fills it. @param {Server} server @returns {Promise<Side>} */
export async function prepareSide({ name, kind, engine, program, env }) {
  const store = String(++stores);
  const database = engine === 'SQLite' ? undefined : await cluster?.createServer(store);
  const url = database?.url() ?? `file:${join(folder, store)}.db`;
  /** A subject's token is its name, except in our own stores. @type {Map<string, string>} */
  let tokens = new Map();
  const path = program && resolve(import.meta.dirname, program);
  // Each build makes a store with its own schema.
  const build = kind === 'before' && path !== undefined ? dirname(path) : dist;
  if (kind === 'ours' || kind === 'before') tokens = await fillStore(url, join(build, 'cli.js'));
  else await fillPeer(url);
  return {
    ...{ name, database, created: 0, deleted: 0, deletable: 0, random: 1 },
    tokenOf: (subject) => tokens.get(subject) ?? subject,
    start: () =>
      startServer({
        measured: true,
        env: { NODE_ENV: 'production', DATABASE_URL: url, ...env },
        // A foreign server ignores the module that it should launch.
        ...(path && (kind === 'foreign' ? { launcher: [path] } : { script: path })),
      }),
  };
}

/**
 * Makes a store, and puts plants and one token per subject into it.
 * @param {string} url
 * @param {string} command - The command of the build that makes the store.
 * @returns {Promise<Map<string, string>>} The tokens by subject.
 */
async function fillStore(url, command) {
  const { code, stderr } = await run(command, ['migrate'], { DATABASE_URL: url });
  if (code !== 0) throw new Error(`${command} migrate: ${stderr}`);
  const tokens = new Map();
  const rows = seed.map(({ subject }) => {
    const { scopes, tokenPrefix } = plantStore;
    const secret = `${tokenPrefix}${randomBytes(32).toString('base64url')}`;
    tokens.set(subject, secret);
    const hash = hashSecret(secret).toString('hex');
    const bytes = isFile(url) ? `x'${hash}'` : `'\\x${hash}'`;
    return `('${randomBytes(6).toString('hex')}', ${bytes}, '${subject}', '${scopes.join(' ')}', ${Date.now()})`;
  });
  await runOn(
    url,
    `INSERT INTO tokens (id, hash, subject, scopes, created_at) VALUES ${rows.join()};
     ${insertPlants('(subject, id, plant)', `'{"name":"Monstera deliciosa","tag":"indoor"}'`)}`,
  );
  return tokens;
}

/** The statements that insert plants. @param {string} columns @param {string} values - Those of a plant. */
function insertPlants(columns, values) {
  const inserts = seed.map(
    ({ subject, plants }) => `INSERT INTO plants ${columns}
      WITH RECURSIVE ids(id) AS (VALUES (-1) UNION ALL SELECT id - 1 FROM ids WHERE id > -${plants})
      SELECT '${subject}', id, ${values} FROM ids;`,
  );
  return inserts.join('\n');
}

/** Whether a URL names a store on SQLite. @param {string} url */
const isFile = (url) => url.startsWith('file:');

/** Runs statements. @param {string} url @param {string} sql */
async function runOn(url, sql) {
  if (!isFile(url)) return void (await runSql(url, sql));
  const database = new DatabaseSync(url);
  database.exec(`PRAGMA journal_mode = WAL; ${sql}`);
  database.close();
}

/** Creates the table of a peer, and fills it. @param {string} url */
async function fillPeer(url) {
  await runOn(
    url,
    `CREATE TABLE plants (subject text, id bigint, name text NOT NULL, tag text, PRIMARY KEY (subject, id))
       ${isFile(url) ? 'WITHOUT ROWID' : ''};
     ${insertPlants('', "'Monstera deliciosa', 'indoor'")}
     ANALYZE plants`,
  );
}
