// Receives what ends a process, signals or the supervisor's message, and ends it. Entry points load this before all else,
// so that no signal is ignored or lost; so it must not load much.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Service } from '../definition.js';
import type { Storage } from '../storage/interface.js';
import { workerVariable, type SupervisorMessage } from './worker-messages.js';

/** At first there is nothing to finish. Without a handler, a process with PID 1 would ignore these signals. */
let handle: (reason: string) => void = () => process.exit(0);

/** Handles signals from now on; in a worker, the message of the supervisor, which decides when its workers exit. */
export function receiveSignals(): void {
  const isWorker = process.env[workerVariable] !== undefined;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // Terminals and systemd also send these signals to workers.
      if (!isWorker) handle(signal);
    });
  }
  if (!isWorker) return;
  process.on('message', ({ kind }: SupervisorMessage) => {
    if (kind === 'end') handle(kind);
  });
}

const interruption = new AbortController();

/** Aborts when the process is to end while it starts and has something to close. */
export const interrupted: AbortSignal = interruption.signal;

/** From now on, a process that is to end while it starts has something to close, and exits without that only if asked again. */
export function deferEnd(): void {
  handle = () => {
    if (interrupted.aborted) process.exit(1);
    interruption.abort();
  };
}

/** From now on, calls a function when the process is to end: at once, if that came while it started. */
export function onEnd(end: (reason: string) => void): void {
  handle = end;
  if (interrupted.aborted) end('interrupted');
}

/** What a shutdown stops, in the process that owns the storage. */
interface Ending {
  service: Service;
  log: FastifyBaseLogger;
  storage: Storage;
  /** Undefined if there is none. */
  admin: Promise<FastifyInstance | undefined>;
  /** Stops the service; resolves when all requests that have arrived have their responses. */
  stop: () => Promise<void>;
}

/** From now on, shuts down gracefully on a signal or a broken storage, and exits immediately on a second signal. */
export function endOnSignal({ service: { name }, log, storage, admin, stop }: Ending): void {
  let ending = false;
  const end = async (reason: string, status: number) => {
    if (ending) process.exit(1);
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
  onEnd((signal) => void end(signal, 0));
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    void end('storage', 1);
  });
}
