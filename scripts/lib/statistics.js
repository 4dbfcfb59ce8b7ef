// The statistics that the benchmarks need beyond simple-statistics.
import { binomialDistribution, median, sum } from 'simple-statistics';

/** The probability that the true median may lie outside the interval, which is 5 % for as many rounds as usual. */
const risk = 0.07;

/**
 * Returns the median of the ratios of values, and its distribution-free confidence interval, bounded by two of the ratios
 * (order statistics): the number of ratios below the true median is binomial with a probability of one half. If there are
 * too few, the interval is their whole range.
 * @param {readonly number[]} values - By round; at least one.
 * @param {readonly number[]} others - By round.
 */
export function ratioInterval(values, others) {
  const sorted = values.map((value, i) => value / (others[i] ?? NaN)).sort((a, b) => a - b);
  const below = binomialDistribution(sorted.length, 0.5) ?? [];
  const cut = below.findIndex((_, i) => 2 * sum(below.slice(0, i + 2)) > risk);
  const [low = NaN, high = NaN] = [sorted[cut], sorted.at(-1 - cut)];
  return { median: median(sorted), low, high };
}
