// Limits the memory that all requests hold together, and shares it fairly between callers. A budget and its reservations
// change each other in every step, so they are in one file.
import { ApiError } from '../../base/errors.js';
import { isAnonymous } from './account.js';

/** The methods of a budget and of its reservations that requests use. The two classes use more of each other. */
export type MemoryBudget = Pick<Budget, 'reserve' | 'admits'>;
export type Reservation = Readonly<Pick<Entry, 'state' | 'held' | 'fits' | 'hold' | 'wait' | 'release'>> &
  Pick<Entry, 'onEvicted'>;

/**
 * Creates a budget.
 * @param capacity - In bytes.
 * @param patience - The maximum wait of a reservation, in ms. After that, the account that holds most loses a
 *   reservation that has made no progress in that time; if none exists or that does not help, the waiting one is
 *   evicted.
 */
export function createMemoryBudget(capacity: number, patience: number): MemoryBudget {
  return new Budget(capacity, patience);
}

/** A holder of a share of the capacity: a subject, or all networks together, however many an attacker has. */
interface Party {
  /** The bytes that its accounts hold together, without the oldest reservation of all. */
  held: number;
  accounts: number;
}

/** The reservations of one subject, or of one network that sends requests without credentials. */
interface Account {
  readonly name: string;
  readonly party: Party;
  /** The bytes that its reservations hold together, without the oldest reservation of all. */
  held: number;
  reservations: number;
  /** The waiting reservations, in the order in which they started waiting. */
  readonly waiting: Set<Entry>;
}

/**
 * The number of bytes that requests may hold together. Each party is entitled to the capacity divided by the number of
 * parties plus one, and each of its accounts to an equal part of that. An account may exceed its share as long as its
 * party leaves free at least what it holds: a single subject or network can use half of the capacity, and the next one
 * finds room at once. Beyond that, its reservations wait in order.
 *
 * If a reservation within its account's share does not fit, the party that holds most, and there the account that holds
 * most, loses the reservation that has made no progress for longest. The oldest reservation of all may always proceed and
 * does not count, so there is no deadlock. A budget contains only the reservations that have not ended.
 */
class Budget {
  readonly patience: number;
  /** The number of times that any reservation has made progress. */
  progress = 0;
  /** The accounts with waiting reservations. */
  readonly waiting = new Set<Account>();
  readonly #capacity: number;
  readonly #accounts = new Map<string, Account>();
  /** The party of all networks. */
  readonly #anonymous: Party = { held: 0, accounts: 0 };
  #oldest: Entry | undefined;
  #newest: Entry | undefined;
  /** The bytes that all reservations but the oldest hold. */
  #held = 0;

  constructor(capacity: number, patience: number) {
    this.#capacity = capacity;
    this.patience = patience;
  }

  /** Adds a reservation for a request of an account (see accountOf). The caller must release it when the request ends. */
  reserve(name: string): Reservation {
    let account = this.#accounts.get(name);
    if (account === undefined) {
      const party = isAnonymous(name) ? this.#anonymous : { held: 0, accounts: 0 };
      account = { name, party, held: 0, reservations: 0, waiting: new Set() };
      party.accounts++;
      this.#accounts.set(name, account);
    }
    account.reservations++;
    const older = this.#newest;
    const entry = new Entry(this, account, older);
    if (older === undefined) this.#oldest = entry;
    else older.newer = entry;
    this.#newest = entry;
    return entry;
  }

  /** Whether there is so much room that a new request of any account could hold this many bytes at once. */
  admits(bytes: number): boolean {
    return this.#held + bytes <= this.#capacity / 2;
  }

  fits(entry: Entry, bytes: number): boolean {
    const { account } = entry;
    const more = bytes - entry.held;
    const free = this.#capacity - this.#held - more;
    return (
      entry === this.#oldest ||
      account.party.held + more <= free ||
      account.held + more <= this.#shareOf(account)
    );
  }

  /** The number of bytes that an account is entitled to. */
  #shareOf({ party }: Account): number {
    const networks = this.#anonymous.accounts;
    const parties = this.#accounts.size - networks + Math.min(networks, 1);
    return this.#capacity / (parties + 1) / party.accounts;
  }

  /**
   * Records the size of a reservation, and evicts others as long as the sum is too large.
   * @returns false when it has evicted this one instead.
   */
  resize(entry: Entry, bytes: number): boolean {
    const { account } = entry;
    const more = bytes - entry.held;
    entry.held = bytes;
    this.progress++;
    if (entry.state !== 'waiting') entry.progress = this.progress;
    if (entry === this.#oldest) return true;
    this.#add(account, more);
    while (this.#held > this.#capacity) {
      const victim = account.held > this.#shareOf(account) ? undefined : this.stalest();
      if (victim === undefined || !this.#mustYield(victim.account, account)) {
        entry.end('evicted');
        return false;
      }
      victim.evict();
    }
    return true;
  }

  /** Whether an account, or its party, holds so much that another one within its share may take from it. */
  #mustYield(account: Account, other: Account): boolean {
    const { held, party } = account;
    const share = this.#shareOf(account);
    return party === other.party ? held > share : party.held > share * party.accounts;
  }

  /**
   * Of the account that holds most, in the party that holds most, the reservation without progress for longest; the newest
   * if all of them wait.
   */
  stalest(): Entry | undefined {
    let stalest: Entry | undefined;
    for (let entry = this.#oldest?.newer; entry !== undefined; entry = entry.newer) {
      if (entry.onEvicted === undefined || entry.held === 0) continue;
      const { account } = entry;
      const ahead = stalest === undefined ? 1 : compare(account, stalest.account);
      if (ahead > 0 || (account === stalest?.account && entry.progress <= stalest.progress)) {
        stalest = entry;
      }
    }
    return stalest;
  }

  /** Grants as many of the waiting reservations as fit. */
  grantWaiting(): void {
    const oldest = this.#oldest;
    if (oldest?.state === 'waiting') oldest.grant();
    for (const { waiting } of this.waiting) {
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
    // Otherwise those that V8 has moved to its old space would keep all later ones there.
    entry.older = entry.newer = undefined;
    if (--account.reservations > 0) return;
    account.party.accounts--;
    this.#accounts.delete(account.name);
  }

  #subtract({ account, held }: Entry): void {
    this.#add(account, -held);
  }

  #add(account: Account, bytes: number): void {
    account.held += bytes;
    account.party.held += bytes;
    this.#held += bytes;
  }
}

/** Compares two accounts: the greater one of the greater party must yield first. */
function compare(one: Account, other: Account): number {
  return one.party.held - other.party.held || one.held - other.held;
}

/**
 * The memory that one request holds of a budget: none at first. It is active or waits for memory until its owner
 * releases it or the budget evicts it. After this end it holds nothing, and further calls have no effect. Members that
 * only the budget uses have no #, which would make each reservation slower to create.
 */
class Entry {
  state: 'active' | 'waiting' | 'released' | 'evicted' = 'active';
  /** In bytes. */
  held = 0;
  /** The bytes that it waits for, while it waits. */
  awaited = 0;
  readonly account: Account;
  /** The budget's number when it last made progress; infinite while it waits, and so cannot make any. */
  progress: number;
  /** Neighbors in the order of arrival; a Set finds its first element slowly after deletions. */
  older: Entry | undefined;
  newer: Entry | undefined;
  /**
   * Ends the request. While it is defined, the budget may evict the reservation when another account needs its memory. It
   * is called only if no method of the reservation reports the eviction.
   */
  onEvicted: (() => void) | undefined;
  readonly #budget: Budget;
  /** Settles the newest wait, once the state is no longer `waiting`; only its first call matters. */
  #settle: (() => void) | undefined;

  constructor(budget: Budget, account: Account, older: Entry | undefined) {
    this.#budget = budget;
    this.account = account;
    this.older = older;
    this.progress = ++budget.progress;
  }

  /** Whether it may proceed until it holds this many bytes. */
  fits(bytes: number): boolean {
    return !this.hasEnded && this.#budget.fits(this, bytes);
  }

  /**
   * Records that the request has made progress and how many bytes it now holds. Other reservations may be evicted to
   * make room.
   * @returns false when this reservation is evicted, or has ended before.
   */
  hold(bytes: number): boolean {
    if (this.hasEnded) return false;
    const less = bytes < this.held;
    const kept = this.#budget.resize(this, bytes);
    if (less || !kept) this.#budget.grantWaiting();
    return kept;
  }

  /**
   * Waits until the request may proceed; from then on it holds this many bytes. Only one call may wait at a time.
   * @throws ApiError `overloaded` when the reservation is evicted, as it is after the budget's patience;
   *   `malformedRequest` when it is released.
   */
  wait(bytes: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.state === 'waiting') throw new Error('The reservation waits already');
      const budget = this.#budget;
      const since = budget.progress;
      const timer = setTimeout(() => {
        const stalest = budget.stalest();
        if (stalest !== undefined && stalest.progress <= since) stalest.evict();
        budget.grantWaiting();
        if (this.state === 'waiting') this.end('evicted');
        budget.grantWaiting();
      }, budget.patience);
      this.#settle = () => {
        clearTimeout(timer);
        if (!this.hasEnded) resolve();
        // After a release, the client has disconnected and does not receive the error.
        else reject(new ApiError(this.state === 'evicted' ? 'overloaded' : 'malformedRequest'));
      };
      if (this.hasEnded) {
        this.#settle();
        return;
      }
      this.state = 'waiting';
      this.awaited = bytes;
      this.progress = Infinity;
      this.account.waiting.add(this);
      budget.waiting.add(this.account);
      budget.grantWaiting();
    });
  }

  /** Ends the reservation. */
  release(): void {
    if (this.hasEnded) return;
    this.end('released');
    this.#budget.grantWaiting();
  }

  get hasEnded(): boolean {
    return this.state === 'released' || this.state === 'evicted';
  }

  /** Grants the awaited memory, or evicts the reservation if that has become too much. */
  grant(): void {
    this.#stopWaiting('active');
    this.#budget.resize(this, this.awaited);
    this.#settle?.();
  }

  /** Makes room for another reservation. */
  evict(): void {
    const { state, onEvicted } = this;
    this.end('evicted');
    if (state !== 'waiting') onEvicted?.();
  }

  end(state: 'released' | 'evicted'): void {
    this.#stopWaiting(state);
    this.#budget.remove(this);
    this.#settle?.();
  }

  #stopWaiting(state: Entry['state']): void {
    const { waiting } = this.account;
    this.state = state;
    if (waiting.delete(this) && waiting.size === 0) this.#budget.waiting.delete(this.account);
  }
}
