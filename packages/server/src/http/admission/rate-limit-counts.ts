// Counts requests per key in time windows, in a fixed amount of memory.
import { createHash, randomBytes } from 'node:crypto';

/** The number of keys that are counted; a power of two. */
const maxKeys = 262_144;
/** The number of slots that a key can have; one of them is given up when all are taken. */
const bucketSize = 8;

/**
 * A table of counts, 20 bytes each. A key has its slot in a bucket that a hash selects. If a bucket is full, a new key
 * takes the slot of the one with the least count, and starts at one: keys with high counts stay, and no key inherits
 * the requests of another. Clients cannot choose keys for a bucket, since the hash has a random salt.
 */
export class WindowCounts {
  readonly #salt = randomBytes(16);
  readonly #prints = new Float64Array(maxKeys);
  /** 0 in a slot that was never taken. */
  readonly #counts = new Uint32Array(maxKeys);
  readonly #starts = new Float64Array(maxKeys);
  readonly #window: number;
  readonly #now: () => number;

  /**
   * @param window - The length of a window, in ms. It starts with the first request of its key.
   * @param now - A monotonic clock, in ms.
   */
  constructor(window: number, now: () => number) {
    this.#window = window;
    this.#now = now;
  }

  /** Counts a request. Returns the number of its key's requests in the window, and the rest of the window in ms. */
  count(key: string): { current: number; ttl: number } {
    const now = this.#now();
    const hash = createHash('sha256').update(this.#salt).update(key).digest();
    const slot = this.#slotOf(hash.readUInt32LE(0), hash.readUIntLE(4, 6), now);
    const current = ++this.#counts[slot]!;
    // In this order, since a sum of floating-point numbers could exceed the window.
    return { current, ttl: this.#window - (now - this.#starts[slot]!) };
  }

  /** Finds the slot of a key, or gives it one. */
  #slotOf(position: number, print: number, now: number): number {
    const first = (position % (maxKeys / bucketSize)) * bucketSize;
    let least = first;
    for (let slot = first; slot < first + bucketSize; slot++) {
      if (this.#starts[slot]! + this.#window <= now) this.#counts[slot] = 0;
      if (this.#counts[slot]! > 0 && this.#prints[slot] === print) return slot;
      if (this.#counts[slot]! < this.#counts[least]!) least = slot;
    }
    this.#prints[least] = print;
    this.#counts[least] = 0;
    this.#starts[least] = now;
    return least;
  }
}
