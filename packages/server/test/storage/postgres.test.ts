// PostgreSQL with faults: each is provoked on a real server, and must have a true outcome.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import t, { type Test } from 'tap';
import { engines, hashOf, listTokens, noPostgres, tokenOf } from '../support/engines.js';
import { startServer, type PostgresServer } from '../support/postgres-server.js';
import * as processes from '../support/processes.js';
import { startService } from '../support/service.js';
import { skipFor } from '../support/skip.js';
import { repeatUntil, until, withResolvers } from '../support/wait.js';
import { plants } from '../../../../dist/plants/repository.js';
import {
  failure,
  loadMigrations,
  migratePostgres,
  openPostgres,
  outcomeOf,
  type Migration,
  type PostgresOptions,
  type Storage,
} from '../support/store.js';

/** The maximum time that a request may wait for the database in these tests, in ms; a statement may take a third. */
const timeout = 90_000;
/** The least for what can only fail. */
const shortTimeout = 1_500;
const postgres = engines.find(({ name }) => name === 'postgres')!;
const plant = { name: 'Ficus' };
const remove = { when: 'any', text: null } as const;
const put = (name: string) => ({ when: 'any', text: `{"name":"${name}"}` }) as const;

/** The name of the database of a URL. */
const nameIn = (url: string) => new URL(url).pathname.slice(1);

/** Repeats what may fail until it succeeds. */
const untilDone = async <T>(work: () => Promise<T>): Promise<T> =>
  (await until(() => work().catch(() => undefined))) as T;

t.test('PostgreSQL with faults', skipFor(noPostgres), async (t) => {
  const server = await startServer(t);

  /** Opens a store that closes with the test. */
  async function open(t: Test, url: string, options: Partial<PostgresOptions> = {}): Promise<Storage> {
    const storage = await openPostgres({ url, timeout, ...options });
    t.teardown(() => storage.close());
    return storage;
  }

  /** A database with the schema, and its settings. */
  async function createDatabase(t: Test, settings?: string): Promise<{ url: string; database: string }> {
    const url = await server.createDatabase(t);
    const database = nameIn(url);
    if (settings !== undefined) await server.sql(`ALTER DATABASE ${database} SET ${settings}`);
    return { url, database };
  }

  /** A store in its own database. */
  async function openStore(t: Test, options?: Partial<PostgresOptions>, settings?: string) {
    const { url, database } = await createDatabase(t, settings);
    return Object.assign(await open(t, url, options), { url, database });
  }

  /** A store that gives up soon, for what can only fail, but only long after what succeeds takes on this machine. */
  async function openHasty(t: Test, url: string, options: Partial<PostgresOptions> = {}): Promise<Storage> {
    const begin = performance.now();
    const patient = await openPostgres({ url, timeout });
    await listTokens(patient.tokens);
    await patient.close();
    const soon = Math.max(shortTimeout, Math.ceil(20 * (performance.now() - begin)));
    return untilDone(() => open(t, url, { timeout: soon, ...options }));
  }

  /** A client with an open transaction. */
  async function begin(t: Test, url: string, ...statements: string[]): Promise<Client> {
    const client = new Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    t.teardown(() => client.end());
    await client.query('BEGIN');
    for (const statement of statements) await client.query(statement);
    return client;
  }

  /** A second store on a database, for which PostgreSQL calls a function with the subject of each row that it reads. */
  async function openWatched(t: Test, url: string, statement: string): Promise<Storage> {
    await server.sql(
      `DO $$ BEGIN CREATE ROLE watched LOGIN; EXCEPTION WHEN duplicate_object THEN END $$;
       GRANT ALL ON ALL TABLES IN SCHEMA public TO watched;
       CREATE FUNCTION watch(subject text) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN ${statement}; RETURN true; END $$;
       CREATE POLICY watch ON plants USING (watch(subject));
       CREATE POLICY watch ON tokens USING (watch(subject));
       ALTER TABLE plants ENABLE ROW LEVEL SECURITY;
       ALTER TABLE tokens ENABLE ROW LEVEL SECURITY`,
      nameIn(url),
    );
    return open(t, url.replace('postgres@', 'watched@'));
  }

  /** Waits until a session of the store has this state in pg_stat_activity, and returns its process id. */
  async function session(database: string, condition: string): Promise<number> {
    const row = await firstRow(
      server,
      `SELECT pid FROM pg_stat_activity
       WHERE datname = '${database}' AND application_name = 'plant-store' AND ${condition}`,
    );
    return row['pid'] as number;
  }

  /** Waits until a server process has exited. */
  async function gone(pid: number): Promise<void> {
    await firstRow(server, `SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ${pid})`);
  }

  /** Changes a setting of the server; returns a function that restores it, as does the end of the test. */
  async function configure(t: Test, name: string, value: string): Promise<() => Promise<void>> {
    const before = (await server.sql(`SHOW ${name}`))[0]![name] as string;
    const apply = async (statement: string, expected: string) => {
      await server.sql(statement);
      await server.sql('SELECT pg_reload_conf()');
      await firstRow(server, `SELECT 1 WHERE current_setting('${name}') = '${expected}'`);
    };
    const reset = () => apply(`ALTER SYSTEM RESET ${name}`, before);
    t.teardown(reset);
    await apply(`ALTER SYSTEM SET ${name} = '${value}'`, value);
    return reset;
  }

  /** Commits until a commit waits for a standby: sessions show the setting before the checkpoint process has them wait. */
  async function untilCommitsWait(url: string, waits: string): Promise<void> {
    const client = new Client({ connectionString: url });
    await client.connect();
    const state = { waits: false };
    const committing = (async () => {
      while (!state.waits) await client.query("SELECT pg_logical_emit_message(true, 'probe', '')");
    })();
    const { pid } = await firstRow(server, `SELECT pid FROM pg_stat_activity WHERE ${waits}`);
    state.waits = true;
    await server.sql(`SELECT pg_cancel_backend(${pid as number})`);
    await committing;
    await client.end();
  }

  const waitsForLock = "wait_event_type = 'Lock'";

  t.test('a server that disappears: unavailable or unknown, until it returns', async (t) => {
    const own = await startServer(t);
    const url = await own.createDatabase(t);
    const store = await open(t, url);
    const { plants, tokens } = store;
    t.equal(await plants.create('s', 1n, plant), 'created');

    await own.stop('SIGINT');
    t.equal(await failure(plants.create('s', 2n, plant)), 'unavailable', 'connection refused: no effect');
    t.equal(await failure(plants.delete('s', 1n)), 'unavailable');
    t.equal(await failure(plants.list('s', { limit: 1 })), 'unavailable');
    t.equal(await failure(listTokens(tokens)), 'unavailable');
    t.equal(await failure(store.check()), 'unavailable');
    t.equal(await failure(openPostgres({ url, timeout })), 'unavailable');
    t.equal(await failure(migratePostgres(url)), 'unavailable');

    await own.start();
    await store.check();
    t.equal(await plants.create('s', 2n, plant), 'created', 'it is found again when it is back');
    t.equal((await plants.list('s', { limit: 9 })).count, 2);

    await begin(t, url, "INSERT INTO plants VALUES ('s', 3, '{}')");
    const create = failure(plants.create('s', 3n, plant));
    await firstRow(own, `SELECT 1 FROM pg_stat_activity WHERE ${waitsForLock}`);
    await own.stop('SIGQUIT');
    t.equal(await create, 'unknown-outcome', 'it shut down in mid-statement');

    await writeFile(join(own.data, 'standby.signal'), '');
    await own.start();
    t.equal(await failure(plants.create('s', 3n, plant)), 'unavailable', 'a standby is refused');
    t.equal(
      await failure(plants.list('s', { limit: 1 })),
      'unavailable',
      'for reading too: it may lag behind',
    );
    await t.rejects(openPostgres({ url, timeout }), {
      message: /: the server is read-only, since it is a standby: let DATABASE_URL lead to the primary$/,
    });
    await own.sql('SELECT pg_promote()');
    t.equal(await plants.create('s', 3n, plant), 'created', 'and used once it is promoted');
  });

  t.test('a connection lost during a statement: a write is unknown, and a read is retried', async (t) => {
    const { plants, url, database } = await openStore(t);
    await plants.create('s', 9n, plant);
    const blocker = await begin(t, url, "INSERT INTO plants VALUES ('s', 1, '{}')");
    const create = failure(plants.create('s', 1n, plant));
    await server.sql(`SELECT pg_terminate_backend(${await session(database, waitsForLock)})`);
    t.equal(await create, 'unknown-outcome');
    await blocker.query('ROLLBACK; BEGIN; LOCK TABLE plants IN ACCESS EXCLUSIVE MODE');
    const list = plants.list('s', { limit: 9 });
    await server.sql(`SELECT pg_terminate_backend(${await session(database, waitsForLock)})`);
    await blocker.query('ROLLBACK');
    t.equal((await list).json, JSON.stringify(plant));
    t.equal(await plants.create('s', 1n, plant), 'created', 'nothing of it was left');
  });

  t.test('statement timeout: a write to a locked row or table is unavailable', async (t) => {
    const { plants, url, database } = await openStore(t);
    const { plants: hasty } = await openHasty(t, url);
    await plants.create('s', 2n, plant);
    const blocker = await begin(t, url, "INSERT INTO plants VALUES ('s', 1, '{}')");
    t.equal(await failure(hasty.create('s', 1n, plant)), 'unavailable');
    await blocker.query('LOCK TABLE plants IN ACCESS EXCLUSIVE MODE');
    const stuck = [hasty.create('s', 3n, plant), hasty.delete('s', 2n), hasty.list('s', { limit: 1 })];
    const [creation, deletion, list] = await Promise.all(stuck.map(failure));
    t.equal(list, 'unavailable');
    // One that began late has no time left to learn that it was cancelled.
    for (const outcome of [creation, deletion]) t.match(outcome, /^(unavailable|unknown-outcome)$/);
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = '${database}' AND ${waitsForLock}`;
    await firstRow(server, `SELECT 1 WHERE NOT EXISTS (${waiting})`);
    await blocker.query('ROLLBACK');
    t.equal(await plants.create('s', 3n, plant), 'created');
    t.equal((await plants.list('s', { limit: 9 })).count, 2);
  });

  t.test('a write that is rolled back because of others is retried, for a limited time', async (t) => {
    const { plants: patient, url, database } = await openStore(t);
    const storage = await openHasty(t, url);
    /** Lets so many attempts to insert fail. A sequence counts them, since it keeps its value when they are rolled back. */
    const failFirst = (count: number, condition = 'deadlock_detected') =>
      server.sql(
        `CREATE SEQUENCE IF NOT EXISTS attempts; ALTER SEQUENCE attempts RESTART;
         CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF nextval('attempts') <= ${count} THEN RAISE ${condition}; END IF; RETURN NULL; END $$;
         CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON plants EXECUTE FUNCTION fail()`,
        database,
      );
    for (const [i, condition] of ['serialization_failure', 'deadlock_detected'].entries()) {
      await failFirst(2, condition);
      t.equal(await patient.create('s', BigInt(i), plant), 'created', condition);
    }
    const documents = storage.collection(plants);
    for (const write of [
      () => storage.plants.create('s', 2n, plant),
      () => storage.transaction('s', (tx) => documents.write(tx, 3n, put('Ficus'))),
    ]) {
      await failFirst(1_000_000);
      t.equal(await failure(write()), 'unavailable');
      const [{ n } = {}] = await server.sql('SELECT last_value AS n FROM attempts', database);
      t.ok(Number(n) > 1, `${String(n)} attempts`);
    }
    t.equal((await patient.list('s', { limit: 9 })).count, 2);
  });

  t.test('a stopped server process: the outcome is unknown, and may come late', async (t) => {
    const { url, database } = await createDatabase(t);
    const { plants: hasty } = await openHasty(t, url);
    const create = () => untilDone(() => hasty.create('s', 1n, plant));
    await create();
    const stopped = await session(database, "query LIKE 'INSERT%'");
    process.kill(stopped, 'SIGSTOP');
    t.equal(await failure(hasty.delete('s', 1n)), 'unknown-outcome');
    t.equal(await create(), 'identical', 'it has not taken effect yet, and other writes go on');
    process.kill(stopped, 'SIGCONT');
    await gone(stopped);
    const { plants } = await open(t, url);
    t.equal((await plants.list('s', { limit: 1 })).count, 0, 'it has taken effect');
  });

  t.test('all reading connections busy: reads are rejected, and writes go on', async (t) => {
    const { url, database } = await createDatabase(t);
    const { plants, tokens } = await openHasty(t, url, { poolSize: 1 });
    const reader = await session(database, "query LIKE '%pg_extension%'");
    process.kill(reader, 'SIGSTOP');
    const reads = [
      failure(listTokens(tokens)),
      failure(listTokens(tokens)),
      failure(plants.list('s', { limit: 1 })),
      failure(plants.list('s', { after: 0n, limit: 1 })),
    ];
    const written = await untilDone(() => plants.create('s', 1n, plant));
    t.match(written, /created|identical/);
    t.strictSame(await Promise.all(reads), ['unavailable', 'overloaded', 'overloaded', 'overloaded']);
    process.kill(reader, 'SIGCONT');
    t.equal((await untilDone(() => plants.list('s', { limit: 1 }))).count, 1);
  });

  t.test('reads that wait for a connection are bounded', async (t) => {
    const { plants, tokens } = await openStore(t, { poolSize: 1 });
    await plants.create('s', 1n, plant);
    const many = await Promise.all(Array.from({ length: 1_500 }, () => failure(listTokens(tokens))));
    t.strictSame([...new Set(many)].sort(), ['no failure', 'overloaded'], 'those that wait are bounded');
    const lists = await Promise.all(
      Array.from({ length: 15_000 }, () => failure(plants.list('s', { limit: 1 }))),
    );
    t.strictSame([...new Set(lists)].sort(), ['no failure', 'overloaded'], 'pages that wait, too');
  });

  t.test('pages that wait too long are rejected', async (t) => {
    const { plants, url } = await openStore(t, { poolSize: 2 });
    const { plants: hasty } = await openHasty(t, url, { poolSize: 2 });
    for (const id of [1n, 2n]) await plants.create('s', id, plant);
    const pages = (from: Storage['plants'], after: bigint | undefined) =>
      Promise.all(Array.from({ length: 100 }, () => failure(from.list('s', { after, limit: 9 }))));
    const blocker = await begin(t, url, 'LOCK TABLE plants IN ACCESS EXCLUSIVE MODE');
    const stuck = await pages(hasty, 1n);
    t.strictSame([...new Set(stuck)].sort(), ['overloaded', 'unavailable']);
    await blocker.query('ROLLBACK');
    await untilDone(() => hasty.list('s', { limit: 9 }));
    t.strictSame(
      new Set([...(await pages(plants, 1n)), ...(await pages(plants, undefined))]),
      new Set(['no failure']),
    );
  });

  t.test('a page or a token that cannot be read fails alone', async (t) => {
    const { plants, tokens, url } = await openStore(t);
    const subjects = Array.from({ length: 100 }, (_, i) => (i % 40 === 7 ? `broken ${i}` : `whole ${i}`));
    for (const subject of subjects) {
      await plants.create(subject, 1n, plant);
      await tokens.add(tokenOf(subject, { subject }));
    }
    const read = await openWatched(t, url, "IF subject LIKE 'broken%' THEN RAISE 'broken'; END IF");
    const isBroken = (subject: string) => subject.startsWith('broken');
    t.strictSame(
      await Promise.all(subjects.map((subject) => failure(read.plants.list(subject, { limit: 1 })))),
      subjects.map((subject) => (isBroken(subject) ? 'unavailable' : 'no failure')),
    );
    const found = await Promise.allSettled(
      subjects.map(async (subject) => (await read.tokens.find([hashOf(subject)]))[0]?.subject),
    );
    t.strictSame(
      found.map((outcome) => (outcome.status === 'rejected' ? 'rejected' : outcome.value)),
      subjects.map((subject) => (isBroken(subject) ? 'rejected' : subject)),
    );
  });

  t.test('the pages of long lists do not delay short lists', async (t) => {
    const { plants, url } = await openStore(t);
    for (const subject of ['long', 'short']) await plants.create(subject, 1n, plant);
    const { plants: read } = await openWatched(
      t,
      url,
      "IF subject = 'long' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF",
    );
    const blocker = await begin(t, url, 'SELECT pg_advisory_lock(1)');
    const long = Array.from({ length: 100 }, () => read.list('long', { after: 0n, limit: 9 }));
    await firstRow(server, `SELECT 1 FROM pg_stat_activity WHERE usename = 'watched' AND ${waitsForLock}`);
    t.equal((await read.list('short', { limit: 9 })).count, 1);
    await blocker.query('SELECT pg_advisory_unlock(1)');
    t.strictSame(new Set((await Promise.all(long)).map(({ count }) => count)), new Set([1]));
  });

  t.test('prepared statements that the session does not know, or has, are repeated unnamed', async (t) => {
    const { url, database } = await createDatabase(t);
    const emitted = t.capture(process, 'emitWarning');
    const warnings = () => emitted().map(({ args: [warning] }) => warning);
    /** Runs SQL in the session of every insert, as if a pooler had assigned another one to the service. */
    const onInsert = (statements: string) =>
      server.sql(
        `CREATE TABLE IF NOT EXISTS names (name text);
         CREATE OR REPLACE FUNCTION pool() RETURNS trigger LANGUAGE plpgsql AS $$
           DECLARE it text; BEGIN ${statements} RETURN NULL; END $$;
         CREATE OR REPLACE TRIGGER pool AFTER INSERT ON plants EXECUTE FUNCTION pool()`,
        database,
      );
    await onInsert('INSERT INTO names SELECT name FROM pg_prepared_statements; DEALLOCATE ALL;');
    const { plants: named } = await open(t, url);
    t.equal(await named.delete('s', 1n), false);
    t.equal(await named.create('s', 1n, plant), 'created');
    t.equal(await named.create('s', 2n, plant), 'created');
    t.equal(await named.create('s', 2n, plant), 'identical', 'the insert had no effect the first time');
    for (const id of [1n, 2n]) t.equal(await named.delete('s', id), true);
    t.match(warnings(), [/"[\w-]+" does not exist\. A connection pooler does not support prepared/]);

    const transacting = await open(t, url);
    for (const ids of [[2n], [3n], [4n, 5n]])
      await transacting.transaction('t', async (tx) => {
        for (const id of ids) await transacting.collection(plants).write(tx, id, put('Ficus'));
      });
    t.equal((await transacting.plants.list('t', { limit: 9 })).count, 4, 'a refused one is repeated');
    t.match(warnings(), [/"[\w-]+" does not exist/]);

    await onInsert(
      `FOR it IN SELECT DISTINCT name FROM names EXCEPT SELECT name FROM pg_prepared_statements LOOP
         EXECUTE format('PREPARE %I AS SELECT 1', it);
       END LOOP;`,
    );
    const { plants: late } = await open(t, url);
    for (const id of [1n, 2n, 3n]) t.equal(await late.create('s', id, plant), 'created');
    for (const id of [1n, 2n]) t.equal(await late.delete('s', id), true);
    t.match(warnings(), [/"[\w-]+" already exists/]);
    t.equal((await late.list('s', { limit: 9 })).count, 1);
  });

  t.test('a primary that becomes read-only: /readyz and a gauge say so, and lists go on', async (t) => {
    const { url } = await createDatabase(t);
    const running = await processes.startServer(t, { env: { DATABASE_URL: url, OPS_PORT: '0' } });
    const admin = processes.adminOf(running);
    const secret = await running.createToken('s');
    t.equal((await processes.create(running, secret, '{"id":1,"name":"Ficus"}')).status, 200);
    const state = async () => {
      const ready = await fetch(`${admin}/readyz`);
      const gauges = processes.samples(await (await fetch(`${admin}/metrics`)).text());
      return [ready.status, await ready.json(), gauges['plant_store_database_read_only']];
    };
    t.strictSame(await state(), [200, { status: 'ready' }, 0]);
    const reset = await configure(t, 'default_transaction_read_only', 'on');
    const reason = 'the server is read-only; the log says why';
    t.strictSame(await state(), [503, { status: 'not ready', reason }, 1]);
    const refused = await processes.remove(running, secret, 1);
    t.equal(refused.headers.get('retry-after'), '1');
    t.match([refused.status, await refused.json()], [503, { error: 50300 }]);
    t.equal(await (await processes.list(running, secret)).text(), '[{"name":"Ficus"}]');
    await t.rejects(openPostgres({ url, timeout }), {
      message:
        /: the server is read-only: find out why, then ALTER SYSTEM RESET default_transaction_read_only$/,
    });
    await reset();
    t.equal((await processes.remove(running, secret, 1)).status, 204, 'the connection was replaced');
    t.strictSame(await state(), [200, { status: 'ready' }, 0]);
  });

  t.test('a lost synchronous standby is never reported as success', async (t) => {
    const storage = await openStore(t);
    const { call, token } = await startService(t, postgres, { storage });
    const hasty = await startService(t, postgres, { storage: await openHasty(t, storage.url) });
    const reset = await configure(t, 'synchronous_standby_names', '*');
    const waits = "wait_event = 'SyncRep'";
    await untilCommitsWait(storage.url, waits);
    const body = { id: 1, name: 'Ficus' };
    const timedOut = await hasty.call('POST', '/plants', { token, body });
    t.match(timedOut, { status: 503, json: { error: 50302 }, headers: { 'retry-after': '1' } });
    let last = 1;
    const waiting = `SELECT pid FROM pg_stat_activity WHERE ${waits}`;
    const cancelled = await until(async () => {
      // Each write whose client has given up leaves a backend that waits, of which there is a limited number.
      const earlier = (await server.sql(waiting)).map(({ pid }) => pid as number);
      const response = call('POST', '/plants', { token, body: { ...body, id: ++last } });
      const seen = { found: false, over: false };
      const end = () => (seen.over = true);
      response.then(end, end);
      // It may end before it is found.
      await repeatUntil(async () => {
        const rows = await server.sql(
          `SELECT pg_cancel_backend(pid) FROM (${waiting}) AS waiting WHERE pid <> ALL ('{${earlier.join()}}')`,
        );
        seen.found = rows.length > 0;
        return seen.found || seen.over;
      });
      const result = await response;
      return seen.found ? result : undefined;
    });
    t.match(cancelled, { status: 503, json: { error: 50302 } }, 'the server itself calls this a success');
    for (const [method, path, again] of [
      ['POST', '/plants', { ...body, id: last }],
      ['DELETE', '/plants/0', undefined],
    ] as const) {
      t.match(
        await hasty.call(method, path, { token, body: again }),
        { status: 503 },
        'nor is what a later one finds, which a failover may undo',
      );
    }
    await reset();
    for (const id of [1, last]) {
      t.match(await call('POST', '/plants', { token, body: { ...body, id } }), {
        status: 400,
        json: { error: 40011 },
      });
    }
    t.equal(((await call('GET', '/plants', { token })).json as unknown[]).length, last);
  });

  t.test('a row that the database rejects fails alone', async (t) => {
    const { plants, database } = await openStore(t);
    await server.sql("ALTER TABLE plants ADD CHECK (plant NOT LIKE '%forbidden%')", database);
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        outcomeOf(plants.create('s', BigInt(i), { name: i % 40 === 7 ? 'forbidden' : 'allowed' })),
      ),
    );
    t.strictSame(
      outcomes,
      outcomes.map((_, i) => (i % 40 === 7 ? 'unavailable' : 'created')),
    );
    t.equal((await plants.list('s', { limit: 200 })).count, 97);
  });

  t.test('an error means no effect if the session goes on, and may have one if it ends', async (t) => {
    const { plants, database } = await openStore(t);
    const onInsert = (statement: string) =>
      server.sql(
        `CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN ${statement}; RETURN NULL; END $$;
           CREATE OR REPLACE TRIGGER fail AFTER INSERT ON plants EXECUTE FUNCTION fail()`,
        database,
      );
    for (const code of ['53100', '58030', 'XX000', '42501', '57P01', 'MY001']) {
      await onInsert(`RAISE 'fault' USING ERRCODE = '${code}'`);
      t.equal(await failure(plants.create('s', 1n, plant)), 'unavailable', code);
    }
    await onInsert('PERFORM pg_terminate_backend(pg_backend_pid())');
    t.equal(
      await failure(plants.create('s', 1n, plant)),
      'unknown-outcome',
      '57P01, of the end of the session',
    );
    t.equal((await plants.list('s', { limit: 1 })).count, 0);
  });

  t.test(
    'a role with exactly the documented grants can do everything; what is missing is named',
    async (t) => {
      const { url, database } = await createDatabase(t);
      const document = await readFile(new URL('../../../../docs/postgres.md', import.meta.url), 'utf8');
      const block = (/```sql\n(CREATE ROLE [^]*?)```/.exec(document)?.[1] ?? '').replace(
        'DATABASE plants',
        `DATABASE ${database}`,
      );
      await server.sql(
        `REVOKE ALL ON DATABASE ${database} FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC;
         REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC;
         REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
         ${block}`,
        database,
      );
      const [ofService = '', ofCommands = ''] = block.split(/^--.*$/m);
      const asRole = url.replace('postgres@', 'plant_store@');
      const store = await open(t, asRole);
      const documents = store.collection(plants);
      for (const [change, outcome] of [
        [put('Ficus'), 'inserted'],
        [put('Ficus'), 'same'],
        [put('Monstera'), 'replaced'],
        [remove, 'deleted'],
      ] as const)
        t.equal(await documents.write('s', 1n, change), outcome);
      t.equal((await store.plants.list('s', { limit: 1 })).count, 0);
      t.strictSame(await store.tokens.find([hashOf('x')]), [undefined]);

      const [connect = '', ...others] = privilegesOf(ofService);
      await server.sql(`REVOKE ${connect} FROM plant_store`, database);
      const message = denied(`database "${database}"`);
      await t.rejects(openPostgres({ url: asRole, timeout }), { message }, connect);
      await server.sql(`GRANT ${connect} TO plant_store`, database);
      for (const what of others) {
        await server.sql(`REVOKE ${what} FROM plant_store`, database);
        await t.rejects(store.check(), { message: lacks(what) });
        await t.rejects(openPostgres({ url: asRole, timeout }), { message: lacks(what) });
        await server.sql(`GRANT ${what} TO plant_store`, database);
        await store.check();
      }

      const commands: Record<string, () => Promise<unknown>> = {
        INSERT: () => store.tokens.add(tokenOf('x')),
        UPDATE: () => store.tokens.revoke('x'),
        DELETE: () =>
          store.tokens.add(tokenOf('y', { keptUntil: 0 })).then(() => store.tokens.add(tokenOf('z'))),
      };
      for (const what of privilegesOf(ofCommands)) {
        await server.sql(`REVOKE ${what} FROM plant_store`, database);
        await t.rejects(commands[what.split(' ', 1)[0]!]!(), { message: denied('table tokens') });
        await server.sql(`GRANT ${what} TO plant_store`, database);
      }
    },
  );

  t.test('a server with unsafe settings is rejected', async (t) => {
    await server.sql("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0");
    await t.rejects(openPostgres({ url: server.url('ascii'), timeout }), { message: /encoding SQL_ASCII/ });
    await t.rejects(openPostgres({ url: 'postgres://a:b@c:99999999/d', timeout }), { message: /./ });
  });

  t.test('no reload turns synchronous_commit off for a connection that is open', async (t) => {
    const store = await openStore(t);
    // Each write says with which setting it is made.
    await server.sql(
      `CREATE FUNCTION refuse_unsafe() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF current_setting('synchronous_commit') = 'off' THEN RAISE EXCEPTION 'unsafe'; END IF;
         RETURN NEW; END $$;
       CREATE TRIGGER refuse_unsafe BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION refuse_unsafe()`,
      store.database,
    );
    t.equal(await store.plants.create('s', 1n, plant), 'created');
    await configure(t, 'synchronous_commit', 'off');
    t.equal(await store.plants.create('s', 2n, plant), 'created');
  });

  t.test('a start says everything that is wrong at once, with the statements that cure it', async (t) => {
    const { url, database } = await createDatabase(t, 'synchronous_commit = off');
    await server.sql(
      `ALTER DATABASE ${database} SET standard_conforming_strings = off; DROP INDEX tokens_by_subject;
       ALTER TABLE plants DROP CONSTRAINT plants_pkey; ALTER TABLE tokens DROP CONSTRAINT tokens_hash_key;
       CREATE ROLE wrong LOGIN; GRANT SELECT ON plants, migrations, tokens TO wrong`,
      database,
    );
    const asWrong = url.replace('postgres@', 'wrong@');
    const { message } = (await openPostgres({ url: asWrong, timeout }).catch(
      (error: unknown) => error,
    )) as Error;
    const faults = message.replace(/^PostgreSQL: /, '').split('; ');
    t.strictSame(faults, [
      'synchronous_commit is off, so that a write may be lost: ALTER ROLE wrong SET synchronous_commit = on',
      'standard_conforming_strings is off: ALTER ROLE wrong SET standard_conforming_strings = on',
      'the role wrong lacks a privilege: GRANT INSERT ON plants TO wrong',
      'the role wrong lacks a privilege: GRANT UPDATE ON plants TO wrong',
      'the role wrong lacks a privilege: GRANT DELETE ON plants TO wrong',
      'plants_pkey is missing: ALTER TABLE plants ADD PRIMARY KEY (subject, id)',
      'tokens_hash_key is missing: ALTER TABLE tokens ADD UNIQUE (hash)',
      'tokens_by_subject is missing: CREATE INDEX tokens_by_subject ON tokens (subject COLLATE "C", expires_at) WHERE revoked_at IS NULL',
    ]);
    for (const fault of faults) await server.sql(fault.slice(fault.indexOf(': ') + 2), database);
    await (await open(t, asWrong)).check();
  });

  /** The options of a start that waits for its server. @param tried - Called each time that it cannot be reached. */
  const waiting = (tried: (fault: unknown) => void) => ({
    waits: true,
    writes: {
      report: (event: { type: string; fault?: unknown }) => {
        if (event.type === 'store unreachable') tried(event.fault);
      },
    },
  });

  t.test('a start that a busy server gives no time names the setting, and is tried again', async (t) => {
    const { url } = await createDatabase(t);
    const blocker = await begin(t, url, 'LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE');
    // A busy machine may connect too late already.
    const message = /(?:statement|connection) timeout.*; DATABASE_TIMEOUT_SECONDS sets the time$/;
    await t.rejects(openPostgres({ url, timeout: shortTimeout }), { message });
    const tried = withResolvers<unknown>();
    const opening = openPostgres({ url, timeout: shortTimeout, ...waiting(tried.resolve) });
    t.match(await tried.promise, { message });
    await blocker.query('ROLLBACK');
    await (await opening).close();
  });

  t.test('a start waits for a server that cannot be reached', async (t) => {
    const own = await startServer(t);
    const url = await own.createDatabase(t);
    await own.stop('SIGINT');
    const tried = withResolvers<unknown>();
    const opening = openPostgres({ url, timeout, ...waiting(tried.resolve) });
    t.match(await tried.promise, { message: /ECONNREFUSED/ });
    await own.start();
    await (await opening).close();
    const wrong = openPostgres({ url: `${url}_none`, timeout, ...waiting(tried.resolve) });
    await t.rejects(wrong, { message: /does not exist/ }, 'other faults end the start');
  });

  t.test('migrations: one of several concurrent calls migrates', async (t) => {
    const url = await server.createDatabase(t, { schema: false });
    await t.rejects(openPostgres({ url, timeout }), {
      message: /create it with "node dist\/cli\.js init"/,
    });
    const applied = await Promise.all(Array.from({ length: 8 }, () => migratePostgres(url)));
    const all = loadMigrations('postgres').length;
    t.strictSame(applied.map(({ length }) => length).sort(), [0, 0, 0, 0, 0, 0, 0, all]);
    t.equal(await (await open(t, url)).plants.create('s', 1n, plant), 'created');
  });

  t.test('migrations: a start before them names the command, and nothing that they make', async (t) => {
    const { url, database } = await openStore(t);
    await server.sql('UPDATE migrations SET version = version - 1; DROP INDEX tokens_by_end', database);
    await t.rejects(openPostgres({ url, timeout }), {
      message:
        /^PostgreSQL: the schema of the database is out of date: run "node dist\/cli\.js migrate" with the same DATABASE_URL$/,
    });
  });

  t.test('a failed migration leaves nothing behind', async (t) => {
    const { url, database } = await openStore(t);
    const current = loadMigrations('postgres');
    const broken: Migration = {
      version: current.length + 1,
      name: 'broken',
      oldestApplication: '1.0.0',
      sql: 'CREATE TABLE half (id int); SELECT 1 / 0',
    };
    t.equal(await failure(migratePostgres(url, [...current, broken])), 'unavailable');
    t.strictSame(
      await server.sql(
        "SELECT to_regclass('half') AS half, max(version) AS version FROM migrations",
        database,
      ),
      [{ half: null, version: current.length }],
    );
  });
});

/** The refusal that names a privilege which a role lacks. */
const lacks = (what: string) =>
  new RegExp(`the role plant_store lacks a privilege: GRANT ${what} TO plant_store`);

/** PostgreSQL's own refusal. */
const denied = (what: string) => new RegExp(`permission denied for ${what}`);

/** The single privileges that statements grant, each with what it is for. */
const privilegesOf = (grants: string) =>
  [...grants.matchAll(/^GRANT (.+) ON ((?:[A-Z]+ )?)(.+) TO/gm)].flatMap(
    ([, privileges = '', kind = '', names = '']) =>
      privileges
        .split(', ')
        .flatMap((privilege) => names.split(', ').map((name) => `${privilege} ON ${kind}${name}`)),
  );

/** Queries until there is a row. */
async function firstRow(server: PostgresServer, query: string): Promise<Record<string, unknown>> {
  return (
    await until(
      () => server.sql(query),
      ([first]) => first !== undefined,
    )
  )[0]!;
}
