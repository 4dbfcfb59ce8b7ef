// Schedules reads: requests of the same iteration of the event loop are read together, and subjects take turns.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { CollectionDefinition, StorageError } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import { bytesTogether } from '../core/page-size.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { toSqliteError } from './failures.js';
import { collectionReads } from './reads.js';

/** The maximum number of reads without a break, which blocks the event loop. */
const maxReadsTogether = 64;

/** A read that a caller waits for. */
interface ReadRequest {
  readonly subject: string;
  /** Reads a part that is small enough, and returns the length of text that it is, or takes as long as. */
  readonly read: () => number;
  readonly reject: (error: StorageError) => void;
}

/**
 * Reads the pages of all collections, and counts their documents.
 * @param database - The reader keeps it open as long as its statements, which do not reference it themselves.
 * @returns A function that returns the reader of a collection, which reads at the end of an iteration of the event
 *   loop.
 */
export function openPageReader(
  database: DatabaseSyncInstance,
): (definition: CollectionDefinition) => CollectionReader {
  const file = database.location() ?? '';
  const requests = new SubjectQueue<ReadRequest>();
  /** @param lengthOf - Returns the length of text that a part is, or takes as long as. */
  const request = <Part>(subject: string, readPart: () => Part, lengthOf: (part: Part) => number) =>
    new Promise<Part>((resolve, reject) => {
      const read = () => {
        const part = readPart();
        resolve(part);
        return lengthOf(part);
      };
      requests.add({ subject, read, reject });
      readSoon();
    });
  /**
   * Begins or ends the transaction of the reads, unless the store is closed, or SQLite has ended the transaction because
   * of an error. Without one, each read is a transaction, or fails on its own.
   */
  const attempt = (statement: 'BEGIN' | 'ROLLBACK') => {
    if (!database.isOpen || database.isTransaction !== (statement === 'ROLLBACK')) return;
    try {
      database.exec(statement);
    } catch {
      // Each read reports its own error.
    }
  };
  // All requests are read in one transaction, which saves locking for each page and keeps the CPU caches warm.
  const readSoon = oncePerIteration(() => {
    if (requests.size === 0) return;
    let text = 0;
    attempt('BEGIN');
    for (let reads = 0; reads < maxReadsTogether && text < bytesTogether; reads++) {
      const next = requests.take();
      if (next === undefined) break;
      try {
        text += next.read();
      } catch (error) {
        next.reject(toSqliteError(file, error));
      }
    }
    // Nothing was written. After a read of a damaged page, SQLite refuses to commit.
    attempt('ROLLBACK');
    if (requests.size > 0) readSoon();
  });
  return (definition) => {
    const reads = collectionReads(database, definition);
    return {
      page: (subject, range) =>
        request(
          subject,
          () => reads.page(subject, range),
          ({ json }) => json.length,
        ),
      // Counting takes as long as reading this much text.
      countPart: (subject, bounds) =>
        request(
          subject,
          () => reads.countPart(subject, bounds),
          () => bytesTogether,
        ),
      texts: (subject, ids) => request(subject, () => reads.texts(subject, ids), lengthOf),
      stored: (subject, range) => request(subject, () => reads.stored(subject, range), lengthOfDocuments),
      storedOfAll: (after) => request(ofAllSubjects, () => reads.storedOfAll({ after }), lengthOfDocuments),
    };
  };
}

/** Stands for all subjects, which take turns with each of them. No subject is empty. */
const ofAllSubjects = '';

function lengthOf(texts: readonly (string | undefined)[]): number {
  return texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

function lengthOfDocuments(documents: readonly { readonly text: string }[]): number {
  return lengthOf(documents.map(({ text }) => text));
}
