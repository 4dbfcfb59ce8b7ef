// The messages between the supervisor and its workers. Writes have a channel of their own (storage/sqlite/relay-protocol.ts).

/** The environment variable in which the supervisor tells workers where to send their writes. */
export const writerVariable = 'PLANT_STORE_WRITER';

/** The environment variable that makes a process a worker. */
export const workerVariable = 'PLANT_STORE_WORKER';

/**
 * The descriptor to which workers log: the supervisor's own. It is above 2, because processes that Node.js starts make
 * their standard streams blocking for all that share them.
 */
export const logDescriptor = 4;

/**
 * From a worker: it listens; it cannot start; it can no longer write, and accepts no further connections; its metrics in
 * the JSON format of prom-client; whether its storage can serve; it is alive.
 */
export type WorkerMessage =
  | { readonly kind: 'serving'; readonly origin: string }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'leaving'; readonly reason: string }
  | { readonly kind: 'metrics'; readonly metrics: readonly object[] }
  | { readonly kind: 'storage'; readonly fault: string | undefined }
  | { readonly kind: 'alive' };

/**
 * From the supervisor: finish the open requests and exit; send the metrics; check the storage; report that you are
 * alive.
 */
export interface SupervisorMessage {
  readonly kind: 'end' | 'measure' | 'storage' | 'check';
}
