// Random numbers that a seed repeats.
// cspell:ignore mersenne
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { mersenne } from 'pure-rand/generator/mersenne';

/** @typedef {ReturnType<typeof randomFrom>} Random */

/** A generator of random numbers. @param {number} seed - An integer. */
export function randomFrom(seed) {
  const generator = mersenne(seed);
  /** An integer from `least` to `most`. @param {number} least @param {number} most */
  const integer = (least, most) => uniformInt(generator, least, most);
  /** One of some values. @template T @param {readonly T[]} values */
  const pick = (values) => /** @type {T} */ (values[integer(0, values.length - 1)]);
  return { integer, pick };
}
