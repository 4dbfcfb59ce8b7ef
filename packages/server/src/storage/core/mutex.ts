// A mutex for each subject: work that came second takes its turn instead of coming second again and again.
import { AsyncLocalStorage } from 'node:async_hooks';
import { StorageError } from './interface.js';

interface Waiting {
  readonly begin: () => void;
  readonly reject: (error: StorageError) => void;
}

/** Work in progress on a subject. */
interface Call {
  readonly subject: string;
  hasEnded: boolean;
}

/** The mutexes of all subjects, in this thread. */
export class SubjectMutex {
  readonly #maxWaiting: number;
  /** What waits, by subject, while other work has its turn. */
  readonly #lines = new Map<string, Waiting[]>();
  /** The work that this work is called by. */
  readonly #callers = new AsyncLocalStorage<readonly Call[]>();
  #isClosed = false;

  /** @param maxWaiting - The maximum number that wait for one subject. */
  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  /**
   * Does work that may take the mutex of a subject.
   * @throws Error when other such work on the subject has called it, and could have the mutex that it waits for.
   */
  async guard<Result>(subject: string, work: () => Promise<Result>): Promise<Result> {
    const callers = this.#callers.getStore() ?? [];
    if (callers.some((call) => call.subject === subject && !call.hasEnded))
      throw new Error('called within a transaction or change of the same subject, for which it would wait');
    const call: Call = { subject, hasEnded: false };
    try {
      return await this.#callers.run([...callers, call], work);
    } finally {
      call.hasEnded = true;
    }
  }

  /**
   * Does work when all earlier work on the subject has ended.
   * @param deadline - The latest time to wait for that, on the clock of performance.now().
   * @throws StorageError `overloaded` when too many wait or the time is over, `unavailable` after `close`.
   */
  async run<Result>(subject: string, deadline: number, work: () => Promise<Result>): Promise<Result> {
    await this.#take(subject, deadline);
    try {
      return await work();
    } finally {
      const next = this.#lines.get(subject)?.shift();
      if (next === undefined) this.#lines.delete(subject);
      else next.begin();
    }
  }

  async #take(subject: string, deadline: number): Promise<void> {
    if (this.#isClosed) throw closedStore();
    const line = this.#lines.get(subject);
    if (line === undefined) {
      this.#lines.set(subject, []);
      return;
    }
    if (line.length >= this.#maxWaiting) throw new StorageError('overloaded', 'too many wait for their turn');
    let timer: NodeJS.Timeout | undefined;
    const turn = new Promise<void>((begin, reject) => {
      const waiting: Waiting = { begin, reject };
      line.push(waiting);
      timer = setTimeout(() => {
        line.splice(line.indexOf(waiting), 1);
        reject(new StorageError('overloaded', 'there was no turn in time'));
      }, deadline - performance.now());
    });
    await turn.finally(() => {
      clearTimeout(timer);
    });
  }

  /** Gives no more turns; those that wait reject. */
  close(): void {
    this.#isClosed = true;
    for (const line of this.#lines.values()) for (const { reject } of line.splice(0)) reject(closedStore());
  }
}

/** The error of every call after the store was closed. */
export function closedStore(): StorageError {
  return new StorageError('unavailable', 'the store is closed');
}
