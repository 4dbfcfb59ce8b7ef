// The workloads: what is in the stores, and which requests are sent.
import { requestText } from './load.js';

/** How many subjects have a hundred plants each. */
const subjects = 1_000;

/** What is in every store before it starts: who has how many plants, with ids below zero. */
export const seed = [
  { subject: 'writer', plants: 1 },
  { subject: 'long', plants: 100_000 },
  ...Array.from({ length: subjects }, (_, i) => ({ subject: `subject ${i}`, plants: 100 })),
];

/**
 * What the workloads know of a server, and remember.
 * @typedef {object} Target
 * @property {(subject: string) => string} tokenOf
 * @property {string} refusedPath - Where it answers 401.
 * @property {boolean} remembers - Whether a plant must have been created to be deleted.
 * @property {number} created - Ids up to here were created...
 * @property {number} deleted - ...and up to here deleted again.
 * @property {number} random - The state of a sequence that is the same for all.
 */

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} title
 * @property {(target: Target) => string | undefined} next - The next request; undefined when there is none to send.
 * @property {(status: number) => boolean} [expect] - Which statuses are right; 200 and 204 unless given.
 * @property {number} [mostConnections]
 */

/** More creates than can be under way at a time: their plants may not be there yet. */
const underWay = 1_000;
/** An id of 16 digits is read twice, since a double may round it. */
const sixteenDigits = 1_000_000_000_000_000;

/** @type {readonly Workload[]} */
export const workloads = [
  { name: 'create', title: 'Create a plant', next: (target) => create(target, ++target.created) },
  {
    name: 'create-16',
    title: 'Create, ids of 16 digits',
    next: (target) => create(target, sixteenDigits + ++target.random),
  },
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
    // More would measure how long each waits for all the others.
    mostConnections: 8,
    next: (target) => list(target, 'long', ''),
  },
  { name: 'delete', title: 'Delete a plant', next: (target) => remove(target, 0) },
  {
    name: 'mix',
    title: '80 % list 20, 15 % create, 5 % delete',
    next: (target) => {
      const kind = draw(target, 100);
      if (kind < 80) return list(target, `subject ${draw(target, subjects)}`, '?limit=20');
      return (kind < 85 ? remove(target, underWay) : undefined) ?? create(target, ++target.created);
    },
  },
  {
    name: 'refused',
    title: '401 to a create',
    next: (target) => requestText({ method: 'POST', path: target.refusedPath, body: body(1) }),
    expect: (status) => status === 401,
  },
];

/** @param {number} id */
function body(id) {
  return `{"id":${id},"name":"Monstera deliciosa","tag":"indoor"}`;
}

/** The request that creates a plant. @param {string | undefined} token @param {number} id */
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

/** @param {Target} target @param {number} kept - How many of the newest plants are left alone. */
function remove(target, kept) {
  if (target.remembers && target.deleted + kept >= target.created) return undefined;
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
