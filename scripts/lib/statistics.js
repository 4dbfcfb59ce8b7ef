// The little statistics that the benchmarks need.

/** @param {readonly number[]} values - At least one. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = /** @type {number} */ (sorted[middle]);
  return sorted.length % 2 === 1 ? upper : (upper + /** @type {number} */ (sorted[middle - 1])) / 2;
}

/** Half the distance between the extremes, as a part of the median. @param {readonly number[]} values */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / 2 / median(values);
}
