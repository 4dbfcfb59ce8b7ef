// The crash test: clients create and delete while a service is killed, and no acknowledged write may be lost.
import { DatabaseSync } from '@photostructure/sqlite';
import { randomInt } from 'node:crypto';
import type { Test } from 'tap';
import { fillStore, startServer, type ServerProcess } from './processes.js';
import { repeatUntil } from './wait.js';
import { Subject } from '../../../../scripts/prove/documents.js';
import { Load } from '../../../../scripts/prove/load.js';

/** Kills a service at random moments under load, and compares the store with the responses each time. */
export async function surviveKills(t: Test): Promise<void> {
  const { file, env, token } = await fillStore(t, 0, String);
  const subjects = [new Subject('alice', token, { plants: 200 })];
  const violations: string[] = [];
  const load = ({ origin }: ServerProcess, clients: number) =>
    new Load({ origin, subjects, clients, violation: (what: string) => violations.push(what) });
  for (let round = 0; round < 2; round++) {
    const server = await startServer(t, { env });
    const running = load(server, 32);
    const enough = randomInt(20, 400);
    await repeatUntil(() => running.acknowledged >= enough);
    t.equal(await server.end('SIGKILL'), 'SIGKILL');
    await running.end();

    const check = new DatabaseSync(file);
    const integrity = check.prepare('PRAGMA integrity_check').all();
    check.close();
    t.same(integrity, [{ integrity_check: 'ok' }], `round ${round}: after ${enough} writes`);
    const restarted = await startServer(t, { env });
    await load(restarted, 0).verify();
    t.equal(await restarted.end('SIGTERM'), 0);
  }
  t.strictSame(violations, []);
}
