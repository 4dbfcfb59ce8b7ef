// The library that prove:threads disturbs: its store, its process, and what it must not leave behind.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import getPort from 'get-port';
import { embeddedPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { run } from '../../packages/server/test/support/server-process.js';
import { required } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { newConnectionId } from './threads-load.js';

/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** How many lines of the log are kept for the report. */
const keptLines = 40;
/** The name of the SQLite store; names that begin with it are its other files. */
const storeName = 'library.db';

/** What the documents are stored in. @typedef {'sqlite' | 'postgres'} Engine */
/**
 * @typedef {object} WorldOptions
 * @property {string} root - The folder of a build of the project.
 * @property {string} [server] - The program that serves, if not the library's own.
 * @property {Engine} engine
 * @property {readonly number[]} counts - How many threads serve, one of these numbers after each start.
 */

/** One run of the server after another, on one store. */
export class World {
  #options;
  #library;
  #root = mkdtempSync(join(tmpdir(), 'prove-threads-'));
  #adminPort = 0;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #server;
  /** The status of the last server, or the signal, once it has ended. @type {number | string | undefined} */
  #status;
  /** When each thread last served a new connection, in ms since the epoch. @type {Map<string, number>} */
  #served = new Map();
  /** The port of the service; the same for all runs. */
  port = 0;
  storeFolder = join(this.#root, 'store');
  /** The path of the SQLite file. */
  store = join(this.storeFolder, storeName);
  /** Where files of the store are moved; on the same file system. */
  awayFolder = join(this.#root, 'away');
  /** Where backups are made. */
  backupFolder = join(this.#root, 'backups');
  /** The PostgreSQL server, if the documents are on one. @type {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer | undefined} */
  postgres;
  /** The last lines of the log, and what the server printed besides. @type {string[]} */
  lines = [];
  /** How many threads of the running server serve. */
  threads = 0;

  /** @param {WorldOptions} options */
  constructor(options) {
    this.#options = options;
    this.#library = join(options.root, 'examples/library/dist');
    for (const folder of [this.storeFolder, this.awayFolder, this.backupFolder]) mkdirSync(folder);
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
  async command(...args) {
    const environment = { DATABASE_URL: this.#databaseUrl };
    const { code, stdout, stderr } = await run(join(this.#library, 'cli.js'), args, environment);
    if (code !== 0) throw new Error(`"${args.join(' ')}" ended with ${code}: ${stderr.trim()}`);
    return stdout.trim();
  }

  /**
   * Starts the server, and waits until it serves.
   * @param {import('./threads-random.js').Random} random - Says how many these are.
   * @throws {Error} when it ends instead, or takes too long.
   */
  async start(random) {
    this.launch(random.pick(this.#options.counts));
    const status = await this.settled();
    if (status !== undefined) throw new Error(`the server ended with ${status} at its start`);
  }

  /** Waits until the server is ready, or has ended; then returns its status or the signal. */
  async settled() {
    await required('the server has started', async () => this.#status !== undefined || (await this.ready()));
    return this.#status;
  }

  /** Starts the server. @param {number} threads */
  launch(threads) {
    this.threads = threads;
    this.#served.clear();
    this.#status = undefined;
    const { server = join(this.#library, 'main.js') } = this.#options;
    const started = spawn('prlimit', [`--nofile=${descriptors}`, process.execPath, server], {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: this.#databaseUrl,
        HOST: '127.0.0.1',
        PORT: String(this.port),
        OPS_PORT: String(this.#adminPort),
        WORKERS: String(threads),
        SHUTDOWN_SECONDS: '1',
        // A slow machine must not cause 503s here.
        MAX_EVENT_LOOP_DELAY_MS: '0',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#server = started;
    void once(started, 'exit').then(([code, signal]) => (this.#status = code ?? signal));
    createInterface({ input: started.stdout }).on('line', (line) => this.#readLog(line));
    createInterface({ input: started.stderr }).on('line', (line) => this.#keep(line));
  }

  /** @param {string} line */
  #readLog(line) {
    if (line !== '' && !line.includes('"requestId"')) this.#keep(line);
    const thread = /"thread":(\d+)/.exec(line)?.[1];
    const time = /"time":(\d+)/.exec(line)?.[1];
    if (line.includes(newConnectionId)) this.#served.set(thread ?? 'the only one', Number(time));
  }

  /** @param {string} line */
  #keep(line) {
    this.lines.push(line.slice(0, 300));
    if (this.lines.length > keptLines) this.lines.shift();
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
    const { pid } = this.#server ?? {};
    if (pid === undefined) throw new Error('no server has been started');
    return pid;
  }

  /** Whether the server runs. */
  get runs() {
    return this.#server !== undefined && this.#status === undefined;
  }

  /** Waits until the server has exited; returns its status or the signal. @throws {Error} when it takes too long. */
  async exited() {
    await required('the server has ended', () => this.#status !== undefined);
    return this.#status;
  }

  /** Whether the service reports that it is ready, all of its threads. */
  async ready() {
    return (await this.#admin('/readyz')).status === 200;
  }

  /** @param {string} path */
  #admin(path) {
    return send(`http://127.0.0.1:${this.#adminPort}`, { path }, { timeout: 10_000 });
  }

  /** What a graceful exit must not leave: anything in its folders but the store itself. */
  leftovers() {
    const beside = readdirSync(this.storeFolder).filter((name) => !name.startsWith(storeName));
    return [
      ...readdirSync(this.awayFolder).map((name) => `${name} in the folder of moved files`),
      ...beside.map((name) => `${name} beside the store`),
    ];
  }

  /** Kills the server, if it runs. */
  kill() {
    if (this.runs) process.kill(this.pid, 'SIGKILL');
  }

  /** Ends everything, and removes all folders. */
  remove() {
    this.kill();
    void this.postgres?.stop();
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }
}
