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
import type { Step } from '../transactions.js';
import { expectedBy, type WriteResult, type Write } from '../writes.js';

/**
 * All outcomes and conditions, and what becomes of a document; messages contain their positions. A document is only kept
 * under one of the first two conditions, so that each condition and effect together are one digit.
 */
const outcomes = ['inserted', 'replaced', 'deleted', 'same', 'other', 'missing'] as const satisfies Outcome[];
const conditions = ['absent', 'equals', 'present', 'any'] as const satisfies Change['when'][];
const effects = ['stored', 'deleted', 'kept'] as const;

/** The result of a write that was refused for lack of space, beside the outcomes. */
export const refused = 'refused';
const results = [...outcomes, refused] as const;

const noSpace =
  'SQLite: creates and replacements are refused, because less than DATABASE_RESERVE_BYTES is free on the disk of the ' +
  'store; free space there, or delete documents';

/** Separates the texts of a batch. No stored text contains it. */
const separator = '\u0000';

/**
 * A batch of writes, or a transaction, by columns, each column as one text: structured cloning of many texts or numbers is
 * slow, and texts can also be sent as JSON. Changes and collections have one character for each write.
 */
export interface PackedBatch {
  /** Whether all conditions must hold for any write to be made. A transaction has one subject. */
  isTransaction: boolean;
  /** The position of each condition, plus the number of conditions times the position of the effect. */
  changes: string;
  collections: string;
  subjects: string;
  ids: string;
  /** The JSON texts; '' for those that are not stored. */
  texts: string;
  /** The texts that must be stored, of those writes whose condition is `equals`. */
  expected: string;
}

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

  /**
   * Packs a batch of at least one write.
   * @param isTransaction - Whether it is a transaction: then all writes have one subject, and the condition `absent` or
   *   `equals`.
   */
  pack(batch: readonly Write[], isTransaction = false): PackedBatch {
    return {
      isTransaction,
      changes: batch
        .map((write) => conditions.indexOf(write.when) + conditions.length * effects.indexOf(effectOf(write)))
        .join(''),
      collections: batch.map(({ collection }) => this.#codes.get(collection)).join(''),
      subjects: (isTransaction ? batch.slice(0, 1) : batch).map(({ subject }) => subject).join(separator),
      ids: batch.map(({ id }) => id).join(separator),
      texts: batch.map((write) => (effectOf(write) === 'stored' ? write.text : '')).join(separator),
      expected: batch.flatMap((write) => (write.when === 'equals' ? write.expected : [])).join(separator),
    };
  }

  /** Packs a transaction of at least one step: a document that must be absent, and stays so, has no text. */
  packTransaction(subject: string, steps: readonly Step[]): PackedBatch {
    const writes = steps.map(({ expected, ...step }) =>
      expected === null
        ? { ...step, subject, when: 'absent' }
        : { ...step, subject, when: 'equals', expected },
    );
    return this.pack(writes as Write[], true);
  }

  /**
   * Unpacks the writes of a batch or a transaction, in order.
   * @throws Error when the columns differ in length, or a write is invalid.
   */
  unpack({ isTransaction, ...batch }: PackedBatch): Write[] {
    const ids = batch.ids.split(separator);
    const texts = batch.texts.split(separator);
    const expected = batch.expected.split(separator);
    const subjects = isTransaction ? ids.map(() => batch.subjects) : batch.subjects.split(separator);
    let equals = 0;
    if ([batch.changes, batch.collections, subjects, texts].some(({ length }) => length !== ids.length)) {
      throw new Error('the columns of a batch differ in length');
    }
    const writes = subjects.map((subject, i) => {
      const collection = this.#collections[batch.collections.charCodeAt(i) - 0x30];
      const id = collection && idRules[collection.id].parse(ids[i] ?? '');
      const code = Number(batch.changes[i]);
      const when = conditions[code % conditions.length];
      const effect = effects[Math.floor(code / conditions.length)];
      const required = when === 'equals' ? expected[equals++] : null;
      const text = effect === 'stored' ? texts[i] : effect === 'kept' ? required : null;
      const isChange =
        effect !== undefined &&
        (effect === 'stored') === (texts[i] !== '') &&
        required !== '' &&
        // Only transactions check that a document is absent.
        (when !== 'absent' || effect === 'stored' || (isTransaction && effect === 'kept')) &&
        (!isTransaction || (collection !== tokenDocuments && (when === 'absent' || when === 'equals')));
      if (collection === undefined || id === undefined || !isChange || !idRules[collection.id].isValid(id)) {
        throw new Error('a write of a batch is invalid');
      }
      const change = { collection, subject, id, when, text };
      const write = (when === 'equals' ? { ...change, expected: required } : change) as Write;
      if (collection === tokenDocuments && !isTokenWrite(write))
        throw new Error('a token of a batch is invalid');
      return write;
    });
    // Without a text, the column has the length 1.
    if (expected.length !== Math.max(1, equals)) throw new Error('the columns of a batch differ in length');
    return writes;
  }
}

/** What becomes of a document if the condition holds. */
function effectOf(write: Write): (typeof effects)[number] {
  const { when, text } = write;
  if ((when === 'absent' || when === 'equals') && text === expectedBy(write)) return 'kept';
  return text === null ? 'deleted' : 'stored';
}

/** A transaction as the writer makes it, from its unpacked writes. */
export function asTransaction(writes: readonly Write[]): UnpackedTransaction {
  return {
    required: writes.map((write) => ({ ...write, expected: expectedBy(write) ?? undefined })),
    writes: writes.filter((write) => effectOf(write) !== 'kept'),
  };
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
