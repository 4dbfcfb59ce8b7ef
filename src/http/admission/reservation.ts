// The states of a reservation of memory: it is active or waits, until it is released or evicted.
import { ApiError } from '../../errors.js';

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

/** The reservations of one subject. */
export interface Account {
  readonly subject: string;
  /** What they hold together, in bytes, without the oldest reservation of all. */
  held: number;
  reservations: number;
  /** Those that wait, in the order in which they started waiting. */
  readonly waiting: Set<LedgerEntry>;
}

/** What a reservation needs of its budget. */
export interface Ledger {
  /** How long a reservation may wait, in ms. */
  readonly patience: number;
  /** The number of times that any reservation has made progress. */
  readonly progress: number;
  fits(entry: LedgerEntry, bytes: number): boolean;
  /**
   * Records what a reservation holds, and evicts others as long as that is too much.
   * @returns false when this one must be evicted instead.
   */
  resize(entry: LedgerEntry, bytes: number): boolean;
  /** Of the subject that holds most, the reservation without progress for longest; the newest if all of them wait. */
  stalest(): LedgerEntry | undefined;
  /** Adds a reservation that has started waiting. */
  enqueue(entry: LedgerEntry): void;
  /** Removes a reservation that no longer waits. */
  dequeue(entry: LedgerEntry): void;
  /** Grants as many of the waiting reservations as fit. */
  grantWaiting(): void;
  /** Removes a reservation that has ended, and what it holds. */
  remove(entry: LedgerEntry): void;
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
export class LedgerEntry implements Reservation {
  readonly account: Account;
  held = 0;
  /** The ledger's number when it last made progress. */
  progress: number;
  /** Neighbors in the order of arrival; a Set finds its first element slowly after deletions. */
  older: LedgerEntry | undefined;
  newer: LedgerEntry | undefined;
  readonly #ledger: Ledger;
  #state: Reservation['state'] = 'active';
  /** Defined exactly while the state is `waiting`. */
  #wait: Wait | undefined;
  /** Defined while the reservation may be evicted. */
  #onEvicted: (() => void) | undefined;

  constructor(ledger: Ledger, account: Account, older: LedgerEntry | undefined, progress: number) {
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
