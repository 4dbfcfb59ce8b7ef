// Ends a process on a signal, and a thread on a message of the main thread. Entry points load this before all else, so that
// no signal is ignored or lost; so it must not load much.
import { isatty } from 'node:tty';
import { parentPort } from 'node:worker_threads';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Service } from '../service/definition.js';
import type { Storage } from '../storage/core/interface.js';
import { endMessage, threadData } from './threads/thread-data.js';

/** At first there is nothing to finish. Without a handler, a process with PID 1 would ignore these signals. */
let handle: (reason: string) => void = () => process.exit(0);

const hasTerminal = isatty(0) || isatty(1);

/** Handles signals from now on; in a thread that serves, the message of the main thread. */
export function receiveSignals(): void {
  if (threadData === undefined) {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => {
        // SIGHUP ends a process whose terminal is closed. A service has no terminal, and goes on.
        if (signal !== 'SIGHUP' || hasTerminal) handle(signal);
      });
    }
    return;
  }
  parentPort?.on('message', (message: unknown) => {
    if (message === endMessage) handle(endMessage);
  });
}

const interruption = new AbortController();

/** Aborts when the process or thread is to end while it starts and has something to close. */
export const interrupted: AbortSignal = interruption.signal;

/** From now on, what is to end while it starts has something to close, and ends without that only if asked again. */
export function deferEnd(): void {
  handle = () => {
    if (interrupted.aborted) endAtOnce();
    interruption.abort();
  };
}

/** From now on, calls a function when the process or thread is to end: at once, if that came while it started. */
export function onEnd(end: (reason: string) => void): void {
  handle = end;
  if (interrupted.aborted) end('interrupted');
}

/**
 * Ends the process, whatever its threads do. It does not exit, since that would wait for a thread that is in a statement
 * of SQLite, or abort. Acknowledged writes are durable, and the next start finds a store as after a crash.
 */
export function endAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** The parts that a shutdown stops. */
interface Ending {
  service: Service;
  log: FastifyBaseLogger;
  storage: Storage;
  /** Undefined if there is none. */
  admin: Promise<FastifyInstance | undefined>;
  /** Stops the service; resolves when all requests that have arrived have their responses. */
  stop: () => Promise<void>;
}

/**
 * From now on, shuts down gracefully on a signal or a broken storage, and ends immediately on a second signal.
 * @returns A function that shuts down for another reason; in any case, the exit status is 1 then.
 */
export function endOnSignal({ service: { name }, log, storage, admin, stop }: Ending) {
  let ending = false;
  let status = 0;
  const end = async (reason: string) => {
    if (ending) return;
    ending = true;
    log.info({ reason }, `${name} is shutting down`);
    try {
      await stop();
    } finally {
      await storage.close();
    }
    await (await admin)?.close();
    log.info(`${name} has shut down`);
    process.exit(status);
  };
  const fail = (reason: string) => {
    status = 1;
    void end(reason);
  };
  onEnd((signal) => {
    if (!ending) {
      void end(signal);
      return;
    }
    // A line of the level fatal is written before the next statement runs.
    log.fatal({ reason: signal }, `${name} ends at once`);
    endAtOnce();
  });
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    fail('storage');
  });
  return fail;
}
