// The messages between the supervisor and its workers. Writes have a channel of their own (storage/sqlite/relay-protocol.ts).

/** The environment variable in which the supervisor tells workers where to send their writes. */
export const writerVariable = 'PLANT_STORE_WRITER';

/** From a worker: it listens; it cannot start; its metrics in the JSON format of prom-client; it is alive. */
export type WorkerMessage =
  | { readonly kind: 'serving'; readonly origin: string }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'metrics'; readonly metrics: readonly object[] }
  | { readonly kind: 'alive' };

/** From the supervisor: finish the open requests and exit; send the metrics; report that you are alive. */
export interface SupervisorMessage {
  readonly kind: 'end' | 'measure' | 'check';
}
