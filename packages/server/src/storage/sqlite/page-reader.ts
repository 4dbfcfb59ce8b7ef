// Schedules reads: subjects take turns, and other work goes on between them.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { CollectionDefinition, StorageError } from '../core/interface.js';
import type { CollectionReader } from '../core/collections.js';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import { SubjectQueue } from '../../base/subject-queue.js';
import { toSqliteError } from './failures.js';
import { collectionReads } from './reads.js';

/** The time after which no further read begins, in ms: reads block the event loop, and their texts are in memory together. */
const timeTogether = 2;
/** Stands for all subjects, which take turns with each of them. No subject is empty. */
const ofAllSubjects = '';

/** A read that a caller waits for. */
interface ReadRequest {
  readonly subject: string;
  readonly read: () => void;
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
    return {
      page: (subject, range) => this.#request(subject, () => reads.page(subject, range)),
      texts: (subject, ids) => this.#request(subject, () => reads.texts(subject, ids)),
      stored: (subject, range) => this.#request(subject, () => reads.stored(subject, range)),
      storedOfAll: (after) =>
        this.#request(ofAllSubjects, () => reads.storedOfAll({ subject: undefined, after })),
    };
  }

  #request<Part>(subject: string, read: () => Part): Promise<Part> {
    return new Promise((resolve, reject) => {
      this.#requests.add({
        subject,
        read: () => {
          resolve(read());
        },
        reject,
      });
      this.#readSoon();
    });
  }

  #read(): void {
    const end = performance.now() + timeTogether;
    do {
      const next = this.#requests.take();
      try {
        next?.read();
      } catch (error) {
        next?.reject(toSqliteError(this.#file, error));
      }
    } while (this.#requests.size > 0 && performance.now() < end);
    if (this.#requests.size > 0) this.#readSoon();
  }
}
