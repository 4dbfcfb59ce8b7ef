// The messages to and from the writer: batches of writes, transactions, and their results, packed for threads and
// processes alike.
import {
  type Change,
  type CollectionDefinition,
  type Outcome,
  StorageError,
  type StorageFailure,
} from '../interface.js';
import { idRules } from '../ids.js';
import { isTokenWrite, tokenDocuments } from '../token-writes.js';
import { isCheck, type Step } from '../transactions.js';
import type { WriteResult, Write } from '../writes.js';

/** All outcomes and conditions; messages contain their positions. */
const outcomes = ['inserted', 'replaced', 'deleted', 'same', 'other', 'missing'] as const satisfies Outcome[];
const conditions = ['absent', 'present', 'any', 'equals'] as const satisfies Change['when'][];

/** The result of a write that was refused for lack of space, beside the outcomes. */
export const refused = 'refused';
const results = [...outcomes, refused] as const;

const noSpace =
  'SQLite: creates and replacements are refused, because less than DATABASE_RESERVE_BYTES is free on the disk of the ' +
  'store; free space there, or delete documents';

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

/**
 * A transaction, by columns likewise. What it requires of each document and what becomes of it is one character: one of
 * the positions of `steps`.
 */
export interface PackedTransaction {
  steps: string;
  subject: string;
  collections: string;
  ids: string;
  /** The texts that must be stored, of those documents that must exist. */
  expected: string;
  /** The texts to store, of those documents that are stored. */
  texts: string;
}

/** Whether a document must exist, and what becomes of it. */
const steps = [
  { exists: false, becomes: 'kept' },
  { exists: false, becomes: 'stored' },
  { exists: true, becomes: 'kept' },
  { exists: true, becomes: 'stored' },
  { exists: true, becomes: 'deleted' },
] as const;

/** The results of a transaction, of which it has one; or it is refused for lack of space. */
const decisions = { committed: 'c', conflict: 'n' } as const;

/** A document that a transaction requires to be as it was. */
export type Required = Pick<Write, 'collection' | 'subject' | 'id'> & {
  readonly expected: string | undefined;
};

/** A transaction as the writer makes it: these writes, if all that is required holds. */
export interface UnpackedTransaction {
  readonly required: readonly Required[];
  readonly writes: readonly Write[];
}

/** The results of a batch, one digit for each write in order, or the error. */
export type PackedResults = string | { failure: StorageFailure; message: string };

/** A commit: its number of writes and its duration. */
interface Commit {
  readonly rows: number;
  readonly seconds: number;
}

/** The writer's reply to the oldest batch without a reply. */
export interface Reply {
  readonly result: PackedResults;
  /** The commit, in one of the replies to its batches. */
  readonly commit?: Commit | undefined;
}

/** Packs and unpacks the messages about the collections and tokens of a store; both sides know the same collections. */
export class Packer {
  readonly #collections: readonly CollectionDefinition[];
  readonly #codes: ReadonlyMap<CollectionDefinition, string>;

  constructor(collections: readonly CollectionDefinition[]) {
    this.#collections = [...collections, tokenDocuments];
    this.#codes = new Map(
      this.#collections.map((collection, i) => [collection, String.fromCodePoint(i + 0x30)]),
    );
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
      const isChange =
        when !== undefined && !(when === 'absent' && text === null) && (text === null) === (texts[i] === '');
      if (collection === undefined || id === undefined || !isChange || !idRules[collection.id].isValid(id)) {
        throw new Error('a write of a batch is invalid');
      }
      const change = { collection, subject, id, when, text };
      const write = (when === 'equals' ? { ...change, expected: expected[equals++] } : change) as Write;
      if (collection === tokenDocuments && !isTokenWrite(write))
        throw new Error('a token of a batch is invalid');
      return write;
    });
    // Without a text, the column has the length 1.
    if (expected.length !== Math.max(1, equals)) throw new Error('the columns of a batch differ in length');
    return writes;
  }

  /** Packs a transaction of at least one step. */
  packTransaction(subject: string, all: readonly Step[]): PackedTransaction {
    const kindOf = ({ expected, text }: Step) => {
      const becomes = expected === text ? 'kept' : text === null ? 'deleted' : 'stored';
      return steps.findIndex((one) => one.exists === (expected !== null) && one.becomes === becomes);
    };
    return {
      steps: all.map(kindOf).join(''),
      subject,
      collections: all.map(({ collection }) => this.#codes.get(collection)).join(''),
      ids: all.map(({ id }) => id).join(separator),
      expected: all.flatMap(({ expected }) => expected ?? []).join(separator),
      texts: all.flatMap((step) => (isCheck(step) ? [] : (step.text ?? []))).join(separator),
    };
  }

  /** Unpacks a transaction. @throws Error when the columns differ in length, or a step is invalid. */
  unpackTransaction({ subject, ...packed }: PackedTransaction): UnpackedTransaction {
    const ids = packed.ids.split(separator);
    const expected = packed.expected.split(separator);
    const texts = packed.texts.split(separator);
    let present = 0;
    let stored = 0;
    const required: Required[] = [];
    const writes: Write[] = [];
    for (const [i, position] of Array.from(packed.steps).entries()) {
      const step = steps[Number(position)];
      const collection = this.#collections[packed.collections.charCodeAt(i) - 0x30];
      const id = collection && idRules[collection.id].parse(ids[i] ?? '');
      if (
        step === undefined ||
        collection === undefined ||
        collection === tokenDocuments ||
        id === undefined ||
        !idRules[collection.id].isValid(id)
      )
        throw new Error('a step of a transaction is invalid');
      const key = { collection, subject, id };
      required.push({ ...key, expected: step.exists ? expected[present++] : undefined });
      if (step.becomes === 'kept') continue;
      const text = step.becomes === 'deleted' ? null : texts[stored++];
      if (text === undefined) throw new Error('a transaction lacks a text');
      writes.push({ ...key, when: 'any', text });
    }
    // Without a text, a column has the length 1.
    const lengths = [ids.length, packed.collections.length, expected.length, texts.length];
    const due = [packed.steps.length, packed.steps.length, Math.max(1, present), Math.max(1, stored)];
    if (lengths.join() !== due.join()) throw new Error('the columns of a transaction differ in length');
    return { required, writes };
  }
}

/** Makes a transaction, unless it is refused, and packs its result. */
export function packDecision(
  { required, writes }: UnpackedTransaction,
  find: (document: Required) => string | undefined,
  make: (write: Write) => unknown,
): string {
  if (required.some((document) => find(document) !== document.expected)) return decisions.conflict;
  for (const write of writes) make(write);
  return decisions.committed;
}

/** Unpacks the result of a transaction: whether it was committed. @throws StorageError when it was refused. */
export function unpackDecision(packed: string): boolean {
  if (packed === refused) throw new StorageError('unavailable', noSpace);
  return packed === decisions.committed;
}

/** Makes the writes of a batch, in order, and packs their results. */
export function packResults(
  batch: readonly Write[],
  make: (write: Write) => Outcome | typeof refused,
): string {
  return batch.map((write) => results.indexOf(make(write))).join('');
}

/** Unpacks the results of a batch. */
export function unpackResults(packed: string): readonly WriteResult[] {
  return Array.from(packed, (position) => {
    const result = results[Number(position)];
    return result === refused ? new StorageError('unavailable', noSpace) : result;
  });
}
