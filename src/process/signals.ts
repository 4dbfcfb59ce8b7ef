// Receives the signals that end the service. The entry point imports it first, so that no signal is ignored or lost.
import { workerVariable } from './messages.js';

/** A signal that ends the service gracefully. */
export type EndSignal = 'SIGTERM' | 'SIGINT' | 'SIGHUP';

/** At first there is nothing to finish. Without a handler, a process with PID 1 would ignore these signals. */
const endAtOnce = () => process.exit(0);
/** Terminals and systemd also send these signals to the supervisor, which decides when its workers exit. */
const ignore = () => undefined;

let handle: (signal: EndSignal) => void = process.env[workerVariable] === undefined ? endAtOnce : ignore;
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.on(signal, () => {
    handle(signal);
  });
}

/** From now on, calls a function for each of these signals, instead of exiting. */
export function handleSignals(handler: (signal: EndSignal) => void): void {
  handle = handler;
}
