// What the benchmarks need beyond simple-statistics.
import { binomialDistribution, max, median, min } from 'simple-statistics';

/** Half the distance between the extremes, relative to the median. @param {number[]} values */
export function spread(values) {
  return (max(values) - min(values)) / 2 / median(values);
}

/** @typedef {{ median: number, low: number, high: number, confidence: number }} Interval */

/**
 * Returns a distribution-free confidence interval of the median, bounded by two of the values (order statistics). The
 * number of values below the true median is binomial with a probability of one half, which gives the confidence.
 * @param {readonly number[]} values - At least one.
 * @param {number} wanted - The minimum confidence. If there are too few values, the interval is their whole range.
 * @returns {Interval} `confidence` is the interval's confidence, from 0 to 1.
 */
export function medianInterval(values, wanted = 0.93) {
  const sorted = [...values].sort((a, b) => a - b);
  const below = binomialDistribution(sorted.length, 0.5) ?? [];
  let cut = 0;
  /** The probability that the true median lies outside the interval, on one side. */
  let tail = below[0] ?? NaN;
  while (cut + 1 < sorted.length / 2 && 1 - 2 * (tail + (below[cut + 1] ?? NaN)) >= wanted) {
    tail += below[++cut] ?? NaN;
  }
  const [low = NaN, high = NaN] = [sorted[cut], sorted.at(-1 - cut)];
  return { median: median(sorted), low, high, confidence: 1 - 2 * tail };
}
