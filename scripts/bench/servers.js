// The servers that are compared, and how each gets its store.
import { copyFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startMeasured } from './measured-server.js';
import { fillStore } from './store.js';
import { seed } from './workloads.js';

/**
 * @typedef {object} Server
 * @property {string} name
 * @property {'limit' | 'floor' | 'peer' | 'ours'} kind
 * @property {string} durability - What is true of a create once it is answered.
 * @property {(folder: string) => Promise<Running>} start
 *
 * @typedef {import('./measured-server.js').MeasuredServer & { tokenOf: (subject: string) => string, refusedPath: string, remembers: boolean }} Running
 */

const constant = 'keeps nothing';
const durable = 'on the disk, a commit each';

/** @returns {Server[]} */
export function allServers() {
  const postgres = process.env['BENCH_POSTGRES_URL'];
  return [
    floor('generator limit', 'floors/socket.js', 'limit'),
    floor('node:http', 'floors/http.js', 'floor'),
    floor('Fastify', 'floors/fastify.js', 'floor', '/refused'),
    peer('express + express-openapi-validator', 'peers/express.js'),
    peer('NestJS', 'peers/nest.js'),
    peer('Hono + zod-openapi', 'peers/hono.js'),
    peer('fastify-openapi-glue, plain', 'peers/glue.js'),
    ours('Plant Store on SQLite', (folder) => `file:${join(folder, 'ours.db')}`),
    ...(postgres === undefined ? [] : [ours('Plant Store on PostgreSQL', () => postgres)]),
  ];
}

/** @param {string} path */
function beside(path) {
  return fileURLToPath(new URL(path, import.meta.url));
}

/** @param {string} name @param {string} script @param {'limit' | 'floor'} kind @returns {Server} */
function floor(name, script, kind, refusedPath = '/plants') {
  return {
    name,
    kind,
    durability: constant,
    start: async () => ({
      ...(await startMeasured({ script: beside(script) })),
      tokenOf: (subject) => subject,
      refusedPath,
      remembers: false,
    }),
  };
}

/** @type {Set<string>} */
const seeded = new Set();

/** @param {string} name @param {string} script @returns {Server} */
function peer(name, script) {
  return {
    name,
    kind: 'peer',
    durability: durable,
    start: async (folder) => {
      const template = join(folder, 'peers.db');
      if (!seeded.has(folder)) {
        // The peers' packages are not there before the benchmark has installed them.
        const { seedStore } = await import(new URL('peers/store.js', import.meta.url).href);
        seedStore(template, seed);
        seeded.add(folder);
      }
      const file = join(folder, `${basename(script)}.db`);
      await copyFile(template, file);
      return {
        ...(await startMeasured({ script: beside(script), env: { PLANTS_FILE: file } })),
        tokenOf: (subject) => subject,
        refusedPath: '/plants',
        remembers: true,
      };
    },
  };
}

/** @param {string} name @param {(folder: string) => string} urlIn @returns {Server} */
function ours(name, urlIn) {
  return {
    name,
    kind: 'ours',
    durability: 'on the disk, in groups',
    start: async (folder) => {
      const url = urlIn(folder);
      const tokens = await fillStore(url, seed);
      return {
        ...(await startMeasured({ env: { DATABASE_URL: url } })),
        tokenOf: (subject) => /** @type {string} */ (tokens.get(subject)),
        refusedPath: '/plants',
        remembers: true,
      };
    },
  };
}
