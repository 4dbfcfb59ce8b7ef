// Random numbers that a seed repeats.

/** The generator mulberry32. */
export class Random {
  #state;

  /** @param {number} seed - An integer. */
  constructor(seed) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 up to, but not including, 1. */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `least` to `most`. @param {number} least @param {number} most */
  integer(least, most) {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** One of some values. @template T @param {readonly T[]} values @returns {T} */
  pick(values) {
    return /** @type {T} */ (values[this.integer(0, values.length - 1)]);
  }
}
