// A process that writes to a store, to be killed.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';

/** A process that has a store open. */
interface WriterProcess {
  readonly pid: number | undefined;
  /** Kills the process, and resolves when it has exited. */
  readonly kill: () => Promise<void>;
}

/** Starts a process that opens the store of a URL, as a server does, and stores the plant 1 of the subject `s`. */
export async function startWriter(t: Test, url: string): Promise<WriterProcess> {
  // Without what the test runner imports, which takes longer to start than the store.
  const child = fork(new URL('./writing-process.js', import.meta.url), [url], { execArgv: [] });
  const exited = once(child, 'exit');
  t.teardown(() => child.kill('SIGKILL'));
  const [outcome] = (await Promise.race([once(child, 'message'), exited])) as [unknown];
  if (outcome !== 'inserted') throw new Error(`the outcome was ${String(outcome)}`);
  return {
    pid: child.pid,
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
