// Defines the servers that are compared, and prepares their stores.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import { Client } from 'pg';
import { fillStore } from './store.js';
import { seed } from './workloads.js';

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'floor' | 'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another ecosystem.
 * @property {string} [comparedWith] - The name of the Plant Store that it is compared with.
 * @property {string} durability - Where a plant is stored when a create returns.
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
  const earlier = against && join(against, 'dist/main.js');
  const url = process.env['BENCH_POSTGRES_URL'];
  return [
    {
      name: 'Fastify',
      kind: 'floor',
      comparedWith: onSqlite,
      durability: 'nothing is stored',
      prepare: async () => ({
        options: { script: beside('floors/fastify.js') },
        tokenOf: (subject) => subject,
      }),
    },
    peer('express + express-openapi-validator', 'express.js'),
    peer('Hono + zod-openapi', 'hono.js'),
    peer('fastify-openapi-glue, plain', 'glue.js', { PEER_STORE: './store.js' }),
    {
      ...peer('axum + rusqlite (Rust)', 'axum.js', { PEER_PROGRAM: 'rusqlite' }),
      kind: 'foreign',
      durability: 'on disk, group commit',
    },
    ...(earlier === undefined
      ? []
      : [
          before('Plant Store before', onSqlite, earlier),
          before('Plant Store before, 2 workers', `${onSqlite}, 2 workers`, earlier, twoWorkers),
        ]),
    plantStore(onSqlite, inFile),
    { ...plantStore(`${onSqlite}, 2 workers`, inFile, twoWorkers), comparedWith: onSqlite },
    ...(url === undefined ? [] : serversOn(url)),
  ];
}

/** The servers on PostgreSQL. @param {string} url @returns {Server[]} */
function serversOn(url) {
  const inSchema = () => createSchema(url);
  /** @param {string} name @param {string} program @param {Record<string, string>} env @returns {Server} */
  const peerOnPostgres = (name, program, env) => ({
    ...peer(name, program, env, async () => ({
      DATABASE_URL: await fillPeerSchema(await createSchema(url)),
    })),
    comparedWith: onPostgres,
  });
  return [
    {
      ...peerOnPostgres('axum + sqlx on PostgreSQL (Rust)', 'axum.js', { PEER_PROGRAM: 'sqlx' }),
      kind: 'foreign',
    },
    peerOnPostgres('fastify-openapi-glue, plain, on PostgreSQL', 'glue.js', {
      PEER_STORE: './postgres-store.js',
    }),
    { ...plantStore(onPostgres, inSchema), comparedWith: onSqlite },
  ];
}

/**
 * An alternative, in which the token of a subject is its name.
 * @param {string} name
 * @param {string} program - In peers/.
 * @param {Record<string, string>} [env]
 * @param {(folder: string) => Promise<Record<string, string>>} [createStore] - Returns the environment that names it.
 * @returns {Server}
 */
function peer(name, program, env = {}, createStore = createPeerFile) {
  return {
    name,
    kind: 'peer',
    comparedWith: onSqlite,
    durability: 'on disk, one commit per create',
    prepare: async (folder) => ({
      options: { script: beside(`peers/${program}`), env: { ...env, ...(await createStore(folder)) } },
      tokenOf: (subject) => subject,
    }),
  };
}

/**
 * @param {string} name
 * @param {(folder: string) => string | Promise<string>} createUrl
 * @param {Record<string, string>} [env]
 * @returns {Server}
 */
function plantStore(name, createUrl, env = {}) {
  return {
    name,
    kind: 'ours',
    durability: 'on disk, group commit',
    prepare: async (folder) => {
      const url = await createUrl(folder);
      const tokens = await fillStore(url, seed);
      return {
        options: { env: { DATABASE_URL: url, ...env } },
        tokenOf: (subject) => /** @type {string} */ (tokens.get(subject)),
      };
    },
  };
}

/**
 * @param {string} name
 * @param {string} comparedWith
 * @param {string} script
 * @param {Record<string, string>} [env]
 * @returns {Server}
 */
function before(name, comparedWith, script, env) {
  const server = plantStore(name, inFile, env);
  return {
    ...server,
    kind: 'before',
    comparedWith,
    prepare: async (folder) => {
      const { options, ...rest } = await server.prepare(folder);
      return { options: { ...options, script }, ...rest };
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
  await query(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE; CREATE SCHEMA ${schema}`);
  const own = new URL(url);
  own.searchParams.set('options', `-c search_path=${schema}`);
  return own.href;
}

/**
 * Creates the table of the peers on PostgreSQL, and fills it.
 * @param {string} url
 * @returns {Promise<string>} The URL.
 */
async function fillPeerSchema(url) {
  await query(
    url,
    `CREATE TABLE plants (
       subject text COLLATE "C", id bigint, name text NOT NULL, tag text, PRIMARY KEY (subject, id))`,
  );
  await query(
    url,
    `INSERT INTO plants SELECT subject, -id, 'Monstera deliciosa', 'indoor'
     FROM unnest($1::text[], $2::int[]) AS seed (subject, plants), generate_series(1, plants) AS id`,
    [seed.map(({ subject }) => subject), seed.map(({ plants }) => plants)],
  );
  await query(url, 'ANALYZE plants');
  return url;
}

/** @param {string} url @param {string} text @param {unknown[]} [values] */
async function query(url, text, values) {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(text, values);
  } finally {
    await client.end();
  }
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
