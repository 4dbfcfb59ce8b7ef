// The library that prove:threads disturbs: its store, its process, and the leftovers that it must not have.
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import getPort from 'get-port';
import {
  embeddedPostgres,
  runSql,
  systemPostgres,
} from '../../packages/server/test/support/postgres-cluster.js';
import { runCommand, startServer } from '../../packages/server/test/support/server-process.js';
import { required, signalAll } from '../lib/processes.js';
import { send } from '../lib/request.js';

/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** For how long a standby receives nothing before an asynchronous failover, in ms. */
const behind = 1_000;
/** The number of log lines that are kept for the report. */
const keptLines = 40;
const library = fileURLToPath(new URL('../../examples/library/dist/', import.meta.url));
const storeName = 'library.db';

/** What stores the documents; `standby` is PostgreSQL with one. @typedef {'sqlite' | 'postgres' | 'standby'} Engine */
/** @typedef {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer} PostgresServer */
/**
 * @typedef {object} WorldOptions
 * @property {string} [server] - The program that serves, if not the library's own.
 * @property {string} [nodeOptions] - NODE_OPTIONS of the server.
 * @property {Engine} engine
 * @property {true} [asynchronous] - Whether a commit does not wait for the standby.
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
  /** The PostgreSQL server, if the documents are on one. @type {PostgresServer | undefined} */
  postgres;
  /** @type {import('../../packages/server/test/support/postgres-cluster.js').PostgresCluster | undefined} */
  #cluster;
  /** @type {PostgresServer | undefined} */
  #standby;
  #standbys = 0;

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
    if (this.engine !== 'sqlite') {
      this.#cluster = await (this.engine === 'standby' ? systemPostgres() : embeddedPostgres());
      this.postgres = await this.#cluster.createServer('data', this.#replication);
      if (this.engine === 'standby') await this.#addStandby();
    }
    await this.command('migrate');
    const tokens = [];
    for (const subject of subjects) tokens.push(await this.command('token', 'create', subject));
    return tokens;
  }

  /** @returns {Record<string, string>} */
  get #replication() {
    const waits = this.engine === 'standby' && this.#options.asynchronous !== true;
    return waits ? { synchronous_standby_names: '*' } : {};
  }

  /** Adds a standby, and waits until it has what the primary has. */
  async #addStandby() {
    const [cluster, primary] = [this.#cluster, this.postgres];
    if (cluster === undefined || primary === undefined) throw new Error('there is no primary');
    const data = await cluster.dataFolder(`standby-${++this.#standbys}`);
    const source = ['-h', '127.0.0.1', '-p', `${primary.port}`, '-U', 'postgres'];
    await cluster.run('pg_basebackup', '-D', data, '-R', '-c', 'fast', ...source);
    this.#standby = await cluster.startServer(data, this.#replication);
    const kind = this.#options.asynchronous === true ? 'async' : 'sync';
    const replicates = `SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '${kind}'`;
    const isReady = async () => (await runSql(primary.url(), replicates)).length === 1;
    await required('the standby replicates', isReady);
  }

  /** Kills the primary, and lets the standby take over its address, with a standby of its own. */
  async failOver() {
    const [cluster, primary, standby] = [this.#cluster, this.postgres, this.#standby];
    if (cluster === undefined || primary === undefined || standby === undefined)
      throw new Error('there is no standby');
    if (this.#options.asynchronous === true) {
      // What is acknowledged meanwhile does not reach the standby.
      const [sender] = await runSql(primary.url(), 'SELECT pid FROM pg_stat_replication');
      process.kill(Number(sender?.['pid']), 'SIGSTOP');
      await pause(behind);
    }
    signalAll(primary.processes(), 'SIGKILL');
    await primary.ended();
    await standby.stop('SIGINT');
    standby.port = primary.port;
    await standby.start();
    await cluster.run('pg_ctl', 'promote', '-D', standby.data, '-w');
    this.postgres = standby;
    await this.#addStandby();
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
    void this.#standby?.stop();
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }
}
