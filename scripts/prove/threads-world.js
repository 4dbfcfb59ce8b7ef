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
import { newConnectionId } from './threads-load.js';

/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** The number of log lines that are kept for the report. */
const keptLines = 40;
/** The library's programs. */
const library = fileURLToPath(new URL('../../examples/library/dist/', import.meta.url));
/** The name of the SQLite store; names that begin with it are its other files. */
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
  /** When each thread last served a new connection, in ms since the epoch. @type {Map<unknown, number>} */
  #served = new Map();
  /** The port of the service; the same for all runs. */
  port = 0;
  storeFolder = join(this.#root, 'store');
  /** The path of the SQLite file. */
  store = join(this.storeFolder, storeName);
  /** Where backups are made. */
  backupFolder = join(this.#root, 'backups');
  /** The PostgreSQL server, if the documents are on one. @type {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer | undefined} */
  postgres;
  /** The last lines of the log without requests. @type {string[]} */
  #lines = [];
  /** The number of threads of the running server that serve. */
  threads = 0;

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

  /**
   * Starts the server, and waits until it serves.
   * @param {import('./threads-random.js').Random} random - Says how many threads do.
   * @throws {Error} when it ends instead, or takes too long.
   */
  async start(random) {
    const status = await this.launch(random.pick(this.#options.counts));
    if (status !== undefined) throw new Error(`the server ended with ${status} at its start`);
  }

  /**
   * Starts the server, and waits until it serves, or has ended.
   * @param {number} threads
   * @returns {Promise<number | string | undefined>} The status or the signal with which it has ended.
   * @throws {Error} when it takes too long.
   */
  async launch(threads) {
    this.threads = threads;
    this.#served.clear();
    this.#server = undefined;
    const { server: script = join(library, 'main.js'), nodeOptions = '' } = this.#options;
    /** @type {number | string | undefined} */
    let status;
    startServer({
      script,
      launcher: ['prlimit', `--nofile=${descriptors}`],
      env: {
        DATABASE_URL: this.#databaseUrl,
        PORT: String(this.port),
        OPS_PORT: String(this.#adminPort),
        NODE_OPTIONS: nodeOptions,
        WORKERS: String(threads),
        SHUTDOWN_SECONDS: '1',
        // A slow machine must not cause 503s here.
        MAX_EVENT_LOOP_DELAY_MS: '0',
      },
      onLog: (entry) => this.#readLog(entry),
    }).then(
      (server) => (this.#server = server),
      ({ cause }) => (status = cause),
    );
    await required('the server has started', () => this.#server !== undefined || status !== undefined);
    return status;
  }

  /** @param {Record<string, unknown>} entry */
  #readLog({ thread = 'the only one', time, requestId, ...rest }) {
    if (requestId === newConnectionId) this.#served.set(thread, Number(time));
    if (requestId === undefined) this.#lines.push(JSON.stringify({ time, thread, ...rest }).slice(0, 300));
    if (this.#lines.length > keptLines) this.#lines.shift();
  }

  /**
   * How many threads have served new connections since a moment, as they logged it.
   * @param {number} moment - In ms since the epoch.
   */
  threadsWithNewConnections(moment) {
    return [...this.#served.values()].filter((time) => time > moment).length;
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

  /** Returns what a graceful exit must not leave in its folders: anything but the store itself. */
  leftovers() {
    const beside = readdirSync(this.storeFolder).filter((name) => !name.startsWith(storeName));
    return beside.map((name) => `${name} beside the store`);
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
