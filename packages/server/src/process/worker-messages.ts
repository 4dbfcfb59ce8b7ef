// The messages between the supervisor and its workers. Writes have a channel of their own (storage/sqlite/writer-protocol.ts).

/** The environment variable with the address to which workers send their writes. */
export const writerVariable = 'SERVICE_WRITER';

/** The environment variable that makes a process a worker: its number. */
export const workerVariable = 'SERVICE_WORKER';

/** The environment variable with the place of a worker among the others, from 0. Its replacement gets the same. */
export const slotVariable = 'SERVICE_SLOT';

/**
 * The descriptor to which workers log: the supervisor's own. It is above 2, because processes that Node.js starts make
 * their standard streams blocking for all that share them.
 */
export const logDescriptor = 4;

/**
 * From a worker: it can take connections; it cannot start; it accepts no further connections; how many connections are
 * open, and the number of the last that it received; its metrics in the JSON format of prom-client; why it cannot serve,
 * if it cannot; it is alive.
 */
export type WorkerMessage =
  | { readonly kind: 'serving' }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'leaving'; readonly reason: string }
  | { readonly kind: 'connections'; readonly open: number; readonly received: number }
  | { readonly kind: 'metrics'; readonly metrics: readonly object[] }
  | { readonly kind: 'probed'; readonly fault: string | undefined }
  | { readonly kind: 'alive' };

/**
 * From the supervisor: serve the connection that comes with this message; ask clients to reconnect; finish the open
 * requests and exit; send the metrics; say whether you can serve; report that you are alive. Connections have consecutive
 * numbers from 1, and `passed` is the last one so far, so that a worker notices if one did not reach it.
 */
export type SupervisorMessage =
  | { readonly kind: 'connection' | 'check'; readonly passed: number }
  | { readonly kind: 'drain' | 'end' | 'measure' | 'probe' };
