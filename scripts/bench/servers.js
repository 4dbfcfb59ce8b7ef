// Defines the servers that are compared, and prepares their stores.
import { copyFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fillStore } from './store.js';
import { seed } from './workloads.js';

/**
 * A server, and how to start it.
 * @typedef {object} Server
 * @property {string} name
 * @property {'limit' | 'floor' | 'peer' | 'foreign' | 'ours' | 'before'} kind - A foreign one is of another
 *   ecosystem.
 * @property {string} durability - Where a plant is stored when a create returns.
 * @property {(folder: string) => Promise<Prepared>} prepare - Creates its store, in the folder if it is a file.
 *
 * @typedef {object} Prepared
 * @property {import('../lib/server-process.js').ServerOptions} options
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
    peer('fastify-openapi-glue, plain', 'peers/glue.js'),
    { ...peer('axum + rusqlite (Rust)', 'peers/axum.js'), kind: 'foreign', durability: inGroups },
    ...(against === undefined
      ? []
      : [plantStore('Plant Store before', 'before', inFolder('before.db'), join(against, 'dist/main.js'))]),
    plantStore('Plant Store on SQLite', 'ours', inFolder('ours.db')),
    plantStore('Plant Store on SQLite, 2 workers', 'ours', inFolder('workers.db'), undefined, {
      WORKERS: '2',
    }),
    ...(postgres === undefined ? [] : [plantStore('Plant Store on PostgreSQL', 'ours', () => postgres)]),
  ];
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

/** @param {string} name @param {string} path @returns {Server} */
function peer(name, path) {
  return {
    name,
    kind: 'peer',
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
        options: { script: beside(path), env: { PLANTS_FILE: file } },
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
 * @param {(folder: string) => string} urlIn
 * @param {string} [script]
 * @param {Record<string, string>} [env]
 * @returns {Server}
 */
function plantStore(name, kind, urlIn, script, env = {}) {
  return {
    name,
    kind,
    durability: inGroups,
    prepare: async (folder) => {
      const url = urlIn(folder);
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
