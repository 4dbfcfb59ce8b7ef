// Computes the ratio of the Plant Store's speed to other servers', round by round, and checks it against targets.
import { medianInterval, median } from '../lib/statistics.js';

/**
 * @typedef {import('./run.js').Result} Result
 *
 * A ratio that was measured in each round, and its target.
 * @typedef {object} Comparison
 * @property {string} what
 * @property {import('../lib/statistics.js').Interval} ratio
 * @property {number} [atLeast]
 * @property {number} [atMost]
 */

/** The number of connections to which the targets against bare Fastify apply. */
const manyConnections = 256;
/** @type {Record<string, number>} */
const ofFastify = { create: 0.5, 'list-100': 0.3, refused: 0.6 };

/** What the Plant Store on PostgreSQL must reach of its rate on SQLite. @type {Record<string, number>} */
const ofSqlite = { mix: 0.5, 'list-100': 0.4, 'list-100000': 0.5 };
/** As above, with many connections. @type {Record<string, number>} */
const ofSqliteWithMany = { ...ofSqlite, 'list-100': 0.6 };

/**
 * Compares the Plant Store on each engine with all other servers on the same one, and with itself on SQLite.
 * @param {readonly Result[]} results
 * @returns {Comparison[]}
 */
export function compare(results) {
  const ours = results.find(({ kind }) => kind === 'ours');
  if (ours === undefined) return [];
  /** @type {Comparison[]} */
  const comparisons = [];
  for (const server of results) {
    const { name, kind, engine } = server;
    const compared = name === 'Fastify' || ['peer', 'foreign', 'before'].includes(kind);
    /** @type {[Result, Result] | undefined} */
    let pair;
    if (compared) {
      const own = results.find(
        (result) =>
          result.kind === 'ours' &&
          result.engine === engine &&
          (kind !== 'before' || hasWorkers(result) === hasWorkers(server)),
      );
      if (own !== undefined) pair = [own, server];
    } else if (kind === 'ours' && server !== ours) {
      pair = [server, ours];
    }
    if (pair === undefined) continue;
    const [own, other] = pair;
    const subject = own === ours && own.engine === 'SQLite' ? '' : `${own.name}: `;
    for (const { workload, connections } of server.measurements) {
      const ratios = ratiosOf(own, other, workload, connections);
      if (ratios.length === 0) continue;
      const atLeast = targetFor(own, other, workload, connections);
      comparisons.push({
        what: `${subject}${workload} at ${connections} connections, of ${other.name}`,
        ratio: medianInterval(ratios),
        ...(atLeast !== undefined && { atLeast }),
      });
    }
  }
  const fastify = results.find(({ name }) => name === 'Fastify');
  for (const server of results) {
    if (fastify === undefined || (server.kind !== 'ours' && server.kind !== 'before')) continue;
    const ratios = server.startTimes.map((time, round) => time / Number(fastify.startTimes[round]));
    comparisons.push({
      what: `time to start of ${server.name}, of Fastify`,
      ratio: medianInterval(ratios),
      ...(server === ours && { atMost: 3 }),
    });
  }
  return comparisons;
}

/**
 * Whether a comparison reaches its target. A target is missed only if the whole interval lies beyond it.
 * @param {Comparison} comparison
 * @returns {'' | 'reached' | 'missed' | 'open'} Empty without a target; open if the interval contains it.
 */
export function verdict({ ratio, atLeast = -Infinity, atMost = Infinity }) {
  if (atLeast === -Infinity && atMost === Infinity) return '';
  if (ratio.high < atLeast || ratio.low > atMost) return 'missed';
  return ratio.low >= atLeast && ratio.high <= atMost ? 'reached' : 'open';
}

/**
 * @param {Result} own
 * @param {Result} other
 * @param {string} workload
 * @param {number} connections
 * @returns {number | undefined}
 */
function targetFor(own, other, workload, connections) {
  const many = connections === manyConnections;
  if (other.kind === 'ours') {
    return own.engine === 'SQLite' ? undefined : (many ? ofSqliteWithMany : ofSqlite)[workload];
  }
  if (other.engine === 'PostgreSQL') return 1;
  if (other.kind === 'peer') return workload.startsWith('create') ? 2 : 1;
  if (other.kind === 'before') return /^(create|list|delete)/.test(workload) ? 0.97 : undefined;
  return other.kind === 'floor' && many ? ofFastify[workload] : undefined;
}

/** @param {Result} result */
function hasWorkers({ name }) {
  return name.endsWith('workers');
}

/** @param {Result} result @param {string} workload @param {number} connections */
function samplesOf(result, workload, connections) {
  const isIt = (/** @type {import('./run.js').Measurement} */ found) =>
    found.workload === workload && found.connections === connections;
  return result.measurements.find(isIt)?.samples ?? [];
}

/** The median of a server's rates. @param {Result} result @param {string} workload @param {number} connections */
export function rateOf(result, workload, connections) {
  const samples = samplesOf(result, workload, connections);
  return samples.length === 0 ? NaN : median(samples.map(({ rate }) => rate));
}

/**
 * Returns the ratio of two servers' rates for each round in which both were measured.
 * @param {Result} result
 * @param {Result} other
 * @param {string} workload
 * @param {number} connections
 */
function ratiosOf(result, other, workload, connections) {
  const others = new Map(samplesOf(other, workload, connections).map(({ round, rate }) => [round, rate]));
  return samplesOf(result, workload, connections)
    .map(({ round, rate }) => rate / (others.get(round) ?? NaN))
    .filter(Number.isFinite);
}
