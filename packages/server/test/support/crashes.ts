// The crash test: clients create and delete while processes are killed, and no acknowledged write may be lost.
import { DatabaseSync } from '@photostructure/sqlite';
import { randomInt } from 'node:crypto';
import type { Test } from 'tap';
import { create, list, remove, startServer, type ServerProcess } from './processes.js';

/** A store and its service. */
export interface CrashTest {
  readonly file: string;
  readonly env: Record<string, string>;
  /** A token for plants that no other client writes. */
  readonly token: string;
  /**
   * Kills processes after a random number of responses, and resolves when that has been noticed.
   * @returns Whether the service continues; then it is called again.
   */
  readonly kill: (server: ServerProcess) => Promise<boolean>;
}

/** Kills a service at random moments under load, and compares the store with the responses each time. */
export async function surviveKills(t: Test, { file, env, token, kill }: CrashTest): Promise<void> {
  /** The plants that must exist, that must not, and whose state is unknown. */
  const state = new Map<number, 'there' | 'gone' | 'unknown'>();
  let nextId = 0;
  for (let round = 0; round < 2; round++) {
    const server = await startServer(t, { env });
    let acknowledged = 0;
    let enough = randomInt(20, 400);
    let kills = 0;
    let killing = false;
    let over = false;
    const isOver = () => over;
    // A connection that was being opened to a killed process may stay open forever.
    let noticed = new AbortController();
    const client = async () => {
      while (!isOver()) {
        const there = [...state].find(([, value]) => value === 'there' && Math.random() < 0.3)?.[0];
        const deletes = there !== undefined && Math.random() < 0.4;
        const id = deletes ? there : nextId++;
        state.set(id, 'unknown');
        let status: number;
        try {
          const response = await (deletes
            ? remove(server, token, id, noticed.signal)
            : create(server, token, `{"id":${id},"name":"${id}"}`, noticed.signal));
          await response.arrayBuffer();
          ({ status } = response);
        } catch (error) {
          if (kills === 0) throw error;
          continue;
        }
        if (status !== (deletes ? 204 : 200)) throw new Error(`the response was ${status}`);
        state.set(id, deletes ? 'gone' : 'there');
        if (++acknowledged < enough || killing) continue;
        killing = true;
        kills++;
        over = !(await kill(server));
        noticed.abort();
        noticed = new AbortController();
        enough = acknowledged + randomInt(20, 400);
        killing = false;
      }
    };
    await Promise.all(Array.from({ length: 32 }, client));
    t.equal(await server.end('SIGKILL'), 'SIGKILL');

    const check = new DatabaseSync(file);
    const { integrity_check: integrity } = check.prepare('PRAGMA integrity_check').get() as {
      integrity_check: string;
    };
    check.close();
    t.equal(integrity, 'ok', `round ${round}: killed after ${acknowledged} responses`);
    // One process is enough to read the store.
    const restarted = await startServer(t, { env: { ...env, WORKERS: '1' } });
    const names = new Set(
      ((await (await list(restarted, token)).json()) as { name: string }[]).map(({ name }) => Number(name)),
    );
    const lost = [...state].filter(([id, value]) => value === 'there' && !names.has(id));
    const back = [...state].filter(([id, value]) => value === 'gone' && names.has(id));
    t.strictSame({ lost, back }, { lost: [], back: [] });
    for (const [id, value] of state) if (value === 'unknown') state.set(id, names.has(id) ? 'there' : 'gone');
    t.equal(await restarted.end('SIGTERM'), 0);
  }
}
