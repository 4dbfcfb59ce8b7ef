// Computes the ratio of the Plant Store's speed to other servers', round by round.
import { medianInterval } from '../lib/statistics.js';

/**
 * @typedef {import('./run.js').Result} Result
 *
 * A ratio that was measured in each round: of the rates of two servers, or of the times that they take to start.
 * @typedef {object} Comparison
 * @property {string} server
 * @property {string} other
 * @property {string} workload - Or "start".
 * @property {number | undefined} connections
 * @property {import('../lib/statistics.js').Interval} ratio
 * @property {boolean} slower - Whether a change makes a request slower: the whole interval lies below `target`.
 */

/** What the Plant Store must keep of its earlier rate, in creates, lists and deletes. */
export const target = 0.97;

/**
 * Compares each server with the Plant Store that it names, and the starts of the Plant Store with that of Fastify.
 * @param {readonly Result[]} results
 * @returns {Comparison[]}
 */
export function compare(results) {
  const named = (/** @type {string | undefined} */ wanted) =>
    results.find(({ server }) => server.name === wanted);
  const rates = results.flatMap((result) => {
    const reference = named(result.server.comparedWith);
    if (reference === undefined) return [];
    return result.server.kind === 'ours' ? compareRates(result, reference) : compareRates(reference, result);
  });
  const fastify = named('Fastify');
  const stores = results.filter(({ server }) => ['ours', 'before'].includes(server.kind));
  const starts = stores.flatMap((store) =>
    fastify === undefined ? [] : comparison(store, fastify, 'start', store.startTimes, fastify.startTimes),
  );
  return [...rates, ...starts];
}

/** @param {Result} own @param {Result} other @returns {Comparison[]} */
function compareRates(own, other) {
  return other.measurements.flatMap(({ workload, connections, samples }, i) => {
    const [rates, others] = [own.measurements[i]?.samples ?? [], samples].map((all) =>
      all.map(({ rate }) => rate),
    );
    return comparison(own, other, workload, rates ?? [], others ?? [], connections);
  });
}

/**
 * @param {Result} own @param {Result} other
 * @param {string} workload
 * @param {readonly number[]} values - By round.
 * @param {readonly number[]} others
 * @param {number} [connections]
 * @returns {Comparison}
 */
function comparison(own, other, workload, values, others, connections) {
  const ratio = medianInterval(values.map((value, round) => value / (others[round] ?? NaN)));
  const slower =
    other.server.kind === 'before' && /^(create|list|delete)/.test(workload) && ratio.high < target;
  return { server: own.server.name, other: other.server.name, workload, connections, ratio, slower };
}
