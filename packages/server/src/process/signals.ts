// Receives the signals that end the service, and ends it. Entry points load this before all else, so that no signal is
// ignored or lost; so it must not load much.
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { Config } from '../config.js';
import type { Service } from '../definition.js';
import type { Storage } from '../storage/interface.js';
import { workerVariable } from './worker-messages.js';

/** At first there is nothing to finish. Without a handler, a process with PID 1 would ignore these signals. */
const endAtOnce = () => process.exit(0);
/** Terminals and systemd also send these signals to the supervisor, which decides when its workers exit. */
const ignore = () => undefined;

let handle: (signal: string) => void = process.env[workerVariable] === undefined ? endAtOnce : ignore;

/** Handles signals from now on. */
export function receiveSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      handle(signal);
    });
  }
}

/** The maximum durations of the phases of a shutdown, in ms. */
export function shutdownTimes({ DRAIN_SECONDS, SHUTDOWN_SECONDS }: Config) {
  return { drainTime: DRAIN_SECONDS * 1000, patience: SHUTDOWN_SECONDS * 1000 };
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
  handle = (signal) => void end(signal, 0);
  void storage.broken.then((error) => {
    log.fatal({ err: error }, 'the storage is broken');
    void end('storage', 1);
  });
}
