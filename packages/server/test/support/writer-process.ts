// A process that has the writer of a store, as a supervisor does, and connections of other processes to it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';
import type { StoreDefinition } from '../../dist/storage/interface.js';
import type { WriteLimits } from '../../dist/storage/group-commit.js';
import { openStorage, type OpenStorage } from './store.js';

/** The process of a writer. */
export interface WriterProcess {
  /** Its `writerAddress`. */
  readonly address: string;
  readonly pid: number | undefined;
  /** Opens the store as a worker does. It closes with the test. */
  readonly open: (limits?: Partial<WriteLimits>) => Promise<OpenStorage>;
  /** Stores the plant 1 of the subject `s`, in its process alone. */
  readonly fill: () => Promise<void>;
  /** Closes the store, and resolves when the process has exited. */
  readonly close: () => Promise<void>;
  /** Kills the process, and resolves when it has exited. */
  readonly kill: () => Promise<void>;
}

/**
 * Starts a process that opens the store of a URL and writes to it. It is gone with the test.
 * @param definition - The store's, if it is not the Plant Store's.
 */
export async function startWriter(
  t: Test,
  url: string,
  definition?: StoreDefinition,
): Promise<WriterProcess> {
  const args = [url, ...(definition === undefined ? [] : [serialize(definition)])];
  // Without what the test runner imports, which takes longer to start than the store.
  const child = fork(new URL('./writing-process.js', import.meta.url), args, { execArgv: [] });
  const exited = once(child, 'exit');
  t.teardown(() => child.kill('SIGKILL'));
  const [address] = (await Promise.race([once(child, 'message'), exited])) as [unknown];
  if (typeof address !== 'string') throw new Error('the process exited before it could write');
  return {
    address,
    pid: child.pid,
    open: async (limits) => {
      const storage = await openStorage(url, limits, {}, { writerAddress: address });
      t.teardown(() => storage.close());
      return storage;
    },
    fill: async () => {
      child.send('fill');
      const [outcome] = (await once(child, 'message')) as [unknown];
      if (outcome !== 'inserted') throw new Error(`the outcome was ${String(outcome)}`);
    },
    close: async () => {
      if (child.connected) child.disconnect();
      await exited;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

function serialize({ name, collections, migrations }: StoreDefinition): string {
  return JSON.stringify({ name, collections, migrations: migrations.href });
}
