// Measures, for prove:workers, how long each kind of request has no success.
import { performance } from 'node:perf_hooks';

/** The kinds of requests. */
export const kinds = /** @type {const} */ (['create', 'delete', 'list']);
/** @typedef {typeof kinds[number]} Kind */
/** @typedef {'kept' | 'new'} Connection */
/** A number for each kind. @typedef {Record<Kind, number>} PerKind */

/** How long no request may have failed before the service counts as recovered, in ms. */
const calm = 200;

/** @param {number} value @returns {PerKind} */
const perKind = (value) => ({ create: value, delete: value, list: value });

/** The time of one fault: from its beginning until the service has recovered. */
class Outage {
  /** From when on a time without success counts, in ms. */
  #floor;
  #last;
  /** The longest time without a success, in ms. */
  longest = perKind(0);

  /** @param {readonly Kind[]} down - The kinds that need not succeed while the fault lasts. */
  constructor(down) {
    const now = performance.now();
    this.#last = perKind(now);
    this.#floor = perKind(now);
    for (const kind of down) this.#floor[kind] = Infinity;
  }

  /** The fault has been repaired: from now on every kind counts. */
  repaired() {
    for (const kind of kinds) {
      if (this.#floor[kind] === Infinity) this.#floor[kind] = performance.now();
    }
  }

  /** @param {Kind} kind */
  succeeded(kind) {
    this.measure(kind);
    this.#last[kind] = performance.now();
  }

  /** Counts the time since the last success of a kind. @param {Kind} kind */
  measure(kind) {
    const silence = performance.now() - Math.max(this.#last[kind], this.#floor[kind]);
    this.longest[kind] = Math.max(this.longest[kind], silence);
  }
}

/** Records all requests. */
export class Meter {
  /** How many requests of each kind had success. */
  successes = perKind(0);
  /** How many requests failed. */
  failed = 0;
  /** When the last success began, by kind and connection. */
  #begun = new Map();
  #lastFailureAt = 0;
  /** What the last failure was. */
  lastFailure = 'none';
  /** Failures of requests that began before do not count. */
  #since = 0;
  /** @type {Outage | undefined} */
  #outage;
  /** Whether no request may fail. */
  #strict = false;
  #violation;

  /** @param {(what: string) => void} violation */
  constructor(violation) {
    this.#violation = violation;
  }

  /** @param {Kind} kind @param {Connection} connection @param {number} begun - By performance.now(). */
  succeed(kind, connection, begun) {
    this.successes[kind]++;
    this.#begun.set(`${kind} ${connection}`, begun);
    this.#outage?.succeeded(kind);
  }

  /**
   * @param {Kind} kind
   * @param {Connection} connection
   * @param {number} begun - By performance.now().
   * @param {string} why
   */
  fail(kind, connection, begun, why) {
    this.failed++;
    if (begun < this.#since) return;
    this.#lastFailureAt = performance.now();
    this.lastFailure = `a ${kind} on a ${connection} connection, ${why}`;
    if (this.#strict) this.#violation(`without a fault, this failed: ${this.lastFailure}`);
  }

  /** A fault begins. @param {readonly Kind[]} down - The kinds that need not succeed while it lasts. */
  beginFault(down) {
    this.#strict = false;
    return (this.#outage = new Outage(down));
  }

  /**
   * A fault has ended.
   * @param {boolean} recovered - From now on no request may fail that begins from now on.
   * @returns {PerKind} The longest time without a success, in ms.
   */
  endFault(recovered) {
    const outage = this.#outage;
    for (const kind of kinds) outage?.measure(kind);
    this.#outage = undefined;
    this.#since = performance.now();
    this.#strict = recovered;
    return outage?.longest ?? perKind(0);
  }

  /**
   * Whether requests have succeeded that began after a moment, and none has failed for a while.
   * @param {number} moment - By performance.now().
   * @param {{ kinds: readonly Kind[], connections: readonly Connection[] }} which - All of these are needed.
   */
  succeedsSince(moment, { kinds: needed, connections }) {
    if (this.#since < moment) {
      this.#since = moment;
      this.#lastFailureAt = moment;
    }
    if (performance.now() - this.#lastFailureAt < calm) return false;
    return needed.every((kind) =>
      connections.every((connection) => this.#begun.get(`${kind} ${connection}`) > this.#lastFailureAt),
    );
  }

  /** Whether each of some kinds has had a success that began after a moment. */
  hasSuccess(/** @type {number} */ moment, /** @type {readonly Kind[]} */ needed) {
    const since = (/** @type {Kind} */ kind) =>
      Math.max(this.#begun.get(`${kind} kept`) ?? 0, this.#begun.get(`${kind} new`) ?? 0);
    return needed.every((kind) => since(kind) > moment);
  }
}
