// Limits the memory that all requests hold together, and shares it fairly between subjects.
import { LedgerEntry, type Account, type Ledger, type Reservation } from './reservation.js';

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
 * Creates a budget.
 * @param capacity - In bytes.
 * @param patience - How long a reservation may wait, in ms. After that, the subject that holds most loses a reservation
 *   that has made no progress in that time; if none exists or that does not help, the waiting one is evicted.
 */
export function createMemoryBudget(capacity: number, patience: number): MemoryBudget {
  return new SharedLedger(capacity, patience);
}

/** The sums of a budget, and the order of its reservations. It contains only those that have not ended. */
class SharedLedger implements MemoryBudget, Ledger {
  readonly patience: number;
  readonly #capacity: number;
  readonly #accounts = new Map<string, Account>();
  /** The accounts with waiting reservations. */
  readonly #waiting = new Set<Account>();
  #oldest: LedgerEntry | undefined;
  #newest: LedgerEntry | undefined;
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
    const entry = new LedgerEntry(this, account, older, ++this.#progress);
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

  get progress(): number {
    return this.#progress;
  }

  fits(entry: LedgerEntry, bytes: number): boolean {
    if (entry === this.#oldest) return true;
    const more = bytes - entry.held;
    const free = this.#capacity - this.#held - more;
    return entry.account.held + more <= Math.max(this.#share(), free);
  }

  resize(entry: LedgerEntry, bytes: number): boolean {
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

  stalest(): LedgerEntry | undefined {
    let stalest: LedgerEntry | undefined;
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

  enqueue(entry: LedgerEntry): void {
    entry.account.waiting.add(entry);
    this.#waiting.add(entry.account);
  }

  dequeue(entry: LedgerEntry): void {
    const { waiting } = entry.account;
    waiting.delete(entry);
    if (waiting.size === 0) this.#waiting.delete(entry.account);
  }

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

  remove(entry: LedgerEntry): void {
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

  #subtract({ account, held }: LedgerEntry): void {
    account.held -= held;
    this.#held -= held;
  }

  #share(): number {
    return this.#capacity / (this.#accounts.size + 1);
  }
}
