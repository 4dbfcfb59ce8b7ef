// The library that prove:workers disturbs: its store, its processes, its log, and what it must not leave behind.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import getPort from 'get-port';
import { embeddedPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { endWithThisProcess, run } from '../../packages/server/test/support/server-process.js';
import { readProcess, signalAll, until } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { newConnectionId } from './workers-load.js';
import { LogPipe } from './workers-log.js';

/** Marks the processes of this run, by their environment. */
const markerVariable = 'PROVE_WORKERS_RUN';
/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** How many lines of the log are kept for the report. */
const keptLines = 40;
/** The name of the SQLite store; names that begin with it are its other files. */
const storeName = 'library.db';

/** What the documents are stored in. @typedef {'sqlite' | 'postgres'} Engine */

/** One run of the server after another, on one store. */
export class World {
  #library;
  #server;
  #root = mkdtempSync(join(tmpdir(), 'prove-workers-'));
  #marker = `${process.pid}-${Date.now()}`;
  #port = 0;
  #adminPort = 0;
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #supervisor;
  /** @type {Promise<number | string | undefined>} */
  #ended = Promise.resolve(undefined);
  /** @type {LogPipe | undefined} */
  #log;
  /** When each worker last served a new connection, in ms since the epoch. @type {Map<string, number>} */
  #served = new Map();
  storeFolder = join(this.#root, 'store');
  /** Where files of the store are moved; on the same file system. */
  awayFolder = join(this.#root, 'away');
  /** The TMPDIR of the server. */
  temporaryFolder = join(this.#root, 'tmp');
  /** Where backups are made. */
  backupFolder = join(this.#root, 'backups');
  /** The PostgreSQL server, if the documents are on one. @type {import('../../packages/server/test/support/postgres-cluster.js').PostgresServer | undefined} */
  postgres;
  /** The last lines of the log, and what the processes printed besides. @type {string[]} */
  lines = [];
  /** How many workers the running server has. */
  workers = 0;
  /** The longest pause before a worker was restarted, as the running server logged it, in s. */
  longestPause = 0;
  /** How many workers the supervisor has killed because they did not respond, as on a slow machine. */
  overdue = 0;

  /**
   * @param {string} root - The folder of a build of the project.
   * @param {string} [server] - The program that serves, if not the library's own.
   */
  constructor(root, server) {
    this.#library = join(root, 'examples/library/dist');
    this.#server = server ?? join(this.#library, 'main.js');
    for (const folder of [this.storeFolder, this.awayFolder, this.temporaryFolder, this.backupFolder])
      mkdirSync(folder);
  }

  /** The port of the service; the same for all runs. */
  get port() {
    return this.#port;
  }

  get origin() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Whether the store is a SQLite file. */
  get isFile() {
    return this.postgres === undefined;
  }

  /** The path of the SQLite file. */
  get store() {
    return join(this.storeFolder, storeName);
  }

  get #databaseUrl() {
    return this.postgres?.url() ?? `file:${this.store}`;
  }

  /**
   * Creates the store.
   * @param {Engine} engine
   * @param {readonly string[]} subjects
   * @returns {Promise<string[]>} A token for each subject.
   */
  async prepare(engine, subjects) {
    this.#port = await getPort({ host: '127.0.0.1' });
    this.#adminPort = await getPort({ host: '127.0.0.1', exclude: [this.#port] });
    if (engine === 'postgres') this.postgres = await (await embeddedPostgres()).createServer('data');
    const command = async (/** @type {string[]} */ ...args) => {
      const { code, stdout, stderr } = await this.command(...args);
      if (code !== 0) throw new Error(`library ${args.join(' ')}: ${stderr}`);
      return stdout.trim();
    };
    await command('migrate');
    const tokens = [];
    for (const subject of subjects) tokens.push(await command('token', 'create', subject));
    return tokens;
  }

  /** Runs a command on the store, as an operator does. @param {string[]} args */
  command(...args) {
    return run(join(this.#library, 'cli.js'), args, { DATABASE_URL: this.#databaseUrl });
  }

  /**
   * Starts the server, and waits until all of its workers serve.
   * @param {number} workers
   * @param {number} patience - The longest time that it may take, in s.
   * @throws {Error} when it ends instead, or takes longer.
   */
  async start(workers, patience) {
    this.launch(workers);
    const status = await this.settled(patience);
    if (status !== undefined) throw new Error(`the server ended with ${status} at its start`);
    const folders = this.#filesLeft();
    if (folders.length > 1)
      throw new Error(`left by a killed server after the next start: ${folders.join(', ')}`);
  }

  /**
   * Waits until all workers serve, or the server has ended.
   * @param {number} patience - In s.
   * @returns {Promise<number | string | undefined>} Its status or the signal, if it has ended.
   * @throws {Error} when it takes longer.
   */
  async settled(patience) {
    /** @type {number | string | undefined} */
    let status;
    void this.#ended.then((ended) => (status = ended));
    const isSettled = async () => status !== undefined || (await this.servingWorkers()) === this.workers;
    if (!(await until(isSettled, patience))) throw new Error(`the server did not start within ${patience} s`);
    return status;
  }

  /** Starts the server. @param {number} workers */
  launch(workers) {
    this.workers = workers;
    this.longestPause = 0;
    this.#served.clear();
    this.#log?.close();
    const log = new LogPipe(join(this.#root, 'log'), (line) => this.#readLog(line));
    this.#log = log;
    const program = [process.execPath, this.#server];
    const supervisor = spawn('prlimit', [`--nofile=${descriptors}`, ...program], {
      env: {
        PATH: process.env['PATH'],
        DATABASE_URL: this.#databaseUrl,
        TMPDIR: this.temporaryFolder,
        [markerVariable]: this.#marker,
        HOST: '127.0.0.1',
        PORT: String(this.#port),
        OPS_PORT: String(this.#adminPort),
        WORKERS: String(workers),
        WORKER_TIMEOUT_SECONDS: '5',
        SHUTDOWN_SECONDS: '1',
        // A slow machine must not cause 503s here.
        MAX_EVENT_LOOP_DELAY_MS: '0',
      },
      stdio: ['ignore', log.writer, 'pipe'],
    });
    closeSync(log.writer);
    this.#supervisor = supervisor;
    this.#ended = once(supervisor, 'exit').then(([code, signal]) => code ?? signal);
    const stderr = /** @type {import('node:stream').Readable} */ (supervisor.stderr);
    createInterface({ input: stderr }).on('line', (line) => this.#keep(line));
    endWithThisProcess(supervisor, () => {
      this.kill();
      this.remove();
    });
  }

  /** @param {string} line */
  #readLog(line) {
    if (!line.includes('"requestId"')) this.#keep(line);
    const worker = /"process":"(worker \d+)"/.exec(line)?.[1];
    const time = /"time":(\d+)/.exec(line)?.[1];
    if (line.includes(newConnectionId)) this.#served.set(worker ?? 'one process', Number(time));
  }

  /** @param {string} line */
  #keep(line) {
    const wait = Number(/"wait":(\d+)/.exec(line)?.[1] ?? 0) / 1_000;
    this.longestPause = Math.max(this.longestPause, wait);
    if (line.includes('does not respond')) this.overdue++;
    this.lines.push(`${new Date().toISOString().slice(11, 23)} ${line.slice(0, 300)}`);
    if (this.lines.length > keptLines) this.lines.shift();
  }

  /**
   * How many workers have served new connections since a moment, as they logged it.
   * @param {number} moment - In ms since the epoch.
   */
  workersWithNewConnections(moment) {
    return [...this.#served.values()].filter((time) => time > moment).length;
  }

  /** From now on nothing reads the log. */
  stallLog() {
    this.#log?.stall();
  }

  resumeLog() {
    this.#log?.resume();
  }

  /** The process of the supervisor. @returns {number} */
  get supervisor() {
    const { pid } = this.#supervisor ?? {};
    if (pid === undefined) throw new Error('no server has been started');
    return pid;
  }

  /**
   * Waits until the supervisor has exited.
   * @param {number} patience - In s.
   * @returns {Promise<number | string>} Its status or the signal.
   * @throws {Error} when it takes longer.
   */
  async exited(patience) {
    const status = await Promise.race([this.#ended, pause(patience * 1_000, undefined, { ref: false })]);
    if (status === undefined) throw new Error(`the supervisor did not end within ${patience} s`);
    return status;
  }

  /** All processes of this run, ascending, except those that have exited: these have no environment. */
  processes() {
    const own = `${markerVariable}=${this.#marker}`;
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => readProcess(pid, 'environ').split('\0').includes(own))
      .sort((a, b) => a - b);
  }

  /** The processes of the workers. */
  workerProcesses() {
    return this.processes().filter((pid) => pid !== this.supervisor);
  }

  /** How many workers serve, as the supervisor reports it; undefined if it does not. One process is its own worker. */
  async servingWorkers() {
    if (this.workers === 1) return (await this.ready()) ? 1 : 0;
    const { text } = await this.#admin('/metrics');
    const found = /^library_workers (\d+)/m.exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  }

  /** Whether the service reports that it is ready. */
  async ready() {
    return (await this.#admin('/readyz')).status === 200;
  }

  /** Whether all processes run that should, and all workers serve. */
  async allServe() {
    const processes = this.workers === 1 ? 0 : this.workers;
    return this.workerProcesses().length === processes && (await this.servingWorkers()) === this.workers;
  }

  /** @param {string} path */
  #admin(path) {
    return send(`http://127.0.0.1:${this.#adminPort}`, { path }, { timeout: 10_000 });
  }

  /** What a graceful exit must not leave: processes, and anything in its folders but the store itself. */
  leftovers() {
    const describe = (/** @type {number} */ pid) => `process ${pid} (${readProcess(pid, 'comm').trim()})`;
    return [...this.processes().map(describe), ...this.#filesLeft()];
  }

  #filesLeft() {
    const beside = readdirSync(this.storeFolder).filter((name) => !name.startsWith(storeName));
    return [
      ...readdirSync(this.temporaryFolder).map((name) => `${name} in the folder of temporary files`),
      ...readdirSync(this.awayFolder).map((name) => `${name} in the folder of moved files`),
      ...beside.map((name) => `${name} beside the store`),
    ];
  }

  /** Kills all processes. */
  kill() {
    signalAll(this.processes(), 'SIGKILL');
  }

  /** Removes all folders. */
  remove() {
    void this.postgres?.stop();
    this.#log?.close();
    this.#log = undefined;
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }
}
