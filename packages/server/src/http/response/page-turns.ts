// Paces the pages of lists, so that many long ones do not delay the short requests of others.
import { setTimeout as pause } from 'node:timers/promises';
import { SubjectQueue } from '../../base/subject-queue.js';
import { anonymous } from '../admission/memory-budget.js';

/** The time after a request of another subject in which pages take turns, in ms. */
const attention = 100;
/** The pause after a page, as a multiple of the time that it took: pages take at most a fifth of the time. */
const rest = 4;

/**
 * The turns of pages. While only their own subject sends requests, they are read at once. Otherwise they are read one by
 * one, with pauses: clients that do not read their lists would else fill the buffers of the system while others wait.
 */
export class PageTurns {
  /** The subject of the newest request, and the times of it and of the newest one of another subject. */
  #subject: string | undefined;
  #newest = -Infinity;
  #newestOther = -Infinity;
  readonly #waiting = new SubjectQueue<{ subject: string; read: () => Promise<void> }>();
  #isReading = false;
  readonly #now: () => number;

  /** @param now - A monotonic clock, in ms. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Notes a request of a subject. */
  note(subject = anonymous): void {
    if (subject !== this.#subject) {
      this.#newestOther = this.#newest;
      this.#subject = subject;
    }
    this.#newest = this.#now();
  }

  /** Reads a page of a subject when it has its turn. */
  take<Page>(subject: string, read: () => Promise<Page>): Promise<Page> {
    if (!this.#hasOthers(subject)) return read();
    return new Promise((resolve, reject) => {
      this.#waiting.add({ subject, read: () => read().then(resolve, reject) });
      if (!this.#isReading) void this.#readWaiting();
    });
  }

  async #readWaiting(): Promise<void> {
    this.#isReading = true;
    for (let next = this.#waiting.take(); next !== undefined; next = this.#waiting.take()) {
      const start = this.#now();
      await next.read();
      const time = this.#now() - start;
      if (this.#hasOthers(next.subject)) await pause(rest * time, undefined, { ref: false });
    }
    this.#isReading = false;
  }

  /** Whether another subject has sent a request lately. */
  #hasOthers(subject: string): boolean {
    const newest = subject === this.#subject ? this.#newestOther : this.#newest;
    return this.#now() - newest < attention;
  }
}
