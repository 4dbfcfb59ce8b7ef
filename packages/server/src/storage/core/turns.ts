// Turns: work on the same thing in this thread waits for its turn instead of failing and being repeated.
import { AsyncLocalStorage } from 'node:async_hooks';
import { StorageError } from './interface.js';

/** How work takes its turn: together with other such work, or alone. */
export type Company = 'together' | 'alone';

/** Ends a turn. */
type EndTurn = () => void;

interface Waiting {
  readonly company: Company;
  readonly begin: (end: EndTurn) => void;
  readonly reject: (error: StorageError) => void;
  readonly timer: NodeJS.Timeout;
}

/** The turns of one key. */
interface Line {
  running: number;
  /** Whether the work in progress runs alone. */
  isAlone: boolean;
  readonly waiting: Waiting[];
}

/** Work in progress, and the work that called it. */
interface Work {
  readonly key: string;
  readonly caller: Work | undefined;
  hasEnded: boolean;
}

/** Gives turns in the order in which they were asked for, so that nobody waits for ever. */
export class Turns {
  readonly #lines = new Map<string, Line>();
  readonly #work = new AsyncLocalStorage<Work | undefined>();
  readonly #maxWaiting: number;
  readonly #maxTime: number;
  #closed = false;

  /**
   * @param maxWaiting - The maximum number that wait for one key.
   * @param maxTime - The time in ms after which a turn ends even if its work goes on.
   */
  constructor(maxWaiting: number, maxTime: number) {
    this.#maxWaiting = maxWaiting;
    this.#maxTime = maxTime;
  }

  /**
   * Does work in a turn.
   * @param deadline - The latest time to wait for it, on the clock of performance.now().
   * @throws StorageError `overloaded` when too many wait or the time is over, `unavailable` after `close`; Error within
   *   other work on the same key, for which it would wait.
   */
  async run<Result>(
    key: string,
    company: Company,
    deadline: number,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const caller = this.#work.getStore();
    for (let outer = caller; outer !== undefined; outer = outer.caller) {
      if (outer.key === key && !outer.hasEnded)
        throw new Error('called within a transaction or change of the same subject, for which it would wait');
    }
    const end = await this.#take(key, company, deadline);
    const own: Work = { key, caller, hasEnded: false };
    try {
      return await this.#work.run(own, work);
    } finally {
      own.hasEnded = true;
      end();
    }
  }

  #take(key: string, company: Company, deadline: number): Promise<EndTurn> {
    if (this.#closed) return Promise.reject(closed());
    let line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, (line = { running: 0, isAlone: false, waiting: [] }));
    if (line.waiting.length === 0 && fits(line, company))
      return Promise.resolve(this.#begin(key, line, company));
    const { waiting } = line;
    if (waiting.length >= this.#maxWaiting)
      return Promise.reject(new StorageError('overloaded', 'too many wait for their turn'));
    return new Promise((begin, reject) => {
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(one), 1);
        reject(new StorageError('overloaded', 'there was no turn in time'));
        // Others behind it may have waited only for this one.
        this.#next(key);
      }, deadline - performance.now());
      const one: Waiting = { company, begin, reject, timer };
      waiting.push(one);
    });
  }

  /** Gives no more turns; those that wait reject. */
  close(): void {
    this.#closed = true;
    for (const { waiting } of this.#lines.values()) {
      for (const { reject, timer } of waiting.splice(0)) {
        clearTimeout(timer);
        reject(closed());
      }
    }
  }

  #begin(key: string, line: Line, company: Company): EndTurn {
    line.running++;
    line.isAlone = company === 'alone';
    let hasEnded = false;
    const end = () => {
      if (hasEnded) return;
      hasEnded = true;
      clearTimeout(timer);
      line.running--;
      this.#next(key);
    };
    const timer = setTimeout(end, this.#maxTime);
    return end;
  }

  #next(key: string): void {
    const line = this.#lines.get(key);
    if (line === undefined) return;
    for (;;) {
      const [one] = line.waiting;
      if (one === undefined || !fits(line, one.company)) break;
      line.waiting.shift();
      clearTimeout(one.timer);
      one.begin(this.#begin(key, line, one.company));
    }
    if (line.running === 0) this.#lines.delete(key);
  }
}

/** Whether a turn can begin beside the work in progress. */
function fits({ running, isAlone }: Line, company: Company): boolean {
  return running === 0 || (company === 'together' && !isAlone);
}

function closed(): StorageError {
  return new StorageError('unavailable', 'the store is closed');
}
