// Proves with strace that no write is acknowledged before it is on disk: after a commit's last write to the write-ahead
// log, the log is synced before the response is sent. As a control, the proof must fail with syncing disabled.
// Linux only; run "npm run build" first.
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
    `synchronous = FULL: ${full} of ${2 * writes} acknowledged writes were on disk before their response`,
  );
  const off = await trace('OFF');
  console.log(`synchronous = OFF:  ${off} of ${2 * writes} (the control: must be lower)`);
  if (full !== 2 * writes || off === 2 * writes) {
    console.error('FAILED: durability is not proved.');
    process.exit(1);
  }
}

/**
 * Creates and deletes plants one by one on a traced server.
 * @param {'FULL' | 'OFF'} synchronous
 * @returns {Promise<number>} How many responses were sent after a sync of all writes to the log.
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
 * Counts the responses in a trace before which the log was written and then synced, since the previous response.
 * @param {string} text
 */
function countSynced(text) {
  let written = false;
  let synced = false;
  let proven = 0;
  /** Calls whose trace line another thread's call interrupts, by thread. @type {Map<string, string>} */
  const unfinished = new Map();
  for (const line of text.split('\n')) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(pid, rest);
      // A response counts when its write begins, a sync when it returns.
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
 * Runs the traced server until its standard input ends.
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
