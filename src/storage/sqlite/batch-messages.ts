// The messages to and from the writer: batches of writes and their results, packed for threads and processes alike.
import { type CollectionDefinition, type Outcome, StorageError, type StorageFailure } from '../interface.js';
import { idRules } from '../ids.js';
import { conditions, outcomes, type Committer, type Result, type Write } from '../writes.js';

/** Separates the texts of a batch. No stored text contains it. */
const separator = '\u0000';

/**
 * A batch of writes by columns, each column as one text: structured cloning of many texts or numbers is slow, and texts
 * can also be sent as JSON. Conditions and collections have one character for each write.
 */
export interface PackedBatch {
  /** The position of each condition; for a write that deletes, plus the number of conditions. */
  conditions: string;
  collections: string;
  subjects: string;
  ids: string;
  /** The JSON texts; '' for null. */
  texts: string;
  /** The texts that must be stored, of those writes whose condition is `equals`. */
  expected: string;
}

/** The results of a batch, one digit for each write in order, or the error. */
export type PackedResults = string | { failure: StorageFailure; message: string };

/** Packs and unpacks the messages about the collections of a store, which both sides know in the same order. */
export class Packer {
  readonly #collections: readonly CollectionDefinition[];
  readonly #codes: ReadonlyMap<CollectionDefinition, string>;

  constructor(collections: readonly CollectionDefinition[]) {
    this.#collections = collections;
    this.#codes = new Map(collections.map((collection, i) => [collection, String.fromCodePoint(i + 0x30)]));
  }

  /** Packs a batch of at least one write. */
  pack(batch: readonly Write[]): PackedBatch {
    return {
      conditions: batch
        .map(({ when, text }) => conditions.indexOf(when) + (text === null ? conditions.length : 0))
        .join(''),
      collections: batch.map(({ collection }) => this.#codes.get(collection)).join(''),
      subjects: batch.map(({ subject }) => subject).join(separator),
      ids: batch.map(({ id }) => id).join(separator),
      texts: batch.map(({ text }) => text).join(separator),
      expected: batch.flatMap((write) => (write.when === 'equals' ? write.expected : [])).join(separator),
    };
  }

  /**
   * Unpacks the writes of a batch, in order.
   * @throws Error when the columns differ in length, or a write is invalid.
   */
  unpack(batch: PackedBatch): Write[] {
    const subjects = batch.subjects.split(separator);
    const ids = batch.ids.split(separator);
    const texts = batch.texts.split(separator);
    const expected = batch.expected.split(separator);
    let equals = 0;
    if ([batch.conditions, batch.collections, ids, texts].some(({ length }) => length !== subjects.length)) {
      throw new Error('the columns of a batch differ in length');
    }
    const writes = subjects.map((subject, i) => {
      const collection = this.#collections[batch.collections.charCodeAt(i) - 0x30];
      const id = collection && idRules[collection.id].parse(ids[i] ?? '');
      const code = Number(batch.conditions[i]);
      const when = conditions[code % conditions.length];
      const text = code < conditions.length ? texts[i] : null;
      const isChange = when !== undefined && !(when === 'absent' && text === null);
      if (collection === undefined || id === undefined || !isChange || !idRules[collection.id].isValid(id)) {
        throw new Error('a write of a batch is invalid');
      }
      const write = { collection, subject, id, when, text };
      return (when === 'equals' ? { ...write, expected: expected[equals++] } : write) as Write;
    });
    // Without a text, the column has the length 1.
    if (expected.length !== Math.max(1, equals)) throw new Error('the columns of a batch differ in length');
    return writes;
  }
}

/** Makes the writes of a batch, in order, and packs their outcomes. */
export function packOutcomes(batch: readonly Write[], make: (write: Write) => Outcome): string {
  return batch.map((write) => outcomes.indexOf(make(write))).join('');
}

/** A writer in another thread or process, which commits the batches that it is sent and replies in the same order. */
export class RemoteWriter implements Committer {
  readonly broken: Promise<StorageError>;
  /** With several, the writer can start the next commit without waiting for an event loop. */
  readonly maxInFlight = 4;
  readonly repeatsKeys = true;
  readonly #packer: Packer;
  readonly #send: (batch: PackedBatch | 'close') => void;
  #failure: StorageError | undefined;
  #closing = false;
  #break!: (failure: StorageError) => void;
  #end!: () => void;
  readonly #ended = new Promise<void>((resolve) => (this.#end = resolve));
  /** The callers of the batches in flight, oldest first. */
  readonly #waiting: {
    readonly resolve: (results: readonly Result[]) => void;
    readonly reject: (error: StorageError) => void;
  }[] = [];

  /** @param send - Sends a batch, or the request to end after all batches. */
  constructor(packer: Packer, send: (batch: PackedBatch | 'close') => void) {
    this.broken = new Promise((resolve) => (this.#break = resolve));
    this.#packer = packer;
    this.#send = send;
  }

  /**
   * @throws StorageError as in the reply, or as thrown by the function that sends; `unknown-outcome` if no reply will
   *   arrive, or `unavailable` if that was known before the call.
   */
  commit(batch: readonly Write[]): Promise<readonly Result[]> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#send(this.#packer.pack(batch));
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Handles the reply to the oldest batch in flight. */
  settle(results: PackedResults): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    if (typeof results === 'string')
      waiting.resolve(Array.from(results, (position) => outcomes[Number(position)]));
    else waiting.reject(new StorageError(results.failure, results.message));
  }

  /** Records that no more replies will arrive. Only the first reason counts. */
  fail(message: string, cause?: unknown): void {
    this.#failure ??= new StorageError('unavailable', message, { cause });
    if (!this.#closing) this.#break(this.#failure);
    // These batches may or may not have been committed.
    for (const { reject } of this.#waiting.splice(0))
      reject(new StorageError('unknown-outcome', message, { cause }));
  }

  /** Records that the writer, or the connection to it, has ended. */
  ended(message: string, cause?: unknown): void {
    this.fail(message, cause);
    this.#end();
  }

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#send('close');
    await this.#ended;
  }
}
