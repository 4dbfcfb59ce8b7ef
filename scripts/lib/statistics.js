// The statistics that the benchmarks and the soak run need.

/**
 * @param {readonly number[]} values - At least one.
 * @param {number} share - From 0, the least value, to 1, the greatest.
 * @returns {number} The value below which this share of them lies; between two of them it is interpolated.
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

/** Half the distance between the extremes, as a part of the median. @param {readonly number[]} values */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / 2 / median(values);
}

/** @typedef {{ median: number, low: number, high: number, confidence: number }} Interval */

/**
 * A confidence interval of the median, between two of the values (order statistics): it holds whatever their
 * distribution is. How many of a sample lie below the true median is binomial with a probability of one half, which
 * gives the confidence.
 * @param {readonly number[]} values - At least one.
 * @param {number} wanted - The least confidence. Too few values for it give their whole range.
 * @returns {Interval} `confidence` is what the interval has, from 0 to 1.
 */
export function medianInterval(values, wanted = 0.93) {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  /** How likely the true median lies beyond `cut` values more than the extremes, on one side. */
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
