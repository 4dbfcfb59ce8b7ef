// Measures, for prove:workers, how long each kind of request has no success.
import { performance } from 'node:perf_hooks';

/** The kinds of requests. */
export const kinds = /** @type {const} */ (['write', 'get', 'list']);
/** @typedef {typeof kinds[number]} Kind */
/** @typedef {'kept' | 'new'} Connection */
/** A number for each kind. @typedef {Record<Kind, number>} PerKind */

/** How long no request may have failed before the service counts as recovered, in ms. */
const calm = 200;

/** @param {number} value @returns {PerKind} */
export const perKind = (value) => ({ write: value, get: value, list: value });

/** Records all requests. Moments are of performance.now(). */
export class Meter {
  /** How many requests of each kind had success. */
  successes = perKind(0);
  /** How many requests failed. */
  failed = 0;
  /** What the last failure was. */
  lastFailure = 'none';
  #lastFailureAt = 0;
  /** When the last success began, by kind and connection. @type {Map<string, number>} */
  #begun = new Map();
  /** Failures of requests that began before do not count. */
  #since = 0;
  /** Whether no request may fail. */
  #strict = false;
  /** From when on each kind has had no success; infinite while it need not have one. */
  #silentSince = perKind(Infinity);
  /** The longest time without a success since the fault began, in ms. */
  #longest = perKind(0);
  /** The requests that failed though no fault lasted. @type {string[]} */
  #unexpected = [];
  /** How many faults have begun or ended; odd while one lasts. */
  disturbances = 0;

  /** @param {Kind} kind @param {Connection} connection @param {number} begun */
  succeed(kind, connection, begun) {
    this.successes[kind]++;
    this.#begun.set(`${kind} ${connection}`, begun);
    this.#measure(kind);
    if (this.#silentSince[kind] !== Infinity) this.#silentSince[kind] = performance.now();
  }

  /** @param {Kind} kind @param {Connection} connection @param {number} begun @param {string} why */
  fail(kind, connection, begun, why) {
    this.failed++;
    if (begun < this.#since) return;
    this.#lastFailureAt = performance.now();
    this.lastFailure = `a ${kind} on a ${connection} connection, ${why}`;
    if (this.#strict) this.#unexpected.push(this.lastFailure);
  }

  /** A fault begins. @param {readonly Kind[]} down - The kinds that need not succeed while it lasts. */
  beginFault(down) {
    this.#strict = false;
    if (this.disturbances % 2 === 0) this.disturbances++;
    this.#longest = perKind(0);
    this.#silentSince = perKind(performance.now());
    for (const kind of down) this.#silentSince[kind] = Infinity;
  }

  /** The fault has been repaired: from now on every kind must succeed. */
  repaired() {
    this.#since = this.#lastFailureAt = performance.now();
    for (const kind of kinds) this.#silentSince[kind] = Math.min(this.#silentSince[kind], this.#since);
  }

  /**
   * The service has recovered, or will not.
   * @param {boolean} recovered - No request may fail that begins from now on.
   * @returns {PerKind} The longest time without a success since the fault began, in ms.
   */
  endFault(recovered) {
    if (recovered) this.disturbances++;
    for (const kind of kinds) this.#measure(kind);
    this.#silentSince = perKind(Infinity);
    this.#since = performance.now();
    this.#strict = recovered;
    return this.#longest;
  }

  /** The requests that failed, though no fault lasted, since this was last called. */
  takeUnexpected() {
    return this.#unexpected.splice(0);
  }

  /** Whether no request has failed for a while, and one of each kind on each connection has succeeded since then. */
  isCalm() {
    return (
      performance.now() - this.#lastFailureAt >= calm &&
      kinds.every((kind) => Math.min(...this.#lastBegun(kind)) > this.#lastFailureAt)
    );
  }

  /**
   * Whether each of some kinds has had a success that began after a moment.
   * @param {number} moment
   * @param {readonly Kind[]} needed
   */
  hasSuccess(moment, needed) {
    return needed.every((kind) => Math.max(...this.#lastBegun(kind)) > moment);
  }

  /** When the last success on a kept and on a new connection began. @param {Kind} kind */
  #lastBegun(kind) {
    return ['kept', 'new'].map((connection) => this.#begun.get(`${kind} ${connection}`) ?? 0);
  }

  /** Counts the time since the last success. @param {Kind} kind */
  #measure(kind) {
    this.#longest[kind] = Math.max(this.#longest[kind], performance.now() - this.#silentSince[kind]);
  }
}
