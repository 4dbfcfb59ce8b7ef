// Defines the workloads: the contents of the stores, and the requests.
import { requestText } from './load.js';

/** The number of subjects with a hundred plants each. */
const subjects = 1_000;

/** The initial contents of every store: the number of plants per subject. Their ids are negative. */
export const seed = [
  { subject: 'writer', plants: 1 },
  ...Array.from({ length: subjects }, (_, i) => ({ subject: `subject ${i}`, plants: 100 })),
];

/** @typedef {import('./servers.js').Side} Side */

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {(side: Side) => string | undefined} next - Returns the next request, or undefined if there is none.
 * @property {(status: number) => boolean} [expect] - Whether a status is expected; 200, 201 and 204 by default.
 * @property {(side: Side) => string} [supply] - Returns a request that provides for this workload.
 */

/** The factor and the modulus of Lehmer's pseudorandom sequence. */
const [factor, prime] = [48_271, 2_147_483_647];

/** @type {readonly Workload[]} */
export const workloads = [
  { name: 'create', next: create },
  { name: 'list-1', next: (side) => list(side, 'writer', '?limit=1') },
  {
    name: 'list-100',
    next: (side) => (++side.random % 100 === 0 ? create(side) : list(side, anySubject(side), '?limit=100')),
  },
  { name: 'delete', next: remove, supply: create },
  {
    name: 'mix',
    next: (side) => {
      const kind = draw(side, 100);
      if (kind < 80) return list(side, anySubject(side), '?limit=20');
      return (kind < 85 ? remove(side) : undefined) ?? create(side);
    },
  },
  { name: 'refused', next: () => createRequest(undefined, 1), expect: (status) => status === 401 },
];

/** Returns a request that creates a plant. @param {string | undefined} token @param {number} id */
function createRequest(token, id) {
  const body = `{"id":${id},"name":"Monstera deliciosa","tag":"indoor"}`;
  return requestText({ method: 'POST', path: '/plants', token, body });
}

/** Returns a request that creates the next plant. @param {Side} side */
function create(side) {
  return createRequest(side.tokenOf('writer'), ++side.created);
}

/** Returns a request that deletes the next plant, if there is one. @param {Side} side */
function remove(side) {
  if (side.deleted >= side.deletable) return undefined;
  return requestText({ method: 'DELETE', path: `/plants/${++side.deleted}`, token: side.tokenOf('writer') });
}

/** @param {Side} side @param {string} subject @param {string} query */
function list(side, subject, query) {
  return requestText({ method: 'GET', path: `/plants${query}`, token: side.tokenOf(subject) });
}

/** @param {Side} side */
function anySubject(side) {
  return `subject ${draw(side, subjects)}`;
}

/** The next pseudorandom number below `limit`. @param {Side} side @param {number} limit */
function draw(side, limit) {
  side.random = ((side.random + 1) * factor) % prime;
  return side.random % limit;
}
