// The server that prove:workers disturbs: its folders, its processes, its log, and what it must not leave behind.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { DatabaseSync } from '@photostructure/sqlite';
import getPort from 'get-port';
import { endWithThisProcess, run } from '../../test/support/server-process.js';
import { readProcess, until } from '../lib/processes.js';
import { send } from '../lib/request.js';
import { newConnectionId } from './workers-load.js';
import { LogPipe } from './workers-log.js';

/** Marks the processes of this run, by their environment. */
const markerVariable = 'PROVE_WORKERS_RUN';
/** The server's limit of descriptors: few enough for idle connections to take them all. */
export const descriptors = 256;
/** How many lines of the log are kept for the report. */
const keptLines = 40;

/** One run of the server after another, on one store. */
export class World {
  #dist;
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
  /** The last lines of the log, and what the processes printed besides. @type {string[]} */
  lines = [];
  /** How many workers the running server has. */
  workers = 0;
  /** The longest pause before a worker was restarted, as the running server logged it, in s. */
  longestPause = 0;

  /** @param {string} dist - The folder of the build. */
  constructor(dist) {
    this.#dist = dist;
    for (const folder of [this.storeFolder, this.awayFolder, this.temporaryFolder]) mkdirSync(folder);
  }

  /** The port of the service; the same for all runs. */
  get port() {
    return this.#port;
  }

  get #environment() {
    return {
      DATABASE_URL: `file:${join(this.storeFolder, 'plants.db')}`,
      TMPDIR: this.temporaryFolder,
      [markerVariable]: this.#marker,
    };
  }

  /** Creates the store. @param {readonly string[]} subjects @returns {Promise<string[]>} A token for each subject. */
  async prepare(subjects) {
    this.#port = await getPort({ host: '127.0.0.1' });
    this.#adminPort = await getPort({ host: '127.0.0.1', exclude: [this.#port] });
    const command = async (/** @type {string[]} */ ...args) => {
      const { code, stdout, stderr } = await run(join(this.#dist, 'cli.js'), args, this.#environment);
      if (code !== 0) throw new Error(`plant-store ${args.join(' ')}: ${stderr}`);
      return stdout.trim();
    };
    await command('migrate');
    const tokens = [];
    for (const subject of subjects) tokens.push(await command('token', 'create', subject));
    return tokens;
  }

  /**
   * Starts the server, and waits until all of its workers serve.
   * @param {number} workers
   * @param {number} patience - The longest time that it may take, in s.
   * @throws {Error} when it ends instead, or takes longer.
   */
  async start(workers, patience) {
    this.launch(workers);
    /** @type {number | string | undefined} */
    let status;
    void this.#ended.then((ended) => (status = ended));
    const serves = async () => status !== undefined || (await this.servingWorkers()) === workers;
    const inTime = await until(serves, patience);
    if (status !== undefined) throw new Error(`the server ended with ${status} at its start`);
    if (!inTime) throw new Error(`the server did not start within ${patience} s`);
    const folders = this.#filesLeft();
    if (folders.length > 1)
      throw new Error(`left by a killed server after the next start: ${folders.join(', ')}`);
  }

  /** Starts the server. @param {number} workers */
  launch(workers) {
    this.workers = workers;
    this.longestPause = 0;
    this.#served.clear();
    this.#log?.close();
    const log = new LogPipe(join(this.#root, 'log'), (line) => this.#readLog(line));
    this.#log = log;
    const program = [process.execPath, join(this.#dist, 'main.js')];
    const supervisor = spawn('prlimit', [`--nofile=${descriptors}`, ...program], {
      env: {
        PATH: process.env['PATH'],
        ...this.#environment,
        HOST: '127.0.0.1',
        PORT: String(this.#port),
        OPS_PORT: String(this.#adminPort),
        WORKERS: String(workers),
        WORKER_TIMEOUT_SECONDS: '5',
        SHUTDOWN_SECONDS: '1',
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
    if (worker !== undefined && line.includes(newConnectionId)) this.#served.set(worker, Number(time));
  }

  /** @param {string} line */
  #keep(line) {
    const wait = Number(/"wait":(\d+)/.exec(line)?.[1] ?? 0) / 1_000;
    this.longestPause = Math.max(this.longestPause, wait);
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

  /** How many workers serve, as the supervisor reports it; undefined if it does not. */
  async servingWorkers() {
    const { text } = await this.#admin('/metrics');
    const found = /^plant_store_workers (\d+)/m.exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  }

  /** Whether the service reports that it is ready. */
  async ready() {
    return (await this.#admin('/readyz')).status === 200;
  }

  /** @param {string} path */
  #admin(path) {
    return send(`http://127.0.0.1:${this.#adminPort}`, { path }, { timeout: 2_000 });
  }

  /** What a graceful exit must not leave: processes, and anything in its folders but the store itself. */
  leftovers() {
    const describe = (/** @type {number} */ pid) => `process ${pid} (${readProcess(pid, 'comm').trim()})`;
    return [...this.processes().map(describe), ...this.#filesLeft()];
  }

  #filesLeft() {
    const known = ['plants.db', 'plants.db-wal', 'plants.db-shm'];
    const beside = readdirSync(this.storeFolder).filter((name) => !known.includes(name));
    return [
      ...readdirSync(this.temporaryFolder).map((name) => `${name} in the folder of temporary files`),
      ...readdirSync(this.awayFolder).map((name) => `${name} in the folder of moved files`),
      ...beside.map((name) => `${name} beside the store`),
    ];
  }

  /** Checks the file of the store, which no process may have open. @returns {string} "ok", or what is wrong. */
  checkIntegrity() {
    const database = new DatabaseSync(join(this.storeFolder, 'plants.db'), { readOnly: true });
    try {
      return String(Object.values(database.prepare('PRAGMA integrity_check').get() ?? {})[0]);
    } finally {
      database.close();
    }
  }

  /** Kills all processes. */
  kill() {
    signalAll(this.processes(), 'SIGKILL');
  }

  /** Removes all folders. */
  remove() {
    this.#log?.close();
    this.#log = undefined;
    rmSync(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Sends a signal to processes; to none of those that have exited.
 * @param {readonly number[]} processes
 * @param {NodeJS.Signals} signal
 */
export function signalAll(processes, signal) {
  for (const pid of processes) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
    }
  }
}
