// Checks that a backup of a SQLite store can be restored: starts a server on a copy of it, and writes and reads a plant.
//
//   node deploy/restore-drill.js BACKUP [PLANTS]
//
// It fails, too, if the backup does not have as many PLANTS. The copy is made beside the backup and removed at the end.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const [backup, expected] = process.argv.slice(2);
if (backup === undefined) throw new Error('usage: node deploy/restore-drill.js BACKUP [PLANTS]');
const dist = fileURLToPath(new URL('../dist/', import.meta.url));
const folder = mkdtempSync(join(dirname(resolve(backup)), 'drill-'));
const store = join(folder, 'plants.db');
/** The settings of the server, without those that would keep it from starting here, or from saying where. */
const env = {
  ...process.env,
  ...{ HOST: '127.0.0.1', PORT: '0', OPS_PORT: '', TLS_CERT_FILE: '', TLS_KEY_FILE: '' },
  ...{ WORKERS: '1', LOG_LEVEL: 'info', DATABASE_URL: `file:${store}` },
};
/** Runs a command on the copy, and returns its output. @param {string[]} args */
const plantStore = (...args) =>
  execFileSync(process.execPath, [join(dist, 'cli.js'), ...args], { env, encoding: 'utf8', stdio: 'pipe' });

/** Starts a server on the copy. @returns {Promise<{ origin: string, end: () => Promise<unknown> }>} */
async function start() {
  const server = spawn(process.execPath, [join(dist, 'main.js')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  process.once('exit', () => server.kill('SIGKILL'));
  const ended = once(server, 'exit');
  const lines = createInterface(server.stdout);
  /** @type {Promise<string>} */
  const ready = new Promise((resolve) => {
    lines.on('line', (line) => {
      const { contract } = JSON.parse(line);
      if (contract !== undefined) resolve(new URL(contract).origin);
    });
  });
  const origin = await Promise.race([ready, ended.then(() => undefined)]);
  if (origin === undefined) throw new Error(`no server starts on ${backup}`);
  return { origin, end: () => (server.kill(), ended) };
}

/** Fails unless a plant can be created and listed. @param {string} origin */
async function checkPlants(origin) {
  const headers = {
    authorization: `Bearer ${plantStore('token', 'create', 'restore drill').trim()}`,
    'content-type': 'application/json',
  };
  const url = `${origin}/plants`;
  const body = '{"id":1,"name":"Restored"}';
  const created = await fetch(url, { method: 'POST', headers, body });
  const listed = await (await fetch(url, { headers })).text();
  if (created.status !== 200 || listed !== '[{"name":"Restored"}]')
    throw new Error(`a create returned ${created.status}, and the list was ${listed}`);
}

try {
  copyFileSync(backup, store);
  const { plants } = JSON.parse(plantStore('export', join(folder, 'plants.jsonl'), '--json'));
  if (expected !== undefined && plants !== Number(expected))
    throw new Error(`${backup} has ${plants} plants, not ${expected}`);
  const { origin, end } = await start();
  await checkPlants(origin);
  await end();
  console.log(`${backup} can be restored. It has ${plants} plants.`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
