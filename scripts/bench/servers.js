// Defines the servers that are compared, and prepares their stores.
import { copyFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { fillStore } from './store.js';
import { seed } from './workloads.js';

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'limit' | 'floor' | 'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another
 *   ecosystem.
 * @property {'SQLite' | 'PostgreSQL'} engine - What stores its plants, if anything does.
 * @property {string} durability - Where a plant is stored when a create returns.
 * @property {(folder: string) => Promise<Prepared>} prepare - Creates its store, in the folder if it is a file.
 *
 * @typedef {object} Prepared
 * @property {import('../../test/support/server-process.js').ServerOptions} options
 * @property {(subject: string) => string} tokenOf
 * @property {string} refusedPath - The path that returns 401.
 * @property {boolean} remembers - Whether only existing plants can be deleted.
 */

const constant = 'nothing is stored';
const durable = 'on disk, one commit per create';
const inGroups = 'on disk, group commit';

/**
 * @param {string} [against] - The folder of another built Plant Store.
 * @returns {Server[]}
 */
export function allServers(against) {
  const postgres = process.env['BENCH_POSTGRES_URL'];
  return [
    floor('generator limit', 'floors/socket.js', 'limit'),
    floor('node:http', 'floors/http.js', 'floor'),
    floor('Fastify', 'floors/fastify.js', 'floor', '/refused'),
    peer('express + express-openapi-validator', 'peers/express.js'),
    peer('NestJS', 'peers/nest.js'),
    peer('Hono + zod-openapi', 'peers/hono.js'),
    peer('fastify-openapi-glue, plain', 'peers/glue.js', { PEER_STORE: './store.js' }),
    {
      ...peer('axum + rusqlite (Rust)', 'peers/axum.js', { PEER_PROGRAM: 'rusqlite' }),
      kind: 'foreign',
      durability: inGroups,
    },
    ...(against === undefined ? [] : onSqlite('Plant Store before', 'before', join(against, 'dist/main.js'))),
    ...onSqlite('Plant Store on SQLite', 'ours'),
    ...(postgres === undefined ? [] : serversOn(postgres)),
  ];
}

/**
 * One process, and two workers.
 * @param {string} name
 * @param {'ours' | 'before'} kind
 * @param {string} [script]
 */
function onSqlite(name, kind, script) {
  return [
    plantStore(name, kind, inFolder(`${kind}.db`), script),
    plantStore(`${name}, 2 workers`, kind, inFolder(`${kind}-workers.db`), script, { WORKERS: '2' }),
  ];
}

/** @param {string} url @returns {Server[]} */
function serversOn(url) {
  const prepared = { DATABASE_PREPARED: 'true' };
  const own = (/** @type {string} */ schema) => () => createSchema(url, schema);
  /** @type {Server[]} */
  const servers = [
    peerOnPostgres('axum + sqlx on PostgreSQL (Rust)', 'foreign', own('bench_sqlx'), 'peers/axum.js', {
      PEER_PROGRAM: 'sqlx',
    }),
    peerOnPostgres('fastify-openapi-glue, plain, on PostgreSQL', 'peer', own('bench_glue'), 'peers/glue.js', {
      PEER_STORE: './postgres-store.js',
    }),
    plantStore('Plant Store on PostgreSQL', 'ours', own('bench_default')),
    plantStore('Plant Store on PostgreSQL, prepared', 'ours', own('bench_prepared'), undefined, prepared),
  ];
  return servers.map((server) => ({ ...server, engine: 'PostgreSQL' }));
}

/** Creates an empty schema; returns the URL of a database in which it is the only one. @param {string} url */
async function createSchema(url, /** @type {string} */ schema) {
  await onPostgres(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE; CREATE SCHEMA ${schema}`);
  const own = new URL(url);
  own.searchParams.set('options', `-c search_path=${schema}`);
  return own.href;
}

/** @param {string} url @param {string} text @param {unknown[]} [values] */
async function onPostgres(url, text, values) {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(text, values);
  } finally {
    await client.end();
  }
}

/**
 * @param {string} name
 * @param {'peer' | 'foreign'} kind
 * @param {() => Promise<string>} createUrl
 * @param {string} path
 * @param {Record<string, string>} env
 * @returns {Server}
 */
function peerOnPostgres(name, kind, createUrl, path, env) {
  return {
    name,
    kind,
    engine: 'PostgreSQL',
    durability: durable,
    prepare: async () => {
      const url = await createUrl();
      await onPostgres(
        url,
        `CREATE TABLE plants (
           subject text COLLATE "C", id bigint, name text NOT NULL, tag text, PRIMARY KEY (subject, id))`,
      );
      await onPostgres(
        url,
        `INSERT INTO plants SELECT subject, -id, 'Monstera deliciosa', 'indoor'
         FROM unnest($1::text[], $2::int[]) AS seed (subject, plants), generate_series(1, plants) AS id`,
        [seed.map(({ subject }) => subject), seed.map(({ plants }) => plants)],
      );
      await onPostgres(url, 'ANALYZE plants');
      return {
        options: { script: beside(path), env: { ...env, DATABASE_URL: url } },
        tokenOf: (subject) => subject,
        refusedPath: '/plants',
        remembers: true,
      };
    },
  };
}

/** @param {string} path */
function beside(path) {
  return fileURLToPath(new URL(path, import.meta.url));
}

/** @param {string} name @param {string} path @param {'limit' | 'floor'} kind @returns {Server} */
function floor(name, path, kind, refusedPath = '/plants') {
  return {
    name,
    kind,
    engine: 'SQLite',
    durability: constant,
    prepare: async () => ({
      options: { script: beside(path) },
      tokenOf: (subject) => subject,
      refusedPath,
      remembers: false,
    }),
  };
}

/** @type {Set<string>} */
const seeded = new Set();

/** @param {string} name @param {string} path @param {Record<string, string>} env @returns {Server} */
function peer(name, path, env = {}) {
  return {
    name,
    kind: 'peer',
    engine: 'SQLite',
    durability: durable,
    prepare: async (folder) => {
      const template = join(folder, 'peers.db');
      if (!seeded.has(folder)) {
        // Imported late, because the benchmark installs the peers' packages when it runs.
        const { seedStore } = await import(new URL('peers/store.js', import.meta.url).href);
        seedStore(template, seed);
        seeded.add(folder);
      }
      const file = join(folder, `${basename(path)}.db`);
      await copyFile(template, file);
      return {
        options: { script: beside(path), env: { ...env, PLANTS_FILE: file } },
        tokenOf: (subject) => subject,
        refusedPath: '/plants',
        remembers: true,
      };
    },
  };
}

/** @param {string} file @returns {(folder: string) => string} */
function inFolder(file) {
  return (folder) => `file:${join(folder, file)}`;
}

/**
 * @param {string} name
 * @param {'ours' | 'before'} kind
 * @param {(folder: string) => string | Promise<string>} urlIn
 * @param {string} [script]
 * @param {Record<string, string>} [env]
 * @returns {Server}
 */
function plantStore(name, kind, urlIn, script, env = {}) {
  return {
    name,
    kind,
    engine: 'SQLite',
    durability: inGroups,
    prepare: async (folder) => {
      const url = await urlIn(folder);
      const tokens = await fillStore(url, seed);
      return {
        options: { ...(script !== undefined && { script }), env: { DATABASE_URL: url, ...env } },
        tokenOf: (subject) => /** @type {string} */ (tokens.get(subject)),
        refusedPath: '/plants',
        remembers: true,
      };
    },
  };
}
