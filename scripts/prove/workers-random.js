// Random numbers that a seed repeats.
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';

/** @typedef {ReturnType<typeof randomFrom>} Random */

/** A generator of random numbers. @param {number} seed - An integer. */
export function randomFrom(seed) {
  const generator = xoroshiro128plus(seed);
  /** An integer from `least` to `most`. @param {number} least @param {number} most */
  const integer = (least, most) => uniformInt(generator, least, most);
  /** One of some values. @template T @param {readonly T[]} values */
  const pick = (values) => /** @type {T} */ (values[integer(0, values.length - 1)]);
  return { integer, pick };
}
