// The way of writes between processes: a worker sends batches, and the process that has the writer's thread passes them
// on, and the answers back.
import { StorageError, toStorageError } from '../../domain/storage.js';
import { BatchSender, type BatchResult, type PackedBatch } from './batch.js';

/** A channel between two processes that keeps the order of messages, as a worker of node:cluster has. */
export interface Channel {
  /** @param done - Called when the message is handed over, or with the reason why it cannot be. */
  send(message: object, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  /** The other process has gone. */
  on(event: 'disconnect', listener: () => void): unknown;
}

interface WritesMessage {
  readonly kind: 'writes';
  readonly batch: PackedBatch;
}

/** The answer to the oldest message of writes that has none. */
interface OutcomesMessage {
  readonly kind: 'outcomes';
  readonly result: BatchResult;
}

/** Has the batches of a worker committed. A worker that dies cancels nothing that it has sent. */
export function serveWrites(commit: (batch: PackedBatch) => Promise<string>, worker: Channel): void {
  worker.on('message', (message) => {
    if (!isOfKind<WritesMessage>(message, 'writes')) return;
    const answer = (result: BatchResult) => {
      // A worker that has gone does not ask any more.
      worker.send({ kind: 'outcomes', result } satisfies OutcomesMessage, () => undefined);
    };
    commit(message.batch).then(answer, (error: unknown) => {
      const { failure, message } = toStorageError('SQLite', error);
      answer({ failure, message });
    });
  });
}

/** The worker's half. */
export class RelayedWriter {
  readonly #batches: BatchSender;
  readonly broken: Promise<StorageError>;

  /** @param channel - To the process that writes. */
  constructor(channel: Channel) {
    const fail = () => this.#batches.fail('the process that writes is gone');
    this.#batches = new BatchSender((batch) => {
      channel.send({ kind: 'writes', batch } satisfies WritesMessage, (error) => {
        if (error !== null) fail();
      });
    });
    channel.on('message', (message) => {
      if (isOfKind<OutcomesMessage>(message, 'outcomes')) this.#batches.settle(message.result);
    });
    this.broken = new Promise((resolve) => {
      channel.on('disconnect', () => {
        resolve(fail());
      });
    });
  }

  commit(batch: PackedBatch): Promise<string> {
    return this.#batches.commit(batch);
  }

  /** @throws StorageError when the process that writes is gone. */
  check(): void {
    this.#batches.check();
  }

  /** Does nothing: the thread belongs to the other process. */
  async close(): Promise<void> {}
}

function isOfKind<M extends { readonly kind: string }>(message: unknown, kind: M['kind']): message is M {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === kind;
}
