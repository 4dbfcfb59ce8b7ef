// Limits the memory that all requests hold together, and shares it fairly between subjects.
import { ApiError } from '../errors.js';

/** The requests of one subject. `held` is what they hold together, in bytes, without the oldest of all requests. */
interface Account {
  readonly subject: string;
  held: number;
  requests: number;
  /** The requests that wait for a turn, in the order in which they started waiting. */
  readonly waiting: Set<Holder>;
}

/** The turn that a request waits for. */
interface Turn {
  readonly bytes: number;
  readonly start: () => void;
  readonly refuse: (error: ApiError) => void;
  readonly timer: NodeJS.Timeout;
}

/** A request in a budget. Callers use `cutOff` only; the rest belongs to the budget. */
export interface Holder {
  /**
   * Ends the request because another subject needs its memory; undefined while the request must not be ended. The
   * budget removes the request before it calls this.
   */
  cutOff: (() => void) | undefined;
  readonly account: Account;
  held: number;
  /** When the request last made progress, as a number that only increases. */
  progress: number;
  turn: Turn | undefined;
  /** Neighbors in the order of arrival; a Set finds its first element slowly after deletions. */
  older: Holder | undefined;
  newer: Holder | undefined;
  left: boolean;
}

/**
 * The number of bytes that requests may hold together. Each subject is entitled to the capacity divided by the number
 * of subjects plus one. A subject may exceed this share as long as it leaves free at least what it holds: a single
 * subject can use half of the capacity, and the next one finds room at once. Beyond that, its requests wait in order.
 *
 * If a request within its subject's share does not fit, the subject that holds most loses the request that has made no
 * progress for longest. The oldest request of all may always proceed and does not count, so there is no deadlock.
 */
export class MemoryBudget {
  readonly #capacity: number;
  readonly #patience: number;
  readonly #accounts = new Map<string, Account>();
  /** The accounts with waiting requests. */
  readonly #waiting = new Set<Account>();
  #oldest: Holder | undefined;
  #newest: Holder | undefined;
  /** What all requests but the oldest hold, in bytes. */
  #held = 0;
  #progress = 0;

  /**
   * @param capacity - In bytes.
   * @param patience - How long a request may wait for its turn, in ms. After that, the subject that holds most loses a
   *   request that has made no progress in that time; if none exists or that does not help, the waiting request is
   *   refused.
   */
  constructor(capacity: number, patience: number) {
    this.#capacity = capacity;
    this.#patience = patience;
  }

  /** Adds a request of a subject, which holds nothing yet. The caller must call `leave` when the request ends. */
  enter(subject: string): Holder {
    let account = this.#accounts.get(subject);
    if (account === undefined) {
      account = { subject, held: 0, requests: 0, waiting: new Set() };
      this.#accounts.set(subject, account);
    }
    account.requests++;
    const older = this.#newest;
    const holder: Holder = {
      cutOff: undefined,
      account,
      held: 0,
      progress: ++this.#progress,
      turn: undefined,
      older,
      newer: undefined,
      left: false,
    };
    if (older === undefined) this.#oldest = holder;
    else older.newer = holder;
    this.#newest = holder;
    return holder;
  }

  /** Removes a request, what it holds, and its turn. Further calls have no effect. */
  leave(holder: Holder): void {
    if (holder.left) return;
    this.#remove(holder);
    // The client has disconnected, so it does not receive this error.
    holder.turn?.refuse(new ApiError('malformedRequest'));
    this.#startWaiting();
  }

  /**
   * Whether a new request of a subject could hold this many bytes at once. If so, it need not enter beforehand.
   */
  admits(subject: string, bytes: number): boolean {
    if (this.#oldest === undefined) return true;
    const account = this.#accounts.get(subject);
    const share = this.#capacity / (this.#accounts.size + (account === undefined ? 2 : 1));
    return (account?.held ?? 0) + bytes <= Math.max(share, this.#capacity - this.#held - bytes);
  }

  /** Whether a request may proceed until it holds this many bytes. */
  fits(holder: Holder, bytes: number): boolean {
    if (holder === this.#oldest) return true;
    const more = bytes - holder.held;
    const free = this.#capacity - this.#held - more;
    return holder.account.held + more <= Math.max(this.#share(), free);
  }

  /**
   * Records that a request has made progress and how many bytes it now holds. Other requests may be ended to make room.
   * @returns false when the request itself is refused and removed from the budget.
   */
  hold(holder: Holder, bytes: number): boolean {
    const less = bytes < holder.held;
    const admitted = this.#hold(holder, bytes);
    if (less || !admitted) this.#startWaiting();
    return admitted;
  }

  /**
   * Waits until a request may proceed; from then on it holds this many bytes.
   * @throws ApiError `overloaded` when its turn does not come in time; another ApiError when it leaves first.
   */
  turn(holder: Holder, bytes: number): Promise<void> {
    return new Promise((start, refuse) => {
      const since = this.#progress;
      const timer = setTimeout(() => {
        this.#expire(holder, since);
      }, this.#patience);
      holder.turn = { bytes, start, refuse, timer };
      holder.account.waiting.add(holder);
      this.#waiting.add(holder.account);
      this.#startWaiting();
    });
  }

  #share(): number {
    return this.#capacity / (this.#accounts.size + 1);
  }

  #hold(holder: Holder, bytes: number): boolean {
    const more = bytes - holder.held;
    holder.held = bytes;
    holder.progress = ++this.#progress;
    if (holder === this.#oldest) return true;
    holder.account.held += more;
    this.#held += more;
    while (this.#held > this.#capacity) {
      const victim = holder.account.held > this.#share() ? undefined : this.#stalest();
      if (victim === undefined || victim.account.held <= this.#share()) {
        this.#remove(holder);
        return false;
      }
      this.#refuse(victim);
    }
    return true;
  }

  /** Of the subject that holds most, the request without progress for longest; the newest if all of them wait. */
  #stalest(): Holder | undefined {
    const rank = ({ turn, progress }: Holder) => (turn === undefined ? progress : Infinity);
    let stalest: Holder | undefined;
    for (let holder = this.#oldest?.newer; holder !== undefined; holder = holder.newer) {
      const { cutOff, held, account } = holder;
      if (cutOff === undefined || held === 0) continue;
      const ahead = stalest === undefined ? 1 : account.held - stalest.account.held;
      const same = account === stalest?.account;
      if (ahead > 0 || (same && rank(holder) <= rank(stalest!))) stalest = holder;
    }
    return stalest;
  }

  #refuse(holder: Holder): void {
    this.#remove(holder);
    if (holder.turn === undefined) holder.cutOff?.();
    else holder.turn.refuse(new ApiError('overloaded'));
  }

  #remove(holder: Holder): void {
    const { account, older, newer } = holder;
    holder.left = true;
    this.#stopWaiting(holder);
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older !== undefined) {
      older.newer = newer;
      this.#release(holder);
    } else {
      this.#oldest = newer;
      // The new oldest request no longer counts.
      if (newer !== undefined) this.#release(newer);
    }
    if (--account.requests === 0) this.#accounts.delete(account.subject);
  }

  #release({ account, held }: Holder): void {
    account.held -= held;
    this.#held -= held;
  }

  #stopWaiting(holder: Holder): void {
    if (holder.turn === undefined) return;
    const { waiting } = holder.account;
    clearTimeout(holder.turn.timer);
    waiting.delete(holder);
    if (waiting.size === 0) this.#waiting.delete(holder.account);
  }

  #startWaiting(): void {
    if (this.#oldest?.turn !== undefined) this.#start(this.#oldest, this.#oldest.turn);
    for (const { waiting } of this.#waiting) {
      for (const holder of waiting) {
        const { turn } = holder;
        if (turn === undefined || !this.fits(holder, turn.bytes)) break;
        this.#start(holder, turn);
      }
    }
  }

  #start(holder: Holder, turn: Turn): void {
    this.#stopWaiting(holder);
    holder.turn = undefined;
    if (this.#hold(holder, turn.bytes)) turn.start();
    else turn.refuse(new ApiError('overloaded'));
  }

  /** Handles the timeout of a request that has waited since the progress number `since`. */
  #expire(holder: Holder, since: number): void {
    const stalest = this.#stalest();
    if (stalest !== undefined && stalest.turn === undefined && stalest.progress <= since) {
      this.#refuse(stalest);
      this.#startWaiting();
    }
    if (holder.turn === undefined || holder.left) return;
    this.#remove(holder);
    holder.turn.refuse(new ApiError('overloaded'));
    this.#startWaiting();
  }
}
