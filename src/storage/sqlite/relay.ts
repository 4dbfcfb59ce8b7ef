// Relays writes between processes: a worker sends batches to the process with the writer thread, which sends replies.
import { StorageError, toStorageError } from '../../domain/storage.js';
import { BatchSender, type BatchResult, type PackedBatch } from './batch.js';

/** A channel between two processes that preserves the order of messages, such as a worker of node:cluster. */
export interface Channel {
  /** @param done - Called when the message has been sent, or with the error. */
  send(message: object, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  /** Emitted when the other process has exited. */
  on(event: 'disconnect', listener: () => void): unknown;
}

interface WritesMessage {
  readonly kind: 'writes';
  readonly batch: PackedBatch;
}

/** The reply to the oldest WritesMessage without a reply. */
interface OutcomesMessage {
  readonly kind: 'outcomes';
  readonly result: BatchResult;
}

/** Commits the batches of a worker. Batches that it has sent are committed even if it dies. */
export function serveWrites(commit: (batch: PackedBatch) => Promise<string>, worker: Channel): void {
  worker.on('message', (message) => {
    if (!isOfKind<WritesMessage>(message, 'writes')) return;
    const answer = (result: BatchResult) => {
      // Ignores errors: a worker that has exited needs no reply.
      worker.send({ kind: 'outcomes', result } satisfies OutcomesMessage, () => undefined);
    };
    commit(message.batch).then(answer, (error: unknown) => {
      const { failure, message } = toStorageError('SQLite', error);
      answer({ failure, message });
    });
  });
}

/** The worker's side, which has the interface of the writer. */
export class RelayedWriter {
  readonly #batches: BatchSender;
  readonly broken: Promise<StorageError>;

  /** @param channel - The channel to the process that writes. */
  constructor(channel: Channel) {
    const fail = () => this.#batches.fail('the process that writes has exited');
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

  /** @throws StorageError when the process that writes has exited. */
  check(): void {
    this.#batches.check();
  }

  /** Does nothing: the thread belongs to the other process. */
  async close(): Promise<void> {}
}

function isOfKind<M extends { readonly kind: string }>(message: unknown, kind: M['kind']): message is M {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === kind;
}
