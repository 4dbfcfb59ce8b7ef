// Limits the memory that all requests hold together, and shares it fairly between subjects.
import { ApiError } from '../../errors.js';

/**
 * The number of bytes that requests may hold together. Each subject is entitled to the capacity divided by the number
 * of subjects plus one. A subject may exceed this share as long as it leaves free at least what it holds: a single
 * subject can use half of the capacity, and the next one finds room at once. Beyond that, its reservations wait in
 * order.
 *
 * If a reservation within its subject's share does not fit, the subject that holds most loses the reservation that has
 * made no progress for longest. The oldest reservation of all may always proceed and does not count, so there is no
 * deadlock.
 */
export interface MemoryBudget {
  /** Adds a reservation for a request of a subject. The caller must release it when the request ends. */
  reserve(subject: string): Reservation;
  /**
   * Whether a new request of a subject could hold this many bytes at once. If so, it need not reserve them beforehand.
   */
  admits(subject: string, bytes: number): boolean;
}

/**
 * What one request holds of a budget: nothing at first. It is active or waits for memory until its owner releases it or
 * the budget evicts it. After this end it holds nothing, and further calls have no effect.
 */
export interface Reservation {
  readonly state: 'active' | 'waiting' | 'released' | 'evicted';
  /** In bytes. */
  readonly held: number;
  /**
   * Lets the budget evict the reservation when another subject needs its memory; at first it must not.
   * @param onEvicted - Ends the request. It is called only if no method of the reservation reports the eviction.
   */
  allowEviction(onEvicted: () => void): void;
  /** Forbids eviction from now on. */
  pin(): void;
  /** Whether it may proceed until it holds this many bytes. */
  fits(bytes: number): boolean;
  /**
   * Records that the request has made progress and how many bytes it now holds. Other reservations may be evicted to
   * make room.
   * @returns false when this reservation is evicted, or has ended before.
   */
  hold(bytes: number): boolean;
  /**
   * Waits until the request may proceed; from then on it holds this many bytes. Only one call may wait at a time.
   * @throws ApiError `overloaded` when the reservation is evicted, as it is after the budget's patience;
   *   `malformedRequest` when it is released.
   */
  wait(bytes: number): Promise<void>;
  /** Ends the reservation. */
  release(): void;
}

/**
 * Creates a budget.
 * @param capacity - In bytes.
 * @param patience - How long a reservation may wait, in ms. After that, the subject that holds most loses a reservation
 *   that has made no progress in that time; if none exists or that does not help, the waiting one is evicted.
 */
export function createMemoryBudget(capacity: number, patience: number): MemoryBudget {
  return new Ledger(capacity, patience);
}

/** The reservations of one subject. */
interface Account {
  readonly subject: string;
  /** What they hold together, in bytes, without the oldest reservation of all. */
  held: number;
  reservations: number;
  /** Those that wait, in the order in which they started waiting. */
  readonly waiting: Set<Entry>;
}

/** The sums of a budget, and the order of its reservations. It contains only those that have not ended. */
class Ledger implements MemoryBudget {
  readonly patience: number;
  readonly #capacity: number;
  readonly #accounts = new Map<string, Account>();
  /** The accounts with waiting reservations. */
  readonly #waiting = new Set<Account>();
  #oldest: Entry | undefined;
  #newest: Entry | undefined;
  /** What all reservations but the oldest hold, in bytes. */
  #held = 0;
  #progress = 0;

  constructor(capacity: number, patience: number) {
    this.#capacity = capacity;
    this.patience = patience;
  }

  reserve(subject: string): Reservation {
    let account = this.#accounts.get(subject);
    if (account === undefined) {
      account = { subject, held: 0, reservations: 0, waiting: new Set() };
      this.#accounts.set(subject, account);
    }
    account.reservations++;
    const older = this.#newest;
    const entry = new Entry(this, account, older, ++this.#progress);
    if (older === undefined) this.#oldest = entry;
    else older.newer = entry;
    this.#newest = entry;
    return entry;
  }

  admits(subject: string, bytes: number): boolean {
    if (this.#oldest === undefined) return true;
    const account = this.#accounts.get(subject);
    const share = this.#capacity / (this.#accounts.size + (account === undefined ? 2 : 1));
    return (account?.held ?? 0) + bytes <= Math.max(share, this.#capacity - this.#held - bytes);
  }

  /** The number of times that any reservation has made progress. */
  get progress(): number {
    return this.#progress;
  }

  fits(entry: Entry, bytes: number): boolean {
    if (entry === this.#oldest) return true;
    const more = bytes - entry.held;
    const free = this.#capacity - this.#held - more;
    return entry.account.held + more <= Math.max(this.#share(), free);
  }

  /**
   * Records what a reservation holds, and evicts others as long as that is too much.
   * @returns false when this one must be evicted instead.
   */
  resize(entry: Entry, bytes: number): boolean {
    const { account } = entry;
    const more = bytes - entry.held;
    entry.held = bytes;
    entry.progress = ++this.#progress;
    if (entry === this.#oldest) return true;
    account.held += more;
    this.#held += more;
    while (this.#held > this.#capacity) {
      const victim = account.held > this.#share() ? undefined : this.stalest();
      if (victim === undefined || victim.account.held <= this.#share()) return false;
      victim.evict();
    }
    return true;
  }

  /** Of the subject that holds most, the reservation without progress for longest; the newest if all of them wait. */
  stalest(): Entry | undefined {
    let stalest: Entry | undefined;
    for (let entry = this.#oldest?.newer; entry !== undefined; entry = entry.newer) {
      if (entry.pinned || entry.held === 0) continue;
      const { account } = entry;
      const ahead = stalest === undefined ? 1 : account.held - stalest.account.held;
      if (ahead > 0 || (account === stalest?.account && entry.lastProgress <= stalest.lastProgress)) {
        stalest = entry;
      }
    }
    return stalest;
  }

  /** Adds a reservation that has started waiting. */
  enqueue(entry: Entry): void {
    entry.account.waiting.add(entry);
    this.#waiting.add(entry.account);
  }

  /** Removes a reservation that no longer waits. */
  dequeue(entry: Entry): void {
    const { waiting } = entry.account;
    waiting.delete(entry);
    if (waiting.size === 0) this.#waiting.delete(entry.account);
  }

  /** Grants as many of the waiting reservations as fit. */
  grantWaiting(): void {
    const oldest = this.#oldest;
    if (oldest?.state === 'waiting') oldest.grant();
    for (const { waiting } of this.#waiting) {
      for (const entry of waiting) {
        if (!this.fits(entry, entry.awaited)) break;
        entry.grant();
      }
    }
  }

  /** Removes a reservation that has ended, and what it holds. */
  remove(entry: Entry): void {
    const { account, older, newer } = entry;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older !== undefined) {
      older.newer = newer;
      this.#subtract(entry);
    } else {
      this.#oldest = newer;
      // The new oldest reservation no longer counts.
      if (newer !== undefined) this.#subtract(newer);
    }
    entry.held = 0;
    if (--account.reservations === 0) this.#accounts.delete(account.subject);
  }

  #subtract({ account, held }: Entry): void {
    account.held -= held;
    this.#held -= held;
  }

  #share(): number {
    return this.#capacity / (this.#accounts.size + 1);
  }
}

/** What a reservation waits for, and how its wait ends. */
interface Wait {
  readonly bytes: number;
  readonly resolve: () => void;
  readonly reject: (error: ApiError) => void;
  readonly timer: NodeJS.Timeout;
}

/**
 * A reservation. It alone changes its state: in wait, stopWaiting and end. The rest is the ledger's. Owners see only the
 * interface; methods with # would make each reservation slower to create.
 */
class Entry implements Reservation {
  readonly account: Account;
  held = 0;
  /** The ledger's number when it last made progress. */
  progress: number;
  /** Neighbors in the order of arrival; a Set finds its first element slowly after deletions. */
  older: Entry | undefined;
  newer: Entry | undefined;
  readonly #ledger: Ledger;
  #state: Reservation['state'] = 'active';
  /** Defined exactly while the state is `waiting`. */
  #wait: Wait | undefined;
  /** Defined while the reservation may be evicted. */
  #onEvicted: (() => void) | undefined;

  constructor(ledger: Ledger, account: Account, older: Entry | undefined, progress: number) {
    this.#ledger = ledger;
    this.account = account;
    this.older = older;
    this.progress = progress;
  }

  get state(): Reservation['state'] {
    return this.#state;
  }

  /** The bytes that it waits for; 0 if it does not wait. */
  get awaited(): number {
    return this.#wait?.bytes ?? 0;
  }

  /** When it last made progress. One that waits cannot, so it counts as if it had just done so. */
  get lastProgress(): number {
    return this.#wait === undefined ? this.progress : Infinity;
  }

  get pinned(): boolean {
    return this.#onEvicted === undefined;
  }

  get ended(): boolean {
    return this.#state === 'released' || this.#state === 'evicted';
  }

  allowEviction(onEvicted: () => void): void {
    if (!this.ended) this.#onEvicted = onEvicted;
  }

  pin(): void {
    this.#onEvicted = undefined;
  }

  fits(bytes: number): boolean {
    return !this.ended && this.#ledger.fits(this, bytes);
  }

  hold(bytes: number): boolean {
    if (this.ended) return false;
    const less = bytes < this.held;
    const kept = this.resize(bytes);
    if (less || !kept) this.#ledger.grantWaiting();
    return kept;
  }

  wait(bytes: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.ended) {
        reject(this.reason());
        return;
      }
      if (this.#state === 'waiting') throw new Error('The reservation waits already');
      const since = this.#ledger.progress;
      const timer = setTimeout(() => {
        this.expire(since);
      }, this.#ledger.patience);
      this.#wait = { bytes, resolve, reject, timer };
      this.#state = 'waiting';
      this.#ledger.enqueue(this);
      this.#ledger.grantWaiting();
    });
  }

  release(): void {
    if (this.ended) return;
    this.end('released');
    this.#ledger.grantWaiting();
  }

  /** Ends the wait with what it waited for; or evicts the reservation, if that has become too much. */
  grant(): void {
    const wait = this.stopWaiting();
    if (wait === undefined) return;
    if (this.resize(wait.bytes)) wait.resolve();
    else wait.reject(this.reason());
  }

  /** Makes room for another reservation. */
  evict(): void {
    const onEvicted = this.#state === 'waiting' ? undefined : this.#onEvicted;
    this.end('evicted');
    onEvicted?.();
  }

  /** Evicts a reservation without progress since the given number of the ledger, or itself if it still has to wait. */
  expire(since: number): void {
    const stalest = this.#ledger.stalest();
    if (stalest !== undefined && stalest.lastProgress <= since) {
      stalest.evict();
      this.#ledger.grantWaiting();
    }
    if (this.#state !== 'waiting') return;
    this.end('evicted');
    this.#ledger.grantWaiting();
  }

  resize(bytes: number): boolean {
    if (this.#ledger.resize(this, bytes)) return true;
    this.end('evicted');
    return false;
  }

  stopWaiting(): Wait | undefined {
    const wait = this.#wait;
    if (wait === undefined) return undefined;
    clearTimeout(wait.timer);
    this.#wait = undefined;
    this.#state = 'active';
    this.#ledger.dequeue(this);
    return wait;
  }

  end(state: 'released' | 'evicted'): void {
    const wait = this.stopWaiting();
    this.#state = state;
    this.#onEvicted = undefined;
    this.#ledger.remove(this);
    wait?.reject(this.reason());
  }

  /** Why a call fails after the end. After a release, the client has disconnected and does not receive the error. */
  reason(): ApiError {
    return new ApiError(this.#state === 'evicted' ? 'overloaded' : 'malformedRequest');
  }
}
