// Computes the statistics for the benchmarks and the soak runs.

/**
 * @param {readonly number[]} values - At least one.
 * @param {number} share - From 0 (the minimum) to 1 (the maximum).
 * @returns {number} The value below which this share of the values lies, interpolated linearly.
 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const position = share * (sorted.length - 1);
  const [below = NaN, above = below] = sorted.slice(Math.floor(position));
  return below + (above - below) * (position % 1);
}

/** @param {readonly number[]} values - At least one. */
export function median(values) {
  return quantile(values, 0.5);
}

/** Half the distance between the extremes, relative to the median. @param {readonly number[]} values */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / 2 / median(values);
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
  const count = sorted.length;
  /** The probability that the true median lies outside the interval, on one side. */
  let tail = 0.5 ** count;
  let cut = 0;
  let more = tail;
  for (let k = 1; k < count / 2; k++) {
    more *= (count - k + 1) / k;
    if (1 - 2 * (tail + more) < wanted) break;
    tail += more;
    cut = k;
  }
  return {
    median: median(sorted),
    low: sorted[cut] ?? NaN,
    high: sorted[count - 1 - cut] ?? NaN,
    confidence: 1 - 2 * tail,
  };
}
