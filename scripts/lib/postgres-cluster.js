// PostgreSQL servers from the system's packages, and the service on them, for the scripts that prove and measure.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

const execute = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
if (newest === undefined) {
  console.error('PostgreSQL is missing: on Debian, "apt-get install postgresql" brings it.');
  process.exit(1);
}
const binaries = `/usr/lib/postgresql/${newest}/bin`;
// PostgreSQL refuses to run as root.
const id = Number(spawnSync('id', ['-u', 'postgres'], { encoding: 'utf8' }).stdout);
const user = process.getuid?.() === 0 ? { uid: id, gid: id } : {};

/** A folder that the servers may enter; it goes away with this process. */
export const folder = mkdtempSync(join(tmpdir(), 'plant-store-'));
chmodSync(folder, 0o711);
/** @type {Set<ChildProcess>} */
const children = new Set();
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/**
 * Runs one of PostgreSQL's programs.
 * @param {string} program
 * @param {string[]} args
 */
export async function run(program, ...args) {
  await execute(join(binaries, program), args, { ...user, cwd: folder });
}

/**
 * The folder of a server's data, empty for now.
 * @param {string} name
 */
export function dataFolder(name) {
  const data = join(folder, name);
  mkdirSync(data, { mode: 0o700 });
  if (user.uid !== undefined) chownSync(data, user.uid, user.uid);
  return data;
}

/** @param {string} name */
export async function initdb(name) {
  const data = dataFolder(name);
  await run('initdb', '-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--no-locale');
  return data;
}

/**
 * Starts a server.
 * @param {string} data
 * @param {number} port
 */
export async function startServer(data, port) {
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
  const child = spawn(join(binaries, 'postgres'), ['-D', data, ...settings.flatMap((set) => ['-c', set])], {
    ...user,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  children.add(child);
  await lineOf(child, child.stderr, /ready to accept/);
  return child;
}

/**
 * The process ids of a server: its own and those of its sessions.
 * @param {ChildProcess} server
 */
export function processesOf(server) {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', `${server.pid}`], { encoding: 'utf8' });
  return [/** @type {number} */ (server.pid), ...stdout.trim().split(/\s+/).filter(Boolean).map(Number)];
}

/**
 * Runs plant-store and gives what it printed.
 * @param {string} url
 * @param {string[]} args
 */
export async function plantStore(url, ...args) {
  const env = { ...process.env, DATABASE_URL: url };
  const { stdout } = await execute(process.execPath, ['dist/cli.js', ...args], { cwd: root, env });
  return stdout.trim();
}

/**
 * Starts a copy of the service.
 * @param {string} url
 * @param {Record<string, string>} env
 */
export async function startService(url, env = {}) {
  const port = await freePort();
  const child = spawn(process.execPath, ['dist/main.js'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, DATABASE_URL: url, PORT: `${port}`, HOST: '127.0.0.1', ...env },
  });
  children.add(child);
  await lineOf(child, child.stdout, /is ready/);
  child.stdout.resume();
  return { child, base: `http://127.0.0.1:${port}` };
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * @param {ChildProcess} child
 * @param {import('node:stream').Readable} stream
 * @param {RegExp} pattern
 * @returns {Promise<void>}
 */
function lineOf(child, stream, pattern) {
  /** @type {string[]} */
  const lines = [];
  return new Promise((resolve, reject) => {
    createInterface(stream).on('line', (line) => {
      if (lines.length < 50) lines.push(line);
      if (pattern.test(line)) resolve();
    });
    child.once('exit', () => {
      children.delete(child);
      reject(new Error(`a process ended at its start:\n${lines.join('\n')}`));
    });
  });
}
