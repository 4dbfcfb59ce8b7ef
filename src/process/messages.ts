// The messages between the supervisor and its workers. Batches of writes share the channel (storage/sqlite/relay.ts).

/**
 * From a worker: it listens; it cannot start; its metrics in the JSON format of prom-client; it is alive; a batch of
 * writes.
 */
export type WorkerMessage =
  | { readonly kind: 'serving'; readonly origin: string }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'metrics'; readonly metrics: readonly object[] }
  | { readonly kind: 'alive' }
  | { readonly kind: 'writes' };

/**
 * From the supervisor: finish the open requests and exit; send the metrics; report that you are alive; the outcomes of
 * a batch of writes.
 */
export interface SupervisorMessage {
  readonly kind: 'end' | 'measure' | 'check' | 'outcomes';
}
