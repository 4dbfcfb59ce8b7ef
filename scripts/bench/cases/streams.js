// Measures how long a list of one document takes beside 60 clients of another subject that read long responses as fast as
// they can: JSON lists, and streams (the CSV of examples/library), alternately. Also measures the memory of the server.
//
//   npm run build && npm run build:services && node scripts/bench/cases/streams.js
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { loans } from '../../../examples/library/dist/loans.js';
import { service } from '../../../examples/library/dist/service.js';
import { issueToken } from '../../../packages/server/dist/storage/access-token.js';
import { openStorage } from '../../../packages/server/dist/storage/open.js';
import { startServer } from '../../../packages/server/test/support/server-process.js';
import { max, median } from 'simple-statistics';
import { memoryOf } from '../../lib/processes.js';
import { send } from '../../lib/request.js';
import { alternate } from '../measure.js';

const readers = 60;
const rounds = Number(process.argv[2] ?? 3);
const roundTime = 6_000;
/** How long the readers read before a round is measured, in ms. */
const warmTime = 1_000;
const loansOfReaders = 50_000;
const target = 1.5;

const folder = await mkdtemp(join(tmpdir(), 'plant-store-bench-'));
try {
  const DATABASE_URL = `file:${join(folder, 'library.db')}`;
  const [many, one] = await fill(DATABASE_URL);
  const script = fileURLToPath(new URL('../../../examples/library/dist/main.js', import.meta.url));
  // A lag of the event loop is what is measured.
  const env = { DATABASE_URL, MAX_EVENT_LOOP_DELAY_MS: '0' };
  const server = await startServer({ script, env, measured: true });
  const measured = await alternate(rounds, ['/loans', '/loans.csv'], async (path) => {
    const reading = read(server.port, path, many);
    await pause(warmTime);
    const result = await listOne(server, one);
    return { ...result, bytes: reading.stop() / (roundTime + warmTime) / 1000 };
  });
  const [lists, streams] = measured.map((results) => {
    const times = results.flatMap((result) => result.times);
    const [middle, slowest] = [median(times), max(times)].map((time) => Math.round(time));
    const most = Math.round(Math.max(...results.map(({ memory }) => memory)));
    const rate = Math.round(median(results.map(({ bytes }) => bytes)));
    return {
      middle: Number(middle),
      shown: `${middle} ms, at most ${slowest}; ${most} MiB, ${rate} MB/s read`,
    };
  });
  console.log(`beside ${readers} lists:   ${lists?.shown}`);
  console.log(`beside ${readers} streams: ${streams?.shown}`);
  const ratio = Number(streams?.middle) / Number(lists?.middle);
  console.log(`ratio ${ratio.toFixed(2)}, ${ratio <= target ? 'within' : 'beyond'} ${target}`);
  await server.end();
} finally {
  await rm(folder, { recursive: true, force: true });
}

/**
 * Fills a store with the loans of two subjects: many, and one.
 * @param {string} url
 * @returns {Promise<[string, string]>} Their tokens.
 */
async function fill(url) {
  const storage = await openStorage(service, url);
  const all = storage.collection(loans);
  const { scopes, tokenPrefix: prefix } = service;
  const subjects = { many: loansOfReaders, one: 1 };
  for (const [subject, count] of Object.entries(subjects))
    for (let from = 0; from < count; from += 10_000)
      await Promise.all(
        Array.from({ length: Math.min(count, 10_000) }, (_, i) => {
          const text = `{"copy":${from + i},"isbn":"9780141439600","borrower":"Ada Lovelace","due":"2026-12-01","renewals":0}`;
          return all.write(subject, BigInt(from + i), { when: 'absent', text });
        }),
      );
  const tokens = await Promise.all(
    Object.keys(subjects).map((subject) =>
      issueToken(storage.tokens, { prefix, subject, scopes, now: Date.now() }),
    ),
  );
  await storage.close();
  return [String(tokens[0]?.secret), String(tokens[1]?.secret)];
}

/**
 * Reads a path with all readers, again and again, until it is stopped.
 * @param {number} port
 * @param {string} path
 * @param {string} token
 */
function read(port, path, token) {
  let stopped = false;
  let bytes = 0;
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set();
  const start = () => {
    if (stopped) return;
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    sockets.add(socket);
    socket.on('data', (chunk) => (bytes += chunk.length));
    socket.on('close', () => {
      sockets.delete(socket);
      start();
    });
    const fields = `Host: x\r\nConnection: close\r\nAuthorization: Bearer ${token}`;
    socket.write(`GET ${path} HTTP/1.1\r\n${fields}\r\n\r\n`);
  };
  for (let i = 0; i < readers; i++) start();
  return {
    stop: () => {
      stopped = true;
      for (const socket of sockets) socket.destroy();
      return bytes;
    },
  };
}

/**
 * Lists the only loan of a subject, again and again, at least three times.
 * @param {import('../../../packages/server/test/support/server-process.js').ServerProcess} server
 * @param {string} token
 */
async function listOne(server, token) {
  const agent = new Agent({ keepAlive: true });
  /** The times of the requests, in ms. @type {number[]} */
  const times = [];
  let memory = 0;
  for (const end = performance.now() + roundTime; performance.now() < end || times.length < 3;) {
    const begin = performance.now();
    const { status, text } = await send(server.origin, { path: '/loans', token }, { agent });
    if (status !== 200) throw new Error(`the list of one failed: ${status} ${text}`);
    times.push(performance.now() - begin);
    memory = Math.max(memory, memoryOf(Number(server.child.pid)));
  }
  agent.destroy();
  return { times, memory };
}
