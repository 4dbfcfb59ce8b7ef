// What the supervisor and its workers tell each other. Writes pass on the same channel (storage/sqlite/relay.ts).

/** From a worker: it serves; why it cannot start; its metrics, as prom-client gives them as JSON; it lives. */
export type WorkerMessage =
  | { readonly kind: 'serving'; readonly origin: string }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'metrics'; readonly metrics: readonly object[] }
  | { readonly kind: 'alive' }
  | { readonly kind: 'writes' };

/** From the supervisor: the worker shall answer what it has got and end; send its metrics; say that it lives. */
export interface SupervisorMessage {
  readonly kind: 'end' | 'measure' | 'check' | 'outcomes';
}
