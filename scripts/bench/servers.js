// Defines the servers that are compared, and prepares their stores.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { runSql } from '../../packages/server/test/support/postgres-cluster.js';
import { fillStore } from './store.js';
import { seed } from './workloads.js';

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'floor' | 'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another ecosystem.
 * @property {string} [comparedWith] - The name of the Plant Store that it is compared with.
 * @property {(folder: string) => Promise<Prepared>} prepare - Creates its store, in the folder if it is a file.
 *
 * @typedef {object} Prepared
 * @property {import('../../packages/server/test/support/server-process.js').ServerOptions} options
 * @property {(subject: string) => string} tokenOf
 */

const onSqlite = 'Plant Store on SQLite';
const onPostgres = 'Plant Store on PostgreSQL';
const twoWorkers = { WORKERS: '2' };

/**
 * @param {string} [against] - The folder of another built Plant Store.
 * @returns {Server[]}
 */
export function allServers(against) {
  const url = process.env['BENCH_POSTGRES_URL'];
  return [
    { ...peer('Fastify', 'floors/fastify.js', {}, async () => ({})), kind: 'floor' },
    peer('express + express-openapi-validator', 'peers/express.js'),
    peer('Hono + zod-openapi', 'peers/hono.js'),
    peer('fastify-openapi-glue, plain', 'peers/glue.js', { PEER_STORE: './store.js' }),
    { ...peer('axum + rusqlite (Rust)', 'peers/axum.js', { PEER_PROGRAM: 'rusqlite' }), kind: 'foreign' },
    ...(against === undefined ? [] : earlier(join(against, 'dist/main.js'))),
    plantStore(onSqlite, inFile),
    { ...plantStore(`${onSqlite}, 2 workers`, inFile, twoWorkers), comparedWith: onSqlite },
    ...(url === undefined ? [] : serversOn(url)),
  ];
}

/** The servers of another Plant Store. @param {string} script @returns {Server[]} */
function earlier(script) {
  return ['', ', 2 workers'].map((name) => ({
    ...plantStore(`Plant Store before${name}`, inFile, name === '' ? {} : twoWorkers, script),
    kind: 'before',
    comparedWith: onSqlite + name,
  }));
}

/** The servers on PostgreSQL. @param {string} url @returns {Server[]} */
function serversOn(url) {
  /** @param {string} name @param {string} program @param {Record<string, string>} env @returns {Server} */
  const peerOnPostgres = (name, program, env) => ({
    ...peer(name, program, env, () => createPeerSchema(url)),
    comparedWith: onPostgres,
  });
  return [
    {
      ...peerOnPostgres('axum + sqlx on PostgreSQL (Rust)', 'peers/axum.js', { PEER_PROGRAM: 'sqlx' }),
      kind: 'foreign',
    },
    peerOnPostgres('fastify-openapi-glue, plain, on PostgreSQL', 'peers/glue.js', {
      PEER_STORE: './postgres-store.js',
    }),
    { ...plantStore(onPostgres, () => createSchema(url)), comparedWith: onSqlite },
  ];
}

/**
 * An alternative, in which the token of a subject is its name.
 * @param {string} name
 * @param {string} program - In this folder.
 * @param {Record<string, string>} [env]
 * @param {(folder: string) => Promise<Record<string, string>>} [createStore] - Returns the environment that names it.
 * @returns {Server}
 */
function peer(name, program, env = {}, createStore = createPeerFile) {
  return {
    name,
    kind: 'peer',
    comparedWith: onSqlite,
    prepare: async (folder) => ({
      options: { script: beside(program), env: { ...env, ...(await createStore(folder)) } },
      tokenOf: (subject) => subject,
    }),
  };
}

/**
 * @param {string} name
 * @param {(folder: string) => string | Promise<string>} createUrl
 * @param {Record<string, string>} [env]
 * @param {string} [script] - Of another Plant Store.
 * @returns {Server}
 */
function plantStore(name, createUrl, env = {}, script) {
  return {
    name,
    kind: 'ours',
    prepare: async (folder) => {
      const url = await createUrl(folder);
      const tokens = await fillStore(url, seed);
      return {
        options: { env: { DATABASE_URL: url, ...env }, ...(script !== undefined && { script }) },
        tokenOf: (subject) => /** @type {string} */ (tokens.get(subject)),
      };
    },
  };
}

/** Makes the names of files and schemas differ. */
let stores = 0;

/** The URL of a new SQLite file. @param {string} folder */
function inFile(folder) {
  return `file:${join(folder, `${++stores}.db`)}`;
}

/** Creates an empty schema; returns the URL of a database in which it is the only one. @param {string} url */
async function createSchema(url) {
  const schema = `bench_${++stores}`;
  await runSql(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE; CREATE SCHEMA ${schema}`);
  const own = new URL(url);
  own.searchParams.set('options', `-c search_path=${schema}`);
  return own.href;
}

/** Creates the table of a peer on PostgreSQL, in a schema of its own, and fills it. @param {string} url */
async function createPeerSchema(url) {
  const own = await createSchema(url);
  await runSql(
    own,
    `CREATE TABLE plants (
       subject text COLLATE "C", id bigint, name text NOT NULL, tag text, PRIMARY KEY (subject, id));
     INSERT INTO plants SELECT subject, -id, 'Monstera deliciosa', 'indoor'
       FROM json_to_recordset('${JSON.stringify(seed)}') AS seed (subject text, plants int),
         generate_series(1, plants) AS id;
     ANALYZE plants`,
  );
  return { DATABASE_URL: own };
}

/** Creates the file of a peer on SQLite, and fills it. @param {string} folder */
async function createPeerFile(folder) {
  const file = join(folder, `${++stores}.db`);
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    CREATE TABLE plants (
      subject TEXT NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, tag TEXT, PRIMARY KEY (subject, id)
    ) WITHOUT ROWID;
    BEGIN`);
  const insert = database.prepare("INSERT INTO plants VALUES (?, ?, 'Monstera deliciosa', 'indoor')");
  for (const { subject, plants } of seed) {
    for (let id = 1; id <= plants; id++) insert.run(subject, -id);
  }
  database.exec('COMMIT');
  database.close();
  return { PLANTS_FILE: file };
}

/** @param {string} path */
function beside(path) {
  return fileURLToPath(new URL(path, import.meta.url));
}
