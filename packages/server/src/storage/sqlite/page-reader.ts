// Schedules reads: requests of the same iteration of the event loop are read together, and subjects take turns.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { CollectionDefinition, StorageError, StoredDocument } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import { bytesTogether } from '../core/page-size.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { toSqliteError } from './failures.js';
import { collectionReads } from './reads.js';

/** The maximum number of reads without a break, which blocks the event loop. */
const maxReadsTogether = 64;
/** Stands for all subjects, which take turns with each of them. No subject is empty. */
const ofAllSubjects = '';

/** A read that a caller waits for. */
interface ReadRequest {
  readonly subject: string;
  /** Reads a part that is small enough, and returns the length of text that it is, or takes as long as. */
  readonly read: () => number;
  readonly reject: (error: StorageError) => void;
}

/** Reads the documents of all collections. */
export class PageReader {
  readonly #database: DatabaseSyncInstance;
  readonly #file: string;
  readonly #requests = new SubjectQueue<ReadRequest>();
  readonly #readSoon = oncePerIteration(() => {
    this.#read();
  });

  /** @param database - The reader keeps it open as long as its statements, which do not reference it themselves. */
  constructor(database: DatabaseSyncInstance) {
    this.#database = database;
    this.#file = database.location() ?? '';
  }

  /** Returns the reader of a collection, which reads at the end of an iteration of the event loop. */
  open(definition: CollectionDefinition): CollectionReader {
    const reads = collectionReads(this.#database, definition);
    const lengthOf = (texts: readonly (string | undefined)[]) =>
      texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
    const lengthOfAll = (documents: readonly StoredDocument[]) => lengthOf(documents.map(({ text }) => text));
    return {
      page: (subject, range) =>
        this.#request(
          subject,
          () => reads.page(subject, range),
          ({ json }) => json.length,
        ),
      // Counting takes as long as reading this much text.
      countPart: (subject, bounds) =>
        this.#request(
          subject,
          () => reads.countPart(subject, bounds),
          () => bytesTogether,
        ),
      texts: (subject, ids) => this.#request(subject, () => reads.texts(subject, ids), lengthOf),
      stored: (subject, range) => this.#request(subject, () => reads.stored(subject, range), lengthOfAll),
      storedOfAll: (after) =>
        this.#request(ofAllSubjects, () => reads.storedOfAll({ subject: undefined, after }), lengthOfAll),
    };
  }

  /** @param lengthOf - Returns the length of text that a part is, or takes as long as. */
  #request<Part>(subject: string, readPart: () => Part, lengthOf: (part: Part) => number): Promise<Part> {
    return new Promise((resolve, reject) => {
      const read = () => {
        const part = readPart();
        resolve(part);
        return lengthOf(part);
      };
      this.#requests.add({ subject, read, reject });
      this.#readSoon();
    });
  }

  /** Reads what was requested in one transaction, which saves locking for each page and keeps the CPU caches warm. */
  #read(): void {
    let text = 0;
    this.#attempt('BEGIN');
    for (let reads = 0; reads < maxReadsTogether && text < bytesTogether; reads++) {
      const next = this.#requests.take();
      if (next === undefined) break;
      try {
        text += next.read();
      } catch (error) {
        next.reject(toSqliteError(this.#file, error));
      }
    }
    // Nothing was written. After a read of a damaged page, SQLite refuses to commit.
    this.#attempt('ROLLBACK');
    if (this.#requests.size > 0) this.#readSoon();
  }

  /**
   * Begins or ends the transaction of the reads, unless the store is closed, or SQLite has ended the transaction because
   * of an error. Without one, each read is a transaction, or fails on its own.
   */
  #attempt(statement: 'BEGIN' | 'ROLLBACK'): void {
    if (!this.#database.isOpen || this.#database.isTransaction !== (statement === 'ROLLBACK')) return;
    try {
      this.#database.exec(statement);
    } catch {
      // Each read reports its own error.
    }
  }
}
