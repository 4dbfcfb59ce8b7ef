// Limits the memory that all requests hold together, and shares it between callers. A budget and its reservations change
// each other in every step, so they are in one file.
import { ApiError } from '../../base/errors.js';

/** The account of all requests without accepted credentials; no subject is empty. */
export const anonymous = '';

/** A reservation that waits. */
interface Waiter {
  readonly reservation: Reservation;
  readonly bytes: number;
  readonly settle: (error?: ApiError) => void;
}

/**
 * The number of bytes that requests may hold together. A subject may hold as much as it leaves free: half of the capacity
 * if it is alone, and the next one finds room at once. All requests without accepted credentials are one subject. Beyond
 * that, the requests of a subject wait in order.
 *
 * One request at a time may hold more than there is room for, and does not count: so those that each hold a part do not
 * wait for each other, and what is longer than the part of a subject has its turn.
 */
export class MemoryBudget {
  readonly #capacity: number;
  readonly #patience: number;
  /** The bytes that are held, of all subjects and of each. */
  #sum = 0;
  readonly #held = new Map<string, number>();
  /** The reservations that wait, by subject, in the order in which they began to wait. */
  readonly #waiting = new Map<string, Set<Waiter>>();
  /** The reservation that does not count. */
  #exempt: Reservation | undefined;

  /**
   * @param capacity - In bytes.
   * @param patience - The maximum time that a reservation waits, in ms.
   */
  constructor(capacity: number, patience: number) {
    this.#capacity = capacity;
    this.#patience = patience;
  }

  /** Adds a reservation for a request of a subject, if it has one. The caller must release it when the request ends. */
  reserve(subject = anonymous): Reservation {
    return new Reservation(this, subject);
  }

  /** Changes what a reservation holds. @returns Whether there is room; otherwise it holds what it did. */
  hold(reservation: Reservation, bytes: number): boolean {
    const more = bytes - reservation.held;
    const free = this.#capacity - this.#sum - more;
    if (more > 0 && reservation !== this.#exempt && this.#heldBy(reservation) + more > free) {
      if (this.#exempt !== undefined) return false;
      this.#record(reservation, 0);
      this.#exempt = reservation;
    }
    this.#record(reservation, bytes);
    if (more < 0) this.#grant();
    return true;
  }

  /** Waits until a reservation can hold as many bytes (see Reservation). */
  wait(reservation: Reservation, bytes: number): Promise<void> {
    const { subject } = reservation;
    const waiters = this.#waiting.get(subject) ?? new Set();
    this.#waiting.set(subject, waiters);
    return new Promise((resolve, reject) => {
      const settle = (error?: ApiError) => {
        clearTimeout(timer);
        reservation.giveUp = undefined;
        waiters.delete(waiter);
        if (waiters.size === 0) this.#waiting.delete(subject);
        if (error === undefined) resolve();
        else reject(error);
      };
      const waiter = { reservation, bytes, settle };
      const timer = setTimeout(settle, this.#patience, new ApiError('overloaded'));
      // The client has disconnected and does not receive the error.
      reservation.giveUp = () => {
        settle(new ApiError('malformedRequest'));
      };
      waiters.add(waiter);
      this.#grant();
    });
  }

  /** Forgets a reservation. */
  release(reservation: Reservation): void {
    this.#record(reservation, 0);
    if (this.#exempt === reservation) this.#exempt = undefined;
    this.#grant();
  }

  /** Grants what has room now: of each subject the one that has waited longest, then the next. */
  #grant(): void {
    for (const waiters of this.#waiting.values()) {
      for (const { reservation, bytes, settle } of waiters) {
        if (!this.hold(reservation, bytes)) break;
        settle();
      }
    }
  }

  /** The bytes that all requests of a reservation's subject hold. */
  #heldBy({ subject }: Reservation): number {
    return this.#held.get(subject) ?? 0;
  }

  #record(reservation: Reservation, bytes: number): void {
    const more = bytes - reservation.held;
    reservation.held = bytes;
    if (more === 0 || reservation === this.#exempt) return;
    this.#sum += more;
    const held = this.#heldBy(reservation) + more;
    if (held > 0) this.#held.set(reservation.subject, held);
    else this.#held.delete(reservation.subject);
  }
}

/** The memory that one request holds of a budget: none at first, and none after its release. */
export class Reservation {
  readonly subject: string;
  /** In bytes. Only the budget changes it, and the function that ends the wait. */
  held = 0;
  giveUp: (() => void) | undefined;
  readonly #budget: MemoryBudget;
  #isReleased = false;

  constructor(budget: MemoryBudget, subject: string) {
    this.#budget = budget;
    this.subject = subject;
  }

  /** Holds this many bytes from now on. @returns Whether there is room; otherwise it holds what it did. */
  hold(bytes: number): boolean {
    return !this.#isReleased && this.#budget.hold(this, bytes);
  }

  /**
   * Holds this many bytes as soon as there is room. Only one call may wait at a time.
   * @throws ApiError `overloaded` after the budget's patience; `malformedRequest` when it is released.
   */
  async wait(bytes: number): Promise<void> {
    if (this.hold(bytes)) return;
    if (this.#isReleased) throw new ApiError('malformedRequest');
    await this.#budget.wait(this, bytes);
  }

  /** Ends the reservation, and a wait. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.giveUp?.();
    this.#budget.release(this);
  }
}
