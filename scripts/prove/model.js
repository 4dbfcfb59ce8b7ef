// What the library does with a book and with a loan, and the Plant Store with a plant, as a sequence of requests: the
// specification for what proofs compare with all responses.
import { withoutCopies } from '../lib/copying-library.js';

/** How many times a loan can be renewed, and for how many days each. */
const maxRenewals = 3;
const renewalDays = 14;

/** The collections, and the fields of their documents besides the id. */
const fields = {
  books: ['title', 'author', 'shelf'],
  loans: ['isbn', 'borrower', 'due', 'renewals'],
  plants: ['name'],
};
/** @typedef {keyof typeof fields} Collection */
/** Where a collection has the id of a document. */
const idField = /** @type {const} */ ({ books: 'isbn', loans: 'copy', plants: 'id' });

/** @typedef {Record<string, string | number>} Value */
/**
 * A request that concerns one document. Its value has all fields for a creation and a replacement, and some for a change.
 * @typedef {object} Operation
 * @property {'create' | 'read' | 'replace' | 'change' | 'renew' | 'delete'} act
 * @property {Value} [value]
 */

/**
 * The name of a plant as it is sent. Some are long, so that the log needs more than one checkpoint.
 * @param {unknown} name - As it is in states: "Plant" and the id.
 */
function longName(name) {
  const id = Number(String(name).slice('Plant '.length));
  return `${name} `.padEnd(id % 20 === 0 ? 20_000 : id % 5 === 0 ? 1_500 : 40, 'x');
}

/** The text of a state. @param {Collection} collection @param {Record<string, unknown>} value */
export function stateOf(collection, value) {
  if (collection === 'plants') {
    const [name] = /^Plant -?\d+/.exec(String(value['name'])) ?? [];
    if (longName(name) === value['name']) return JSON.stringify({ name });
  }
  return JSON.stringify(Object.fromEntries(fields[collection].map((name) => [name, value[name]])));
}

/** The id of a document in a list. @param {Collection} collection @param {Record<string, unknown>} value */
export function idOf(collection, value) {
  // Lists of plants have no ids.
  if (collection === 'plants') return Number(/-?\d+/.exec(String(value['name']))?.[0]);
  return /** @type {string | number} */ (value[idField[collection]]);
}

/**
 * The states of a subject's documents in a store, by id.
 * @param {import('@photostructure/sqlite').DatabaseSyncInstance} database
 * @param {string} subject
 * @param {Collection} collection
 * @returns {Map<string | number, string>}
 * @throws {Error} when some of its copies differ.
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
    if (act === 'create' && collection === 'plants')
      return state === null ? success(200, textOf(value)) : { outcome: '400', state };
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
  const sent = collection === 'plants' ? { name: longName(value?.['name']) } : value;
  const body = JSON.stringify(act === 'create' ? { [idField[collection]]: id, ...sent } : value);
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
