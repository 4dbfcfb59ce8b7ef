// The library that prove:threads disturbs: its store, its process, and the leftovers that it must not have.
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import { embeddedPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { runCommand, startServer } from '../../packages/server/test/support/server-process.js';
import { required } from '../lib/processes.js';
import { send } from '../lib/request.js';

/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** The number of log lines that are kept for the report. */
const keptLines = 40;
const library = fileURLToPath(new URL('../../examples/library/dist/', import.meta.url));
const storeName = 'library.db';

/** The engine that stores the documents. @typedef {'sqlite' | 'postgres'} Engine */
/**
 * @typedef {object} WorldOptions
 * @property {string} [server] - The program that serves, if not the library's own.
 * @property {string} [nodeOptions] - NODE_OPTIONS of the server.
 * @property {Engine} engine
 * @property {readonly number[]} counts - How many threads serve, one of these numbers after each start.
 */

/** One run of the server after another, on one store. */
export class World {
  #options;
  #root = mkdtempSync(join(tmpdir(), 'prove-threads-'));
  #adminPort = 0;
  /** @type {import('../../packages/server/test/support/server-process.js').ServerProcess | undefined} */
  #server;
  /** The last lines of the log without requests. @type {string[]} */
  #lines = [];
  /** The port of the service; the same for all runs. */
  port = 0;
  storeFolder = join(this.#root, 'store');
  /** The path of the SQLite file. */
  store = join(this.storeFolder, storeName);
  /** Where backups are made. */
  backupFolder = join(this.#root, 'backups');
  /** The PostgreSQL server, if the documents are on one. @type {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer | undefined} */
  postgres;

  /** @param {WorldOptions} options */
  constructor(options) {
    this.#options = options;
    for (const folder of [this.storeFolder, this.backupFolder]) mkdirSync(folder);
    process.once('exit', () => this.remove());
  }

  get engine() {
    return this.#options.engine;
  }

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }

  get #databaseUrl() {
    return this.postgres?.url() ?? `file:${this.store}`;
  }

  /** Creates the store. @param {readonly string[]} subjects @returns {Promise<string[]>} A token for each subject. */
  async prepare(subjects) {
    this.port = await getPort({ host: '127.0.0.1' });
    this.#adminPort = await getPort({ host: '127.0.0.1', exclude: [this.port] });
    if (this.engine === 'postgres') this.postgres = await (await embeddedPostgres()).createServer('data');
    await this.command('migrate');
    const tokens = [];
    for (const subject of subjects) tokens.push(await this.command('token', 'create', subject));
    return tokens;
  }

  /**
   * Runs a command on the store, as an operator does.
   * @param {string[]} args
   * @returns {Promise<string>} What it printed.
   * @throws {Error} when it fails.
   */
  command(...args) {
    return runCommand(join(library, 'cli.js'), { DATABASE_URL: this.#databaseUrl }, ...args);
  }

  /** Starts the server, and waits until it serves. @throws {Error} when it ends instead. */
  async start() {
    const { server: script = join(library, 'main.js'), nodeOptions = '', counts } = this.#options;
    this.#server = await startServer({
      script,
      launcher: ['prlimit', `--nofile=${descriptors}`],
      env: {
        DATABASE_URL: this.#databaseUrl,
        PORT: String(this.port),
        OPS_PORT: String(this.#adminPort),
        NODE_OPTIONS: nodeOptions,
        WORKERS: String(counts[Math.floor(Math.random() * counts.length)]),
        SHUTDOWN_SECONDS: '1',
        // A slow machine must not cause 503s here.
        MAX_EVENT_LOOP_DELAY_MS: '0',
      },
      onLog: ({ requestId, ...entry }) => {
        if (requestId === undefined) this.#lines.push(JSON.stringify(entry).slice(0, 300));
        this.#lines = this.#lines.slice(-keptLines);
      },
    });
  }

  /** The process of the server. @returns {number} */
  get pid() {
    const { pid } = this.#server?.child ?? {};
    if (pid === undefined) throw new Error('no server has been started');
    return pid;
  }

  /** Whether the server runs. */
  get runs() {
    const { child } = this.#server ?? {};
    return child?.exitCode === null && child.signalCode === null;
  }

  /**
   * Ends the server, if it runs, by a signal.
   * @param {NodeJS.Signals} signal
   * @returns {Promise<number | string | undefined>} Its status or the signal that ended it.
   * @throws {Error} when it takes too long.
   */
  async end(signal) {
    const ended = this.#server?.end(signal);
    await required('the server has ended', () => !this.runs);
    return ended;
  }

  /** Whether the service reports that it is ready, all of its threads. */
  async ready() {
    const admin = `http://127.0.0.1:${this.#adminPort}`;
    return (await send(admin, { path: '/readyz' }, { timeout: 10_000 })).status === 200;
  }

  /** What a graceful end must not leave in the folder of the store: anything but the store itself. */
  get leftovers() {
    return readdirSync(this.storeFolder).filter((name) => !name.startsWith(storeName));
  }

  /** The last lines of the log, and what the server has printed besides. */
  get output() {
    return [...this.#lines, this.#server?.stderr() ?? ''];
  }

  /** Ends everything, and removes all folders. */
  remove() {
    this.#server?.child.kill('SIGKILL');
    void this.postgres?.stop();
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }
}
