// Bounds the memory that requests hold together, shared fairly between subjects, so that none can stop the others.
import { ApiError } from '../errors.js';

/** What the requests of one subject hold together, in bytes, apart from the oldest of all requests. */
interface Account {
  readonly subject: string;
  held: number;
  requests: number;
  /** Those that wait for their turn, in the order in which they began to. */
  readonly waiting: Set<Holder>;
}

/** The turn that a request waits for. */
interface Turn {
  readonly bytes: number;
  readonly start: () => void;
  readonly refuse: (error: ApiError) => void;
  readonly timer: NodeJS.Timeout;
}

/** A request in a budget. All but `cutOff` is for the budget alone. */
export interface Holder {
  /**
   * Ends the request, because another subject needs what it holds; undefined as long as it may keep that. When it is
   * called, the request is out of the budget.
   */
  cutOff: (() => void) | undefined;
  readonly account: Account;
  held: number;
  /** When it got on, as a number that only grows. */
  progress: number;
  turn: Turn | undefined;
  /** Its neighbors in the order of arrival: the first of a Set is slow to find when others before it were deleted. */
  older: Holder | undefined;
  newer: Holder | undefined;
  left: boolean;
}

/**
 * A number of bytes that requests may hold together. Each subject has a share of them: the bytes divided by one more
 * than there are subjects. It may hold more than its share as long as it leaves as much free as it holds: one subject
 * alone gets half of all, and the next one finds room at once. Beyond that its requests wait, in their order.
 *
 * A share that does not fit is made to: the subject that holds most loses the request that has not got on for longest.
 * The oldest request of all may always go on and does not count, so that requests never wait for each other for good.
 */
export class MemoryBudget {
  readonly #capacity: number;
  readonly #patience: number;
  readonly #accounts = new Map<string, Account>();
  /** The accounts with requests that wait. */
  readonly #waiting = new Set<Account>();
  #oldest: Holder | undefined;
  #newest: Holder | undefined;
  /** What all but the oldest hold. */
  #held = 0;
  #progress = 0;

  /**
   * @param capacity - In bytes.
   * @param patience - How long a request may wait for its turn, in ms. Then the subject that holds most loses a request
   *   that has not got on in all that time; if it has none, or that does not help, the one that has waited is refused.
   */
  constructor(capacity: number, patience: number) {
    this.#capacity = capacity;
    this.#patience = patience;
  }

  /** Lets a request of a subject in, which holds nothing yet. Whoever enters must leave. */
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

  /** Gives up all that a request holds, and its turn; again, it does nothing. */
  leave(holder: Holder): void {
    if (holder.left) return;
    this.#remove(holder);
    // Nobody reads this answer: the client has gone.
    holder.turn?.refuse(new ApiError('malformedRequest'));
    this.#startWaiting();
  }

  /**
   * Whether a further request of a subject might hold that many bytes at once: then it need not enter before it does.
   */
  admits(subject: string, bytes: number): boolean {
    if (this.#oldest === undefined) return true;
    const account = this.#accounts.get(subject);
    const share = this.#capacity / (this.#accounts.size + (account === undefined ? 2 : 1));
    return (account?.held ?? 0) + bytes <= Math.max(share, this.#capacity - this.#held - bytes);
  }

  /** Whether a request may go on until it holds that many bytes. */
  fits(holder: Holder, bytes: number): boolean {
    if (holder === this.#oldest) return true;
    const more = bytes - holder.held;
    const free = this.#capacity - this.#held - more;
    return holder.account.held + more <= Math.max(this.#share(), free);
  }

  /**
   * Says that a request has got on, and how many bytes it holds now; others may lose theirs for it.
   * @returns false when it is refused itself. It is out of the budget then.
   */
  hold(holder: Holder, bytes: number): boolean {
    const less = bytes < holder.held;
    const admitted = this.#hold(holder, bytes);
    if (less || !admitted) this.#startWaiting();
    return admitted;
  }

  /**
   * Waits until a request may go on, and holds that many bytes from then on.
   * @throws ApiError `overloaded` when its turn does not come; any when it leaves meanwhile.
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

  /** Of the subject that holds most, the request that has not got on for longest; the newest when all of them wait. */
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
      // From now on it does not count.
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

  /** Ends the patience of a request that has waited since then. */
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
