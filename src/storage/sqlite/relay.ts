// The way of writes between processes: workers send those of a turn or more in one message, and the process that owns
// the group writer answers each message with one.
import { StorageError, toStorageError, type StorageFailure } from '../../domain/storage.js';
import { settler, type Settle, type WriteObserver, type WriteTrace } from '../group-writer.js';
import {
  outcomeCode,
  plantOutcomes,
  type PlantOutcome,
  type PlantWrite,
  type PlantWriter,
} from '../plant-writes.js';
import { packBatch, unpackBatch, type PackedBatch } from './batch.js';

/**
 * How many messages of a worker may be without an answer: one whose writes are being committed, and one that waits for
 * the next commit. Further writes collect, as a message costs more than a write.
 */
const mostUnderWay = 2;

/** A channel between two processes that keeps the order of messages, as a worker of node:cluster has. */
export interface Channel {
  /** @param done - Called when the message is handed over, or with the reason why it cannot be. */
  send(message: object, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
  /** The other process has gone. */
  on(event: 'disconnect', listener: () => void): unknown;
}

/** The writes of a turn, or of those that had to wait. */
interface WritesMessage {
  readonly kind: 'writes';
  readonly turn: number;
  readonly batch: PackedBatch;
}

/** What became of them, in their order: the codes of their outcomes, or why they have none. */
interface OutcomesMessage {
  readonly kind: 'outcomes';
  readonly turn: number;
  /** How many writes were committed together, in the largest batch that had any of them. */
  readonly rows: number;
  readonly results: readonly (number | { failure: StorageFailure; message: string })[];
}

/** Commits what a worker sends. A worker that dies cancels nothing that it has sent. */
export function serveWrites(writer: PlantWriter, worker: Channel): void {
  const write = (one: PlantWrite, trace: WriteTrace): Promise<OutcomesMessage['results'][number]> =>
    writer.write(one, trace).then(
      (outcome) => outcomeCode(one.kind, outcome),
      (error: unknown) => {
        const { failure, message } = toStorageError('SQLite', error);
        return { failure, message };
      },
    );
  worker.on('message', (message) => {
    if (!isOfKind<WritesMessage>(message, 'writes')) return;
    const { turn, batch } = message;
    let rows = 0;
    const trace: WriteTrace = {
      run: (commit) => commit(),
      end: (batchRows) => {
        rows = Math.max(rows, batchRows);
      },
    };
    void Promise.all(unpackBatch(batch).map((one) => write(one, trace))).then((results) => {
      // A worker that has gone does not ask any more.
      worker.send({ kind: 'outcomes', turn, rows, results } satisfies OutcomesMessage, () => undefined);
    });
  });
}

/** The worker's half: the same promises as a group writer's, whose bounds then hold over all workers together. */
export class RelayedWriter implements PlantWriter {
  readonly #channel: Channel;
  readonly #observer: WriteObserver | undefined;
  /** The writes that are not sent yet. */
  #writes: PlantWrite[] = [];
  #settles: Settle[] = [];
  /** Those that were sent and have no outcome yet, by turns. */
  readonly #sent = new Map<number, Settle[]>();
  #turn = 0;
  #closed = false;
  #failure: StorageError | undefined;
  #whenIdle: (() => void)[] = [];
  readonly broken: Promise<StorageError>;

  /**
   * @param channel - To the process that writes.
   * @param observer - What watches the writes of this process.
   */
  constructor(channel: Channel, observer?: WriteObserver) {
    this.#channel = channel;
    this.#observer = observer;
    channel.on('message', (message) => {
      if (isOfKind<OutcomesMessage>(message, 'outcomes')) this.#settle(message);
    });
    this.broken = new Promise((resolve) => {
      channel.on('disconnect', () => {
        resolve(this.#fail());
      });
    });
  }

  write<V extends PlantWrite>(write: V): Promise<PlantOutcome<V['kind']>> {
    if (this.#closed) return Promise.reject(new StorageError('unavailable', 'the store is closed'));
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const kind: V['kind'] = write.kind;
    return new Promise((resolve, reject) => {
      this.#settles.push(settler(plantOutcomes[kind], resolve, reject, this.#observer?.queued?.(kind)));
      if (this.#writes.push(write) === 1) setImmediate(this.#send);
    });
  }

  /** @throws StorageError when the process that writes is gone. */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when all writes have their outcomes; no more are taken. */
  close(): Promise<void> {
    this.#closed = true;
    const idle = this.#sent.size === 0 && this.#writes.length === 0;
    return idle ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  readonly #send = (): void => {
    if (this.#writes.length === 0 || this.#sent.size >= mostUnderWay) return;
    const turn = ++this.#turn;
    this.#sent.set(turn, this.#settles);
    const batch = packBatch(this.#writes);
    this.#settles = [];
    this.#writes = [];
    this.#channel.send({ kind: 'writes', turn, batch } satisfies WritesMessage, (error) => {
      if (error !== null) this.#fail();
    });
  };

  #settle({ turn, rows, results }: OutcomesMessage): void {
    this.#sent.get(turn)?.forEach((settle, i) => {
      const result = results[i];
      settle(typeof result === 'object' ? new StorageError(result.failure, result.message) : result, rows);
    });
    this.#sent.delete(turn);
    this.#send();
    this.#endWhenIdle();
  }

  #endWhenIdle(): void {
    if (this.#sent.size === 0 && this.#writes.length === 0) for (const resolve of this.#whenIdle) resolve();
  }

  #fail(): StorageError {
    this.#failure ??= new StorageError('unavailable', 'the process that writes is gone');
    const unsent = this.#settles;
    this.#settles = [];
    this.#writes = [];
    for (const settle of unsent) settle(this.#failure, 0);
    // Nobody knows what became of these.
    for (const [turn, settles] of this.#sent) {
      const lost = { failure: 'unknown-outcome', message: this.#failure.message } as const;
      this.#settle({ kind: 'outcomes', turn, rows: 0, results: settles.map(() => lost) });
    }
    this.#endWhenIdle();
    return this.#failure;
  }
}

function isOfKind<M extends { readonly kind: string }>(message: unknown, kind: M['kind']): message is M {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === kind;
}
