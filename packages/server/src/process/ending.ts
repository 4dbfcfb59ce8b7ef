// Ends a process on a signal, and a thread when the main one asks. Entry points load this before all else, so that no
// signal is ignored or lost; so it must not load much.
import { isMainThread } from 'node:worker_threads';
import type { FastifyBaseLogger } from 'fastify';
import type { Service } from '../service/definition.js';
import type { Storage } from '../storage/core/interface.js';

const ending = new AbortController();

/** Aborts when this process or thread is to end. */
export const interrupted: AbortSignal = ending.signal;

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** Whether there is something to close before the end. */
let isDeferred = false;

/** Handles signals from now on, which only the main thread receives. */
export function receiveSignals(): void {
  if (!isMainThread) return;
  // By default, this signal, with which some programs ask for a new log file, opens the debugger for every user of the machine.
  if (process.env['NODE_ENV'] === 'production') process.on('SIGUSR1', () => undefined);
  // Without a handler, a process with PID 1 would ignore these signals.
  for (const signal of signals)
    process.on(signal, () => {
      if (interrupted.aborted) endAtOnce();
      else end(signal);
    });
}

/** Ends this process or thread in order. */
export function end(reason: string): void {
  if (!isDeferred) process.exit(0);
  ending.abort(reason);
}

/** Ends the process in order, with the exit status 1. */
export function fail(reason: string): void {
  process.exitCode = 1;
  end(reason);
}

/**
 * Ends the process, whatever its threads do. It does not exit, since that would wait for a thread that is in a statement
 * of SQLite, or abort. Acknowledged writes are durable, and the next start finds a store as after a crash.
 */
export function endAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** From now on, there is something to close before this process or thread ends. */
export function deferEnd(): void {
  isDeferred = true;
}

/** From now on, calls a function when this process or thread is to end: at once, if that came while it started. */
export function onEnd(close: (reason: string) => Promise<void>): void {
  deferEnd();
  const run = () => void close(String(interrupted.reason));
  if (interrupted.aborted) run();
  else interrupted.addEventListener('abort', run);
}

/**
 * From now on, shuts the process down when it is to end, also because its storage is broken.
 * @param close - Closes everything when all requests that have arrived have their responses. Never rejects.
 */
export function shutDownOnEnd(
  { name }: Service,
  log: FastifyBaseLogger,
  storage: Storage,
  close: () => Promise<void>,
): void {
  onEnd(async (reason) => {
    log.info({ reason }, `${name} is shutting down`);
    // A line of the level fatal is written before the next statement runs.
    for (const signal of signals)
      process.prependListener(signal, () => {
        log.fatal({ reason: signal }, `${name} ends at once`);
      });
    await close();
    log.info(`${name} has shut down`);
    process.exit();
  });
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    fail('storage');
  });
}
