// What the library does with a book and with a loan, as a sequence of requests: the specification for prove:workers.
import { withoutCopies } from '../lib/copying-library.js';

/** How many times a loan can be renewed, and for how many days each. */
const maxRenewals = 3;
const renewalDays = 14;

/** The collections, and the fields of their documents besides the id. */
const fields = {
  books: ['title', 'author', 'shelf'],
  loans: ['isbn', 'borrower', 'due', 'renewals'],
};
/** @typedef {keyof typeof fields} Collection */
export const collections = /** @type {Collection[]} */ (Object.keys(fields));
/** Where a collection has the id of a document. */
const idField = /** @type {const} */ ({ books: 'isbn', loans: 'copy' });

/** @typedef {Record<string, string | number>} Value */
/**
 * A request that concerns one document. Its value has all fields for a creation and a replacement, and some for a change.
 * @typedef {object} Operation
 * @property {'create' | 'read' | 'replace' | 'change' | 'renew' | 'delete'} act
 * @property {Value} [value]
 */

/** The text of a state. @param {Collection} collection @param {Record<string, unknown>} value */
export function stateOf(collection, value) {
  return JSON.stringify(Object.fromEntries(fields[collection].map((name) => [name, value[name]])));
}

/** The id of a document in a list. @param {Collection} collection @param {Record<string, unknown>} value */
export const idOf = (collection, value) => /** @type {string | number} */ (value[idField[collection]]);

/**
 * The states of a subject's documents in a store, by id.
 * @param {import('@photostructure/sqlite').DatabaseSyncInstance} database
 * @param {string} subject
 * @param {Collection} collection
 * @returns {Map<string | number, string>}
 * @throws {Error} when it has copies of which some differ.
 */
export function statesIn(database, subject, collection) {
  const column = collection.slice(0, -1);
  const query = database.prepare(`SELECT ${column} AS value, id FROM ${collection} WHERE subject = ?`);
  const stored = new Map(
    query.all(subject).map(({ id, value }) => [/** @type {string | number} */ (id), String(value)]),
  );
  return new Map(withoutCopies(stored).map(([id, text]) => [id, stateOf(collection, JSON.parse(text))]));
}

/**
 * What a request does and returns: a status, and after a success the state.
 * @param {Collection} collection
 * @returns {import('../lib/linearizability.js').Apply<Operation>}
 */
export const applyTo = (collection) => {
  const textOf = (/** @type {Value} */ value) => stateOf(collection, value);
  /** @param {number} status @param {string} state */
  const success = (status, state) => ({ outcome: `${status} ${state}`, state });
  return (state, { act, value = {} }) => {
    const stored = /** @type {Value} */ (state === null ? {} : JSON.parse(state));
    if (act === 'create') {
      const text = textOf(collection === 'loans' ? { ...value, renewals: 0 } : value);
      return state === null || state === text ? success(201, text) : { outcome: '409', state };
    }
    if (state === null) return { outcome: '404', state };
    if (act === 'read') return success(200, state);
    if (act === 'delete') return { outcome: '204', state: null };
    if (act === 'replace') return success(200, textOf(value));
    if (act === 'change') return success(200, textOf({ ...stored, ...value }));
    if (Number(stored['renewals']) >= maxRenewals) return { outcome: '409', state };
    const due = new Date(String(stored['due']));
    due.setUTCDate(due.getUTCDate() + renewalDays);
    const renewed = { due: due.toISOString().slice(0, 10), renewals: Number(stored['renewals']) + 1 };
    return success(200, textOf({ ...stored, ...renewed }));
  };
};

/**
 * The HTTP message of a request.
 * @param {Collection} collection
 * @param {string | number} id
 * @param {Operation} operation
 * @returns {import('../lib/request.js').Message}
 */
export function messageOf(collection, id, { act, value }) {
  const path = `/${collection}/${id}`;
  const body = JSON.stringify(act === 'create' ? { [idField[collection]]: id, ...value } : value);
  if (act === 'create') return { method: 'POST', path: `/${collection}`, body };
  if (act === 'read') return { path };
  if (act === 'delete') return { method: 'DELETE', path };
  if (act === 'renew') return { method: 'POST', path: `${path}/renewals` };
  return { method: act === 'replace' ? 'PUT' : 'PATCH', path, body };
}

/**
 * The outcome that a response reports.
 * @param {Collection} collection
 * @param {import('../lib/request.js').Response} response
 * @returns {string}
 */
export function outcomeOf(collection, { status, text }) {
  return status === 200 || status === 201
    ? `${status} ${stateOf(collection, JSON.parse(text))}`
    : `${status}`;
}

/** The outcome of a read. @param {string | undefined} state - Undefined if there is no document. */
export const readOutcome = (state) => (state === undefined ? '404' : `200 ${state}`);
