// Proves with strace that no write is acknowledged before it is on the disk: between the last byte that a commit writes
// to the write-ahead log and the answer to the client lies an fdatasync of that log. It then switches syncing off, and
// fails unless the same proof fails. Linux only; run "npm run build" first.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { issueToken } from '../../dist/http/security/access-token.js';
import { buildApp } from '../../dist/app.js';
import { openSqlite } from '../../dist/storage/sqlite/storage.js';

const writes = 50;

if (process.argv[2] === 'serve')
  await serve(process.argv[3] ?? '', process.argv[4] === 'OFF' ? 'OFF' : 'FULL');
else await prove();

async function prove() {
  if (spawnSync('strace', ['-V']).error !== undefined) {
    console.error('SKIPPED: the durability proof needs strace, which is not installed.');
    process.exit(process.env['CI'] ? 1 : 0);
  }
  const full = await trace('FULL');
  console.log(
    `synchronous = FULL: ${full} of ${2 * writes} acknowledged writes were on the disk before their answer`,
  );
  const off = await trace('OFF');
  console.log(`synchronous = OFF:  ${off} of ${2 * writes}, so the proof can fail`);
  if (full !== 2 * writes || off === 2 * writes) {
    console.error('FAILED: durability is not proven.');
    process.exit(1);
  }
}

/**
 * Creates and deletes plants one by one on a traced server.
 * @param {'FULL' | 'OFF'} synchronous
 * @returns {Promise<number>} How many of the answers came after a sync of all that the log had got.
 */
async function trace(synchronous) {
  const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
  const output = join(folder, 'trace');
  const calls = 'trace=fdatasync,fsync,pwrite64,write,writev';
  const self = [
    process.execPath,
    fileURLToPath(import.meta.url),
    'serve',
    join(folder, 'plants.db'),
    synchronous,
  ];
  const server = spawn('strace', ['-f', '-y', '-s', '16', '-e', calls, '-o', output, ...self], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface(server.stdout), 'line');
  const { origin, token } = JSON.parse(String(line));
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  for (let id = 0; id < writes; id++) {
    const body = JSON.stringify({ id, name: 'a' });
    const created = await fetch(`${origin}/plants`, { method: 'POST', headers, body });
    await created.text();
    const deleted = await fetch(`${origin}/plants/${id}`, { method: 'DELETE', headers });
    if (created.status !== 200 || deleted.status !== 204) throw new Error('a write was not acknowledged');
  }
  server.stdin.end();
  await once(server, 'exit');
  const proven = countSynced(readFileSync(output, 'utf8'));
  rmSync(folder, { recursive: true });
  return proven;
}

/**
 * Reads a trace: an answer counts when the log was written since the last answer, and synced after that.
 * @param {string} text
 */
function countSynced(text) {
  let written = false;
  let synced = false;
  let proven = 0;
  /** Calls that another thread's interrupted, by process id. @type {Map<string, string>} */
  const unfinished = new Map();
  for (const line of text.split('\n')) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(pid, rest);
      // An answer is given when it begins to be written, a sync is done when it has returned.
      if (!isAnswer(rest)) continue;
    }
    const call = rest.startsWith('<...') ? (unfinished.get(pid) ?? '') : rest;
    if (isAnswer(call) && !rest.startsWith('<...')) {
      if (written && synced) proven++;
      written = synced = false;
    } else if (/^pwrite64\(\d+<[^>]*-wal>/.test(call)) {
      written = true;
      synced = false;
    } else if (/^f(data)?sync\(\d+<[^>]*-wal>/.test(call) && rest.endsWith('= 0')) {
      synced = true;
    }
  }
  return proven;
}

/** @param {string} call */
function isAnswer(call) {
  return /^writev?\(\d+<(socket|TCP)[^]*"HTTP\/1\.1 20/.test(call);
}

/**
 * The server under trace; it ends when its standard input does.
 * @param {string} file
 * @param {'FULL' | 'OFF'} synchronous
 */
async function serve(file, synchronous) {
  const storage = await openSqlite({ file, synchronous });
  const app = await buildApp({ storage });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { secret } = await issueToken(storage.tokens, {
    subject: 'dev',
    scopes: ['plants:read', 'plants:write'],
    now: Date.now(),
  });
  console.log(JSON.stringify({ origin: app.listeningOrigin, token: secret }));
  process.stdin.resume();
  await once(process.stdin, 'end');
  await app.close();
  await storage.close();
}
