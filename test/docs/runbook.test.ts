// Runs every command of docs/runbook.md, docs/restore.md and docs/monitor.md against a server in the state that the command
// is for. The commands of systemd, its folders and the user of the service are replaced.
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  cp,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import getPort from 'get-port';
import { Client } from 'pg';
import t, { type Test } from 'tap';
import { noPostgres, temporaryFolder } from '../../packages/server/test/support/engines.js';
import { systemPostgres } from '../../packages/server/test/support/postgres-cluster.js';
import { startServer as startPostgres } from '../../packages/server/test/support/postgres-server.js';
import {
  create,
  environment,
  list,
  remove,
  startServer,
  type ServerProcess,
} from '../../packages/server/test/support/processes.js';
import { plantStore } from '../../packages/server/test/support/server-process.js';
import { lacks, skipFor } from '../../packages/server/test/support/skip.js';
import { repeatUntil, until } from '../../packages/server/test/support/wait.js';
import { noProc } from '../../packages/server/test/support/threads.js';

const root = new URL('../..', import.meta.url).pathname;
const read = (path: string) => readFile(join(root, path), 'utf8');
const sections = (page: string, ...headings: string[]) =>
  page
    .split(/^(?=## )/m)
    .filter((section) => headings.includes(section.split('\n')[0]!.slice(3)))
    .join('');
/** The pages for an emergency; the runbook leads to the others. */
const runbook = [
  await read('docs/runbook.md'),
  await read('docs/restore.md'),
  sections(
    await read('docs/postgres.md'),
    'Back up and restore',
    'PostgreSQL failed over or is down',
    'A lock blocks PostgreSQL',
  ),
].join('\n');
const monitor = await read('docs/monitor.md');
const lacking = noProc ?? ['jq', 'curl', 'openssl', 'ss'].map(lacks).find((lack) => lack !== undefined);

/** The commands of a section, by its heading. */
const blocksOf = (page: string, heading: string) => {
  const [, section = ''] = new RegExp(`^##+ ${heading}\n([^]*?)(?=^## )`, 'm').exec(`${page}\n## `) ?? [];
  return [...section.matchAll(/^( *)```sh\n([^]*?)^ *```$/gm)].map(([, indentation = '', code = '']) =>
    code.replaceAll(new RegExp(`^${indentation}`, 'gm'), ''),
  );
};
/** The commands that were run. */
const run = new Set<string>();

/** Replacements for the commands of systemd and sudo, which report to the test and let the user do everything. */
const stubs = {
  sudo: '[[ $1 == -u ]] && shift 2; [[ $1 == --preserve-env=* ]] && shift; exec env "$@"',
  systemctl: 'exec curl -sS --fail --get --data-urlencode "command=systemctl $*" "$CONTROL"',
  journalctl: 'exec curl -sS --fail --get --data-urlencode "command=journalctl $*" "$CONTROL"',
};

/** A machine with the service, on which the commands of the documents run. */
class Machine {
  readonly folder: string;
  /** The environment of the service; a change takes effect at its next start. */
  env: Record<string, string>;
  /** The output of the last start that failed. */
  failure = '';
  readonly #servers: ServerProcess[] = [];
  readonly #t: Test;
  readonly #ports: { main: number; ops: number };
  #control = '';

  private constructor(t: Test, folder: string, ports: { main: number; ops: number }) {
    this.#t = t;
    this.folder = folder;
    this.#ports = ports;
    this.env = { DATABASE_URL: `file:${this.store}` };
  }

  static async install(t: Test, env: Record<string, string> = {}): Promise<Machine> {
    const port = () => getPort({ host: '127.0.0.1' });
    const machine = new Machine(t, await temporaryFolder(t), { main: await port(), ops: await port() });
    Object.assign(machine.env, env);
    for (const name of ['bin', 'store', 'elsewhere', 'release', 'backups', 'units'])
      await mkdir(join(machine.folder, name));
    for (const [name, code] of Object.entries(stubs)) {
      const file = join(machine.folder, 'bin', name);
      await writeFile(file, `#!/bin/bash\n${code}\n`);
      await chmod(file, 0o755);
    }
    await machine.unpack('release');
    const control = createServer((request, response) => {
      const command = new URL(request.url ?? '', 'http://control').searchParams.get('command') ?? '';
      void machine.#obey(command).then((text) => response.end(text));
    }).listen(0, '127.0.0.1');
    await once(control, 'listening');
    t.teardown(() => control.close());
    machine.#control = `http://127.0.0.1:${(control.address() as AddressInfo).port}/`;
    await machine.start();
    return machine;
  }

  /** The path of the store. */
  get store(): string {
    return join(this.folder, 'store/plants.db');
  }

  get server(): ServerProcess {
    return this.#servers.at(-1)!;
  }

  /** Puts a release into a folder. */
  async unpack(name: string): Promise<void> {
    await mkdir(join(this.folder, name), { recursive: true });
    for (const part of ['dist', 'node_modules', 'openapi.yaml', 'package.json', 'packages'])
      await symlink(join(root, part), join(this.folder, name, part));
    await cp(join(root, 'deploy'), join(this.folder, name, 'deploy'), { recursive: true });
    const file = join(this.folder, name, 'deploy/commands.sh');
    await writeFile(file, this.here(await readFile(file, 'utf8')));
  }

  /** Starts the service as the unit does. */
  async start(): Promise<void> {
    this.failure = '';
    const env = { PORT: String(this.#ports.main), OPS_PORT: String(this.#ports.ops), ...this.env };
    try {
      const script = join(this.folder, 'release/dist/main.js');
      this.#servers.push(await startServer(this.#t, { script, env }));
    } catch (error) {
      this.failure = (error as Error).message;
    }
  }

  /** Adapts commands to the folders and ports of this machine. */
  here(code: string): string {
    const places: [string, string][] = [
      ['/var/lib/plant-store /var/lib /var/backups /var/log /opt', this.folder],
      ['/var/lib/plant-store', join(this.folder, 'store')],
      ['/opt/plant-store', join(this.folder, 'release')],
      ['/var/backups/plant-store', join(this.folder, 'backups')],
      ['/etc/systemd/system', join(this.folder, 'units')],
      ['/etc/plant-store.env', join(this.folder, 'plant-store.env')],
      ['/srv/backups', join(this.folder, 'backups')],
      ['/elsewhere', join(this.folder, 'elsewhere')],
      [' -o plant-store -g plant-store', ''],
      ['127.0.0.1:9090', `127.0.0.1:${this.#ports.ops}`],
      ['127.0.0.1:3000', `127.0.0.1:${this.#ports.main}`],
      [':3000', `:${this.#ports.main}`],
    ];
    return places.reduce((text, [from, to]) => text.replaceAll(from, to), code);
  }

  /**
   * Runs commands of a document.
   * @param changes - The placeholders that a reader replaces.
   * @param input - The text that a reader types.
   * @returns The output.
   */
  async run(code: string | undefined, changes: Record<string, string> = {}, input = ''): Promise<string> {
    if (code === undefined) throw new Error('there are no such commands');
    run.add(code);
    const changed = Object.entries(changes).reduce((text, [from, to]) => text.replaceAll(from, to), code);
    const commands = this.here(`. /opt/plant-store/deploy/commands.sh\n${changed}`);
    const env = {
      ...environment({ CONTROL: this.#control, no_proxy: '127.0.0.1', HOME: this.folder }),
      PATH: `${join(this.folder, 'bin')}:${process.env['PATH']}`,
    };
    return new Promise((resolve, reject) => {
      const child = execFile(
        'bash',
        ['-ec', commands],
        { env, cwd: this.folder },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout + stderr);
          else reject(new Error(`${commands}\n${stdout}${stderr}`));
        },
      );
      // Some commands end without reading it.
      child.stdin?.on('error', () => undefined).end(input);
    });
  }

  async #obey(command: string): Promise<string> {
    const [program, ...words] = command.split(' ');
    if (program === 'journalctl')
      return words.includes('--dmesg') ? 'Out of memory: Killed process 1' : this.#journal();
    if (words.includes('MainPID')) return `${this.server.child.pid}\n`;
    if (words[0] === 'show') return 'NRestarts=0\n';
    if (words.includes('STOP')) {
      this.server.child.kill('SIGSTOP');
      return '';
    }
    if (words[0] === 'daemon-reload' || words.includes('plant-store-backup')) return '';
    if (words[0] !== 'start') await this.server.end(words.includes('KILL') ? 'SIGKILL' : 'SIGTERM');
    if (words[0] !== 'stop') await this.start();
    return '';
  }

  /** Returns the log of all servers of this machine, with a line of systemd. */
  #journal(): string {
    const lines = this.#servers.flatMap(({ log }) => log.map((line) => JSON.stringify(line)));
    return ['Started Plant Store.', ...lines, this.failure, ''].join('\n');
  }

  /** Requests /readyz from the admin listener, and returns the status. */
  async readiness(): Promise<number> {
    return (await fetch(`http://127.0.0.1:${this.#ports.ops}/readyz`)).status;
  }

  /** Returns the causes of failed requests from the log. */
  causes(): string[] {
    return this.server.log.flatMap(
      (line) => (line['err'] as { message?: string } | undefined)?.message ?? [],
    );
  }

  async logged(message: string): Promise<void> {
    await this.server.logged(() => this.server.log.some(({ msg }) => msg === message));
  }
}

/** Creates a plant with a new token. Returns the token and the status. */
async function createPlant({ server }: Machine, token: string, id: number): Promise<number> {
  return (await create(server, token, `{"id":${id},"name":"a"}`)).status;
}

/** Names a database as the documents do. */
async function nameService({ folder }: Machine, url: string): Promise<void> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const lines = { host: hostname, port, dbname: pathname.slice(1), user: username, password };
  const section = Object.entries(lines).flatMap(([name, value]) => (value === '' ? [] : `${name}=${value}`));
  await writeFile(join(folder, '.pg_service.conf'), ['[plants]', ...section, ''].join('\n'));
}

/** Fails unless the runbook quotes this text. */
function quotes(t: Test, seen: string | undefined, quotation: string): void {
  t.ok(runbook.replaceAll(/\s+/g, ' ').includes(quotation), `the runbook quotes: ${quotation}`);
  t.match(seen, quotation);
}

t.test('the commands of the operator refuse another shell than bash', (t) => {
  const script = join(root, 'deploy/commands.sh');
  const { status, stderr } = spawnSync('bash', ['-c', `unset BASH_VERSION; . ${script} && echo loaded`]);
  t.equal(status, 1);
  t.equal(String(stderr), 'Load these commands in bash, not in another shell.\n');
  t.end();
});

t.test('the commands of the runbook', skipFor(lacking), async (t) => {
  t.test('First, and a disk that is nearly full', async (t) => {
    const machine = await Machine.install(t);
    const token = await machine.server.createToken('alice');
    for (const id of [1, 2]) t.equal(await createPlant(machine, token, id), 200);
    const [look] = blocksOf(runbook, 'Start here');
    t.match(await machine.run(look), /"status":"ready"/);

    const [space, usage, deletion, after] = blocksOf(runbook, 'The disk is full or nearly full');
    t.match(await machine.run(space), /Use%/);
    t.match(await machine.run(usage), 'alice\t2\t24\n');
    t.match(await machine.run(deletion), / 2 204\n/);
    t.equal(await (await list(machine.server, token)).text(), '[]');
    t.equal(await machine.run(after), '', 'no request has failed');
  });

  t.test('A token leaked', async (t) => {
    const machine = await Machine.install(t);
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    t.equal((await remove(machine.server, token, 1)).status, 204);
    const other = await machine.server.createToken('bob');
    t.equal(await createPlant(machine, other, 1), 200);

    const [which, revoke, deeds, renew] = blocksOf(runbook, 'A token leaked');
    const [, id = ''] =
      /"id":"(\w+)","subject":"alice"/.exec(await machine.run('plant_store token list')) ?? [];
    await until(
      () => machine.run(which, { 'pst_…': token }),
      (printed) => printed === `${id}\n`,
    );
    t.match(await machine.run(revoke, { '0123456789ab': id }), `Token ${id} is revoked.`);
    const done = await machine.run(`id=${id}\n${deeds}`);
    run.add(deeds!);
    t.match(done, /\d GET\t200\t127\.0\.0\.1\n/);
    t.match(done, /Z\tDELETE\t\/plants\/1\t204\t127\.0\.0\.1\t\w{12}\t\S+\n/);
    t.match(done, /^ +1 POST/m, 'nothing that bob did');
    t.match(await machine.run(renew), /^pst_[^]*"revoked"}\n.*"valid"}\n/);
    await until(
      async () => (await list(machine.server, token)).status,
      (status) => status === 401,
    );
  });

  t.test("A caller's plants are gone", async (t) => {
    const machine = await Machine.install(t);
    const token = await machine.server.createToken('alice');
    const other = await machine.server.createToken('bob');
    const plants = [
      `{"id":-1,"name":"a\\n\\"b\\" '$(c)","tag":"d"}`,
      '{"id":9007199254740993,"name":"😀"}',
      '{"id":9223372036854775807,"name":"e"}',
    ];
    for (const plant of plants) t.equal((await create(machine.server, token, plant)).status, 200);
    t.equal(await createPlant(machine, other, 7), 200);
    const before = await (await list(machine.server, token)).text();
    const printed = await machine.run(
      `DATABASE_URL=file:${machine.store} /opt/plant-store/deploy/backup.sh /var/backups/plant-store 14`,
    );
    const [name = ''] = /plants-\S+\.db/.exec(printed) ?? [];
    for (const id of [-1n, 9007199254740993n]) t.equal((await remove(machine.server, token, id)).status, 204);
    t.equal((await remove(machine.server, other, 7)).status, 204);

    const [who] = blocksOf(runbook, "A caller's plants are gone");
    const [read, bringBack] = blocksOf(runbook, "Bring back a caller's plants");
    const deeds = await machine.run(who);
    t.match(
      deeds,
      /^\S+Z\tDELETE\t\/plants\/-1\t204\t127\.0\.0\.1\t\w{12}\t\S+\n\S+\tDELETE\t\/plants\/9007199254740993\t/,
    );
    t.notMatch(deeds, '/plants/7', 'what others did');
    await machine.run(read, { 'plants-YYYY-MM-DD-HHMMSS.db': name });
    t.strictSame(await readdir(join(machine.folder, 'backups')), [name], 'the backup is as it was');
    t.match(await machine.run(bringBack), 'Stored 2; 1 were stored already, 0 differ, 0 are wrong.');
    t.equal(await (await list(machine.server, token)).text(), before);
    t.equal(await (await list(machine.server, other)).text(), '[]', "nothing of another subject's");
  });

  t.test('An upgrade went wrong', async (t) => {
    const machine = await Machine.install(t);
    await machine.server.end();
    const old = 'release-2026-01-01-000000';
    await rename(join(machine.folder, 'release'), join(machine.folder, old));
    await machine.unpack('release');
    const dist = join(machine.folder, 'release/dist');
    await rm(dist);
    await mkdir(dist);
    await writeFile(join(dist, 'main.js'), 'throw new Error("broken")');
    await machine.start();
    t.match(machine.failure, 'broken');
    const [look, back, move, check] = blocksOf(runbook, 'An upgrade went wrong');
    t.match(await machine.run(look), 'broken');
    const changes = {
      'YYYY-MM-DD-HHMMSS': '2026-01-01-000000',
      '/opt/plant-store-withdrawn': '/opt/plant-store-withdrawn',
    };
    t.match(await machine.run(back, changes), '"status":"ready"');
    t.equal((await readdir(join(machine.folder, 'units'))).length, 3, 'the units of the old release, too');
    t.match(await readdir(machine.folder), new Set(['release']));
    t.match(await machine.run(check), /plant_store_build_info\{version="/);
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    await machine.unpack('newer');
    // A release that went wrong may leave a log.
    await machine.server.end('SIGKILL');
    const newer = { '/opt/plant-store-withdrawn-YYYY-MM-DD-HHMMSS': join(machine.folder, 'newer') };
    t.match(await machine.run(move, newer), 'Stored 2; 0 were stored already');
    t.equal(await (await list(machine.server, token)).text(), '[{"name":"a"}]');
  });

  t.test('It hangs', async (t) => {
    const machine = await Machine.install(t);
    machine.server.child.kill('SIGSTOP');
    const [end] = blocksOf(runbook, 'It hangs');
    t.match(await machine.run(end), '"status":"ready"');
  });

  t.test('The files were deleted, and the service runs', async (t) => {
    for (const deleted of [/./, /^plants\.db$/]) {
      const machine = await Machine.install(t);
      const token = await machine.server.createToken('alice');
      t.equal(await createPlant(machine, token, 1), 200);
      const folder = join(machine.folder, 'store');
      for (const name of await readdir(folder)) if (deleted.test(name)) await rm(join(folder, name));
      t.equal(await createPlant(machine, token, 2), 200);
      const [save, putBack] = blocksOf(runbook, 'The files were deleted, and the service runs');
      t.match(await machine.run(save), 'can be restored. 0 tokens');
      t.match(await machine.run(putBack), /Restored .*\. 0 tokens/);
      t.equal(await (await list(machine.server, token)).text(), '[{"name":"a"},{"name":"a"}]', `${deleted}`);
    }
  });

  t.test('PostgreSQL failed over or is down', skipFor(noPostgres), async (t) => {
    const postgres = await startPostgres(t);
    const url = await postgres.createDatabase(t);
    const machine = await Machine.install(t, { DATABASE_URL: url });
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    await postgres.stop();
    t.equal(await createPlant(machine, token, 2), 503);
    await machine.logged('requests fail');
    quotes(t, machine.causes()[0], 'PostgreSQL:');
    await postgres.start();
    const [, statements = ''] =
      /```sql\n([^]*?)```/.exec(runbook.split('## PostgreSQL failed over')[1]!) ?? [];
    t.match(await postgres.sql(statements.split(';')[0]!), [{ pg_is_in_recovery: false }]);
    t.strictSame(await postgres.sql(statements.split(';')[1]!), []);
    const [check] = blocksOf(runbook, 'PostgreSQL failed over or is down');
    t.match(await machine.run(check), '"status":"ready"');
    t.equal(await createPlant(machine, token, 2), 200, 'without a restart');

    const [find = '', end = ''] =
      /```sql\n([^]*?)```/.exec(runbook.split('## A lock blocks')[1]!)?.[1]!.split(';') ?? [];
    const blocker = new Client({ connectionString: url });
    blocker.on('error', () => undefined);
    await blocker.connect();
    await blocker.query('BEGIN; LOCK TABLE plants');
    // A different cause with the same code would be logged a minute later.
    await machine.server.end();
    await machine.start();
    t.equal(await createPlant(machine, token, 3), 503);
    const cause = 'PostgreSQL: canceling statement due to statement timeout';
    await machine.server.logged(() => machine.causes().some((logged) => logged.includes(cause)));
    quotes(t, cause, cause);
    const [holder] = await until(
      () => postgres.sql(find, new URL(url).pathname.slice(1)),
      ({ length }) => length > 0,
    );
    t.match(holder, { state: 'idle in transaction', query: 'BEGIN; LOCK TABLE plants' });
    await postgres.sql(end.replace('4711', String(holder!['pid'])));
    t.equal(await createPlant(machine, token, 3), 200);
  });

  t.test('A dump of PostgreSQL is restored', skipFor(lacks('pg_restore')), async (t) => {
    // The tools of the system's PostgreSQL read its own dumps, not those of a newer one.
    const cluster = await systemPostgres();
    const postgres = await cluster.createServer('restored');
    const url = postgres.url();
    await plantStore(url, 'migrate');
    const machine = await Machine.install(t, { DATABASE_URL: url });
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    const leaked = await machine.server.createToken('mallory');
    await nameService(machine, url);
    for (const file of ['owner.env', 'plant-store.env'])
      await writeFile(join(machine.folder, file), `DATABASE_URL=${url}\n`);
    const [dump, restore, exportDump] = blocksOf(runbook, 'Back up and restore');
    await machine.run(dump);
    t.equal((await remove(machine.server, token, 1)).status, 204);
    const shown = await machine.run('plant_store token list --subject mallory');
    const [, id = ''] = /"id":"(\w+)"/.exec(shown) ?? [];
    await machine.run(`plant_store token revoke ${id}`);
    const [name = ''] = await readdir(join(machine.folder, 'backups'));
    t.match(await machine.run(restore, { 'plants-YYYY-MM-DD-HHMMSS.dump': name }), '"status":"ready"');
    t.equal(await (await list(machine.server, token)).text(), '[{"name":"a"}]');
    t.equal((await list(machine.server, leaked)).status, 401, 'what was revoked after the dump stays so');
    const copy = new URL(url);
    copy.pathname = '/plants2';
    await writeFile(join(machine.folder, 'owner2.env'), `DATABASE_URL=${copy.href}\n`);
    const before = (await readdir(machine.folder)).find((file) => file.startsWith('before-restore'))!;
    t.match(
      await machine.run(exportDump, {
        'before-restore-YYYY-MM-DD-HHMMSS.dump': before,
        'sudo -u postgres createdb --owner=plants_owner': 'createdb --maintenance-db=service=plants',
      }),
      'Exported 0',
    );
    t.match(await readFile(join(machine.folder, 'plants.jsonl'), 'utf8'), /^\{"lines":0\}/);
    for (const nothing of [shown.replace('valid', 'revoked'), ''])
      await t.rejects(machine.run(`echo '${nothing}' > none.json; plant_revoke_others none.json`), {
        message: /none\.json lists no valid token/,
      });
    t.match(await machine.run('plant_revoke_others --all'), 'is revoked');
    await machine.server.end();
    await postgres.stop();
  });

  t.test('A SQLite store is moved to PostgreSQL', async (t) => {
    const cluster = await systemPostgres();
    const postgres = await cluster.createServer('moved');
    const url = postgres.url();
    await plantStore(url, 'migrate');
    const machine = await Machine.install(t);
    const subject = "o'brien \\ ü";
    await machine.server.createToken('bob', '--days', '90');
    const token = await machine.server.createToken(subject);
    const tokens = async () => {
      const found = await plantStore(machine.env['DATABASE_URL']!, 'token', 'list');
      const lines = found.trim().split('\n');
      return lines.map((line) => JSON.parse(line) as { id: string; subject: string });
    };
    await machine.server.createToken('eve');
    const idOf = async (name: string) => (await tokens()).find((token) => token.subject === name)!.id;
    await plantStore(machine.env['DATABASE_URL']!, 'token', 'revoke', await idOf('bob'));
    const before = await tokens();
    const body = '{"id":9007199254740993,"name":"It\'s a \\"b\\" \\\\ \\n \\u0001 ü 🌱"}';
    t.equal((await create(machine.server, token, body)).status, 200);
    const plants = await (await list(machine.server, token)).text();
    await writeFile(join(machine.folder, 'owner.env'), `DATABASE_URL=${url}\n`);
    const [move, back] = blocksOf(await read('docs/postgres.md'), 'Move from SQLite');
    await machine.run(move);
    const { DATABASE_URL } = machine.env;
    machine.env['DATABASE_URL'] = url;
    await machine.start();
    t.equal(await (await list(machine.server, token)).text(), plants);
    t.strictSame(await tokens(), before);

    t.equal((await remove(machine.server, token, 9007199254740993n)).status, 204);
    await plantStore(url, 'token', 'revoke', await idOf('eve'));
    const after = await tokens();
    await machine.server.end();
    await machine.run(back);
    machine.env['DATABASE_URL'] = DATABASE_URL!;
    await machine.start();
    t.equal(
      await (await list(machine.server, token)).text(),
      '[]',
      'what was deleted after the move stays so',
    );
    t.strictSame(await tokens(), after, 'what was revoked after the move stays so');
    await machine.server.end();
    await postgres.stop();
  });

  t.test('It returns 429', async (t) => {
    const machine = await Machine.install(t, { RATE_LIMIT_PER_SUBJECT: '1' });
    const token = await machine.server.createToken('alice');
    t.equal((await list(machine.server, token)).status, 200);
    t.equal((await list(machine.server, token)).status, 429);
    const [refused] = blocksOf(runbook, 'It returns 429');
    t.match(await machine.run(refused), /^ +1 alice\t127\.0\.0\.1$/m);

    const flooded = await Machine.install(t, { RATE_LIMIT_PER_ADDRESS: '2' });
    const secret = await flooded.server.createToken('alice');
    for (const [token, status] of Object.entries({ [secret]: 200, wrong: 401, none: 429 }))
      t.equal((await list(flooded.server, token)).status, status);
    t.match(await flooded.run(refused), /^ +1 token not checked\t127\.0\.0\.1$/m);
    const [, ofAddress] = blocksOf(runbook, 'It returns 429');
    t.equal(
      await flooded.run(ofAddress, { '192.0.2.7': '127.0.0.1' }),
      '      1 200\n      1 401\n      1 429\n',
    );
  });

  t.test('Requests are slow, and the log', async (t) => {
    const machine = await Machine.install(t);
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    const refused = await list(machine.server, 'nonsense');
    const [faults] = blocksOf(runbook, 'It returns 500');
    t.equal(await machine.run(faults), '');
    const [slow] = blocksOf(runbook, 'Requests are slow');
    t.match(
      await machine.run(slow, { '.ms > 1000': '.ms > 0' }),
      /^[\d.]+\tPOST\t\/plants\t200\talice\n[^]*^\d+\t1\talice\n[^]*nodejs_eventloop_lag_p99_seconds/m,
    );
    const [refusals] = blocksOf(runbook, 'Tokens are refused');
    t.match(await machine.run(refusals), / 1 malformed\t127\.0\.0\.1\n[^]*alice/);
    const line = machine.server.log.find(({ status }) => status === 200)!;
    const [, example = ''] = /```text\n([^]*?)```/.exec(monitor.split('\n## Log\n')[1]!) ?? [];
    t.strictSame(Object.keys(line), Object.keys(JSON.parse(example) as object), 'the line that is explained');
    const [fields = ''] = monitor.split('\n## Log\n')[1]!.split('\n## ');
    for (const field of Object.keys(line)) t.ok(field === 'msg' || fields.includes(`\`${field}\``), field);
    const changes = { '0123456789ab': refused.headers.get('x-request-id')!, '.ms > 1000': '.ms > 0' };
    const [search] = blocksOf(monitor, 'Log');
    t.match(await machine.run(search, changes), /"status":200[^]*"status":401[^]*"tokenId":/);
  });

  t.test('There are too many connections', async (t) => {
    const machine = await Machine.install(t, { MAX_CONNECTIONS: '2' });
    const open = () => connect(machine.server.port, '127.0.0.1').on('error', () => undefined);
    const held = [open(), open()];
    t.teardown(() => {
      for (const socket of held) socket.destroy();
    });
    await Promise.all(held.map((socket) => once(socket, 'connect')));
    await once(open().resume(), 'close');
    await machine.logged('rejected before it was a request');
    const [count, check] = blocksOf(runbook, 'There are too many connections');
    t.match(await machine.run(count), /^\[1,"127\.0\.0\.1"\]\n[^]*\b2 127\.0\.0\.1\n/m);
    t.match(await machine.run(check), 'plant_store_rejections_total{reason="connection_limit"} 1\n');
  });

  t.test('The start refuses the files, and the log grows', skipFor(lacks('fuser')), async (t) => {
    const machine = await Machine.install(t);
    const token = await machine.server.createToken('alice');
    t.equal(await createPlant(machine, token, 1), 200);
    const [holders] = blocksOf(runbook, 'The log grows');
    const { pid = 0 } = machine.server.child;
    t.match(await machine.run(holders), new RegExp(`plants\\.db-wal[^]*\\b${pid}`));
    const backup = join(machine.folder, 'backups/copy.db');
    await machine.run(`plant_store backup ${backup}`);
    await machine.server.end('SIGKILL');
    await rename(machine.store, join(machine.folder, 'elsewhere/plants.db'));
    await machine.start();
    quotes(t, machine.failure, 'is missing or was replaced by a backup');
    await cp(backup, machine.store);
    await machine.start();
    quotes(t, machine.failure, 'is missing or was replaced by a backup');
    await rename(join(machine.folder, 'elsewhere/plants.db'), machine.store);
    await machine.start();
    t.equal(await (await list(machine.server, token)).text(), '[{"name":"a"}]');
  });

  t.test('The store is damaged, and a nightly backup is restored', async (t) => {
    const machine = await Machine.install(t);
    const { folder } = machine;
    const token = await machine.server.createToken('alice');
    for (const id of [1, 2, 3]) t.equal(await createPlant(machine, token, id), 200);
    const leaked = await machine.server.createToken('mallory');
    const unit = await read('deploy/plant-store-backup.service');
    const [, command = ''] = /^ExecStart=(.*) 14$/m.exec(unit) ?? [];
    const backUp = `DATABASE_URL=file:${machine.store} ${command}`;
    for (let night = 1; night <= 2; night++) {
      const printed = await machine.run(`${backUp} 1`);
      t.match(printed, /can be restored\./);
      // The name of the next backup differs only from the next second on.
      const [name = ''] = /plants-\S+\.db/.exec(printed) ?? [];
      const now = () =>
        `plants-${new Date().toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '')}.db`;
      await repeatUntil(() => now() !== name);
    }
    const kept = await readdir(join(folder, 'backups'));
    t.equal(kept.length, 1, 'the newest one, and nothing else');
    const [check] = blocksOf(runbook, 'The store is damaged');
    t.match(await machine.run(check), /Copied \d+ bytes/);
    const [, id = ''] =
      /"id":"(\w+)"/.exec(await machine.run('plant_store token list --subject mallory')) ?? [];
    t.match(await machine.run(`plant_store token revoke ${id}`), 'is revoked');
    const [drill, put, tokens, undo] = blocksOf(runbook, 'Restore a backup');
    const changes = { 'plants-YYYY-MM-DD-HHMMSS.db': kept.at(-1)! };
    t.match(await machine.run(drill, changes), 'can be restored. 1 tokens of it would be revoked.');
    const newest = join(folder, 'backups', kept.at(-1)!);
    const restore = `backup=${newest}\n${put}`;
    run.add(put!);
    t.equal((await remove(machine.server, token, 2)).status, 204);
    t.match(await machine.run(restore), /"status":"ready"[^]*1 tokens of the backup were revoked/);
    const three = '[{"name":"a"},{"name":"a"},{"name":"a"}]';
    t.equal(await (await list(machine.server, token)).text(), three);
    t.equal((await list(machine.server, leaked)).status, 401, 'what was revoked after the backup stays so');
    t.match(await machine.run(tokens), /alice[^]*valid/);
    const named = async (start: string) =>
      (await readdir(join(folder, 'store'))).find((name) => name.startsWith(start))!;
    const saved = await named('plants.db-before-restore-');
    t.match(
      await machine.run(undo, { 'plants.db-before-restore-YYYY-MM-DD-HHMMSS.mmm': saved }),
      '"status":"ready"',
    );
    t.equal(await (await list(machine.server, token)).text(), '[{"name":"a"},{"name":"a"}]');
    t.equal((await list(machine.server, leaked)).status, 401);

    await machine.server.end();
    await truncate(machine.store, 8192);
    const damage = 'database disk image is malformed';
    await t.rejects(machine.run(check), { message: new RegExp(damage) });
    quotes(t, damage, damage);
    await t.rejects(machine.run(`${backUp} 1`), { message: new RegExp(damage) });
    const relative = `cd ${folder} && ${backUp.replace(folder, '.')} 1`;
    await t.rejects(machine.run(relative), { message: new RegExp(damage) }, 'a path from the current folder');
    await t.rejects(machine.run(`${backUp} 0`), { message: /KEEP must be a number from 1/ });
    t.strictSame(await readdir(join(folder, 'backups')), kept, 'a backup that fails deletes none');
    t.match(await machine.run(restore), /"status":"ready"[^]*2 tokens of the backup were revoked/);
    t.equal((await list(machine.server, token)).status, 401, 'it is not known which were valid');
    const renewed = await machine.server.createToken('alice');
    t.equal(await (await list(machine.server, renewed)).text(), three);
    const damaged = await named('plants.db-damaged-');
    await cp(newest, join(folder, 'store', damaged));
    const [readWhole] = blocksOf(runbook, 'Read a damaged store');
    await machine.run(readWhole, { 'plants.db-damaged-YYYY-MM-DD-HHMMSS.mmm': damaged });
    const [, bringBack] = blocksOf(runbook, "Bring back a caller's plants");
    t.equal((await remove(machine.server, renewed, 2)).status, 204);
    t.match(await machine.run(bringBack), 'Stored 1; 2 were stored already');
    t.equal(await (await list(machine.server, renewed)).text(), three);
    const [failed] = blocksOf(runbook, 'A backup failed');
    t.match(await machine.run(failed), kept.at(-1));
  });

  t.test('A certificate has expired', async (t) => {
    const folder = await temporaryFolder(t);
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    /** Makes a certificate that expires after a number of days. */
    const certify = (days: number) => {
      const request = join(folder, 'request.pem');
      for (const args of [
        `req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -keyout ${key} -out ${request}`,
        `x509 -req -in ${request} -signkey ${key} -days ${days} -out ${cert}`,
      ])
        t.equal(spawnSync('openssl', args.split(' ')).status, 0);
    };
    certify(-1);
    // A client that rejects the certificate may leave a connection whose handshake is incomplete.
    const env = { TLS_CERT_FILE: cert, TLS_KEY_FILE: key, SHUTDOWN_SECONDS: '1' };
    const machine = await Machine.install(t, env);
    quotes(t, machine.server.log.map(({ msg }) => msg).join('\n'), 'the certificate expired');
    await t.rejects(fetch(`${machine.server.origin}/plants`), TypeError);
    const [ask, restart] = blocksOf(runbook, 'A certificate has expired');
    const expiry = async () => {
      const [, date = ''] = /notAfter=(.*)/.exec(await machine.run(ask)) ?? [];
      return Date.parse(date);
    };
    t.ok((await expiry()) < Date.now());
    const settings = `TLS_CERT_FILE=${cert}\nTLS_KEY_FILE=${key}\n`;
    await writeFile(join(machine.folder, 'plant-store.env'), settings);
    await t.rejects(machine.run(restart), { message: /TLS_CERT_FILE: the certificate expired/ });
    certify(2);
    await machine.run(restart);
    t.ok((await expiry()) > Date.now());
  });

  t.test('It restarts again and again, and memory runs out', async (t) => {
    const machine = await Machine.install(t, { DRAIN_SECONDS: '600' });
    machine.server.child.kill('SIGTERM');
    await machine.server.logged(() =>
      machine.server.log.some(({ msg }) => /shutting down/.test(String(msg))),
    );
    t.equal(await machine.server.end(), 'SIGKILL');
    const [reasons] = blocksOf(runbook, 'It restarts again and again');
    t.match(await machine.run(reasons), / 1 {2}plant-store ends at once SIGTERM\n/);
    const [memory] = blocksOf(runbook, 'Memory runs out');
    await machine.start();
    t.match(await machine.run(memory), /NRestarts[^]*Out of memory[^]*process_resident_memory_bytes \d/);
  });

  t.test('all of them were run', (t) => {
    const all = [...runbook.matchAll(/^( *)```sh$/gm)].length;
    const headings = [...runbook.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
    const blocks = headings.flatMap((heading) => blocksOf(runbook, heading));
    t.equal(blocks.length, all);
    t.strictSame(
      blocks.filter((block) => !run.has(block)),
      [],
    );
    t.end();
  });
});

t.test('no pattern of files is left to a shell that may not read their folder', async (t) => {
  for (const page of ['README.md', ...(await readdir(join(root, 'docs'))).map((name) => `docs/${name}`)]) {
    if (!page.endsWith('.md')) continue;
    for (const [, code = ''] of (await read(page)).matchAll(/^ *```sh\n([^]*?)^ *```$/gm)) {
      const unquoted = code.replaceAll('\\\n', '').replaceAll(/'[^']*'|"[^"]*"/g, '');
      t.notMatch(unquoted, /\bsudo [^|;&\n]*[*?]/, page);
    }
  }
});

t.test("the operator's command has the settings of the service in its environment only", async (t) => {
  const folder = await temporaryFolder(t);
  const url = 'postgres://plants:hidden@127.0.0.1/plants?a=b=';
  // systemd removes spaces and quotes around a value, and accepts names that are misspelled.
  await writeFile(
    join(folder, 'plant-store.env'),
    `# a comment\n Workers = two \nDATABASE_URL=old\nDATABASE_URL="${url}" \n`,
  );
  // Like sudo, it logs its arguments, and passes on only the variables that it is told to.
  const sudo = `#!/bin/bash
echo "$*" >>"${folder}/log"
if [[ $1 != -u ]]; then exec "$@"; fi
IFS=, read -ra names <<<"\${3#--preserve-env=}"
for name in "\${names[@]}"; do kept+=("$name=\${!name}"); done
exec env --ignore-environment PATH="$PATH" "\${kept[@]}" "\${@:4}"
`;
  const node = `#!/bin/bash\necho "$* on $DATABASE_URL in $NODE_ENV with Workers=$Workers"\n`;
  for (const [name, code] of Object.entries({ sudo, node })) {
    await writeFile(join(folder, name), code);
    await chmod(join(folder, name), 0o755);
  }
  const commands = (await read('deploy/commands.sh'))
    .replace('/etc/plant-store.env', join(folder, 'plant-store.env'))
    .replaceAll('/opt/plant-store', folder);
  const env = { PATH: `${folder}:${process.env['PATH']}` };
  const run = (command: string) =>
    spawnSync('bash', ['-c', `${commands}\n${command}`], { env, encoding: 'utf8' }).stdout;
  t.equal(
    run('plant_store token list'),
    `${folder}/dist/cli.js token list on ${url} in production with Workers=two\n`,
  );
  t.equal(
    run('plant_store check'),
    `${folder}/dist/cli.js check on ${url} in production with Workers=two\n`,
    'whatever would prevent the start is checked',
  );
  t.match(
    run('PLANT_STORE_FOLDER=/ plant_store check'),
    /^\/\/dist\/cli\.js check /,
    'another release checks the same settings',
  );
  const log = await readFile(join(folder, 'log'), 'utf8');
  t.match(log, 'token list');
  t.notMatch(log, 'hidden');
});
