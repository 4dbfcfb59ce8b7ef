// A mutex for each subject: work that came second takes its turn instead of coming second again and again.
import { StorageError } from './interface.js';

/** The mutexes of all subjects, in this thread. */
export class SubjectMutex {
  readonly #maxWaiting: number;
  /** The number of works that have or wait for their turn, by subject, and the end of the last one. */
  readonly #lines = new Map<string, { length: number; end: Promise<unknown> }>();

  /** @param maxWaiting - The maximum number that wait for one subject. */
  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Does work when all earlier work on the subject has ended.
   * @param work - Ends itself when it has no time left: those that wait have no timers.
   * @throws StorageError `overloaded` when too many wait.
   */
  async run<Result>(subject: string, work: () => Promise<Result>): Promise<Result> {
    const line = this.#lines.get(subject) ?? { length: 0, end: Promise.resolve() };
    if (line.length > this.#maxWaiting) throw new StorageError('overloaded', 'too many wait for their turn');
    this.#lines.set(subject, line);
    line.length++;
    const result = line.end.then(work);
    line.end = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      if (--line.length === 0) this.#lines.delete(subject);
    }
  }
}
