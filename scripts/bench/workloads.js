// Defines the workloads: the contents of the stores, and the requests.
import { requestText } from './load.js';

/** The number of subjects with a hundred plants each. */
const subjects = 1_000;

/** The initial contents of every store: the number of plants per subject. Their ids are negative. */
export const seed = [
  { subject: 'writer', plants: 1 },
  { subject: 'long', plants: 100_000 },
  ...Array.from({ length: subjects }, (_, i) => ({ subject: `subject ${i}`, plants: 100 })),
];

/**
 * A server, as the workloads see it, and their state.
 * @typedef {object} Target
 * @property {(subject: string) => string} tokenOf
 * @property {number} created - The highest id that was created.
 * @property {number} deleted - The highest id that was deleted.
 * @property {number} [deletable] - The highest id that may be deleted.
 * @property {number} random - The state of the pseudorandom sequence, which is the same for all servers.
 */

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} title
 * @property {(target: Target) => string | undefined} next - Returns the next request, or undefined if there is none.
 * @property {(status: number) => boolean} [expect] - Whether a status is expected; 200 and 204 by default.
 * @property {number} [mostConnections]
 * @property {(target: Target) => string} [supply] - Returns a request that provides for this workload.
 */

/** Ids of 16 digits, which a double may round, so that the body is parsed twice. */
const sixteenDigits = 1_000_000_000_000_000;

/** @type {readonly Workload[]} */
export const workloads = [
  { name: 'create', title: 'Create a plant', next: (target) => create(target, ++target.created) },
  {
    name: 'create-16',
    title: 'Create, ids of 16 digits',
    next: (target) => create(target, sixteenDigits + ++target.random),
  },
  { name: 'list-1', title: 'List one plant', next: (target) => list(target, 'writer', '?limit=1') },
  {
    name: 'list-100',
    title: 'List 100 plants',
    next: (target) =>
      ++target.random % 100 === 0
        ? create(target, ++target.created)
        : list(target, `subject ${draw(target, subjects)}`, '?limit=100'),
  },
  {
    name: 'list-100000',
    title: 'List 100,000 plants, 8 connections',
    // More connections would only measure how long they wait for each other.
    mostConnections: 8,
    next: (target) => list(target, 'long', ''),
  },
  {
    name: 'delete',
    title: 'Delete a plant',
    next: remove,
    supply: (target) => create(target, ++target.created),
  },
  {
    name: 'mix',
    title: '80 % list 20, 15 % create, 5 % delete',
    next: (target) => {
      const kind = draw(target, 100);
      if (kind < 80) return list(target, `subject ${draw(target, subjects)}`, '?limit=20');
      return (kind < 85 ? remove(target) : undefined) ?? create(target, ++target.created);
    },
  },
  {
    name: 'refused',
    title: '401 to a create',
    next: () => requestText({ method: 'POST', path: '/plants', body: body(1) }),
    expect: (status) => status === 401,
  },
];

/** @param {number} id */
function body(id) {
  return `{"id":${id},"name":"Monstera deliciosa","tag":"indoor"}`;
}

/** Returns the request that creates a plant. @param {string | undefined} token @param {number} id */
export function createRequest(token, id) {
  return requestText({ method: 'POST', path: '/plants', token, body: body(id) });
}

/** @param {Target} target @param {number} id */
function create(target, id) {
  return createRequest(target.tokenOf('writer'), id);
}

/** @param {Target} target @param {string} subject @param {string} query */
function list(target, subject, query) {
  return requestText({ method: 'GET', path: `/plants${query}`, token: target.tokenOf(subject) });
}

/**
 * Starts a round of a workload. All earlier requests must have their responses, because the round may delete the plants that
 * they have created.
 * @param {Target} target
 */
export function startRound(target) {
  target.deletable = target.created;
}

/** @param {Target} target */
function remove(target) {
  if (target.deleted >= (target.deletable ?? 0)) return undefined;
  return requestText({
    method: 'DELETE',
    path: `/plants/${++target.deleted}`,
    token: target.tokenOf('writer'),
  });
}

/** The next number below `limit` of a simple sequence (Lehmer's). @param {Target} target @param {number} limit */
function draw(target, limit) {
  target.random = ((target.random + 1) * 48_271) % 2_147_483_647;
  return target.random % limit;
}
