// Clients that use a service with all its operations, and share the documents. What they know of each document says
// whether the responses fit together.
import { Agent } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';
import { idOf, messageOf, outcomeOf, stateOf } from './model.js';

/** The kinds of requests. */
export const kinds = /** @type {const} */ (['write', 'get', 'list']);
/** @typedef {typeof kinds[number]} Kind */
/** @typedef {import('./model.js').Collection} Collection */
/** @typedef {import('./model.js').Operation} Operation */
/** @typedef {import('./documents.js').Subject} Subject */
/** @typedef {import('../lib/request.js').Response} Response */
/** @typedef {(message: import('../lib/request.js').Message) => Promise<Response>} Send */

/** The longest pause between the requests of a client, and the pause after a failure, in ms. */
const [longestPause, failurePause] = [20, 30];
/** How long no request may have failed before the service counts as calm, in ms. */
const calm = 200;
/** The code of a 503 that says that the outcome of a write is unknown. */
const unknownOutcome = 50302;

/** Runs all clients. Moments are of performance.now(). */
export class Load {
  /** Writes that were acknowledged, that were refused without effect, and whose outcome is unknown. */
  acknowledged = 0;
  refused = 0;
  unknown = 0;
  /** The numbers of requests of each kind that had success, and the number that failed. */
  successes = { write: 0, get: 0, list: 0 };
  failed = 0;
  lastFailure = 'none';
  /** The time from which no new request or command may fail; infinite while a fault lasts. */
  calmSince = Infinity;
  /** Whether a 500 is a valid response, for want of descriptors. */
  allow500 = false;
  #origin;
  #lastFailureAt = 0;
  /** When the last success of each kind began. */
  #begun = { write: 0, get: 0, list: 0 };
  #violation;
  #subjects;
  #clients;
  #ends = false;
  #lists;
  /** The number of requests for documents. */
  requests = 0;

  /**
   * Starts the clients.
   * @param {object} options
   * @param {string} options.origin
   * @param {readonly Subject[]} options.subjects
   * @param {number} [options.clients] - Of each subject. Half of them keep a connection, half connect for each request.
   * @param {number} [options.lists] - The share of lists in all requests.
   * @param {(what: string) => void} options.violation
   */
  constructor({ origin, subjects, clients = 8, lists = 0.1, violation }) {
    this.#origin = origin;
    this.#lists = lists;
    this.#violation = violation;
    this.#subjects = subjects;
    const each = Array.from({ length: clients }, (_, number) => number % 2 === 0);
    this.#clients = Promise.all(
      subjects.flatMap((subject) => each.map((keeps) => this.#keepUsing(subject, keeps))),
    );
    // `end` reports a failure.
    this.#clients.catch(() => undefined);
  }

  /** Ends all clients after their requests; rejects if one has failed. */
  async end() {
    this.#ends = true;
    await this.#clients;
  }

  /** Sends one request after the other. @param {Subject} subject @param {boolean} keeps - Whether it keeps its connection. */
  async #keepUsing(subject, keeps) {
    const agent = keeps ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
    while (!this.#ends) await this.#use(subject, this.#sender(subject, agent));
    if (agent) agent.destroy();
  }

  /** @param {Subject} subject @param {Agent | false} agent @returns {Send} */
  #sender({ token }, agent) {
    return (message) => send(this.#origin, { ...message, token }, { agent });
  }

  /** Lists everything, and compares it with what is known. @throws {Error} when there is no list. */
  async verify() {
    for (const subject of this.#subjects) {
      for (const collection of subject.collections) {
        const { status, text } = await this.#list(subject, collection, this.#sender(subject, false));
        if (status !== 200) throw new Error(`the list of ${subject.name} returned ${status} ${text}`);
      }
    }
  }

  /**
   * Compares a backup with what is known.
   * @param {number} since - When it began.
   * @param {(subject: string, collection: Collection) => Map<string | number, string>} read
   */
  compareBackup(since, read) {
    for (const subject of this.#subjects)
      for (const collection of subject.collections) {
        const faults = subject.compare(collection, read(subject.name, collection), since);
        this.#report(faults, `in a backup, ${subject.name}`);
      }
  }

  /**
   * Whether each of some kinds has had a success that began after a moment.
   * @param {number} moment
   * @param {readonly Kind[]} needed
   */
  hasSuccess(moment, needed) {
    return needed.every((kind) => this.#begun[kind] > moment);
  }

  /** Whether no request has failed for a while, and since a moment, and one of each kind has succeeded since then. @param {number} moment */
  isCalm(moment) {
    const since = Math.max(moment, this.#lastFailureAt);
    return performance.now() - since >= calm && this.hasSuccess(since, kinds);
  }

  /** Sends one request. @param {Subject} subject @param {Send} send */
  async #use(subject, send) {
    const begun = performance.now();
    const [kind, { status, text }] = await this.#request(subject, send);
    if (status >= 200 && status < 500) {
      this.successes[kind]++;
      this.#begun[kind] = Math.max(this.#begun[kind], begun);
      await pause(1 + Math.random() * longestPause);
      return;
    }
    this.failed++;
    this.#lastFailureAt = performance.now();
    this.lastFailure = `a ${kind}: ${status} ${text.slice(0, 200)}`;
    if (status !== 0 && status !== 503 && !(status === 500 && this.allow500))
      this.#violation(`not permitted: ${this.lastFailure}`);
    if (begun >= this.calmSince) this.#violation(`without a fault, this failed: ${this.lastFailure}`);
    await pause(failurePause);
  }

  /**
   * Sends a request for a document or a list, and compares the response with what is known.
   * @param {Subject} subject
   * @param {Send} send
   * @returns {Promise<[Kind, Response]>}
   */
  async #request(subject, send) {
    const document = subject.pick();
    const { collection } = document;
    if (Math.random() < this.#lists) return ['list', await this.#list(subject, collection, send)];
    const operation = document.choose(++this.requests);
    const request = document.begin(operation);
    const response = await send(messageOf(collection, document.id, operation));
    const faults = document.end(request, this.#outcomeOf(collection, operation, response));
    this.#report(faults, `subject ${subject.name}`);
    return [operation.act === 'read' ? 'get' : 'write', response];
  }

  /**
   * The outcome of a request; undefined if it is unknown, and null if it certainly had no effect.
   * @param {Collection} collection @param {Operation} operation @param {Response} response
   */
  #outcomeOf(collection, { act }, response) {
    const { status, text } = response;
    if (status >= 200 && status < 300 && act !== 'read') this.acknowledged++;
    if (status >= 200 && status < 500) return outcomeOf(collection, response);
    // The system refused the connection, so that the server cannot have received it.
    const isRefused =
      status === 0 ? text === 'ECONNREFUSED' : status === 503 && !text.includes(`${unknownOutcome}`);
    if (act === 'read') return null;
    if (isRefused) this.refused++;
    else this.unknown++;
    return isRefused ? null : undefined;
  }

  /** @param {Subject} subject @param {Collection} collection @param {Send} send */
  async #list(subject, collection, send) {
    const since = performance.now();
    const response = await send({ path: `/${collection}` });
    if (response.status >= 400 && response.status < 500)
      this.#violation(`a list of ${subject.name} returned ${response.status} ${response.text}`);
    if (response.status !== 200) return response;
    /** @type {Map<string | number, string>} */
    const found = new Map();
    const faults = [];
    let last;
    for (const value of JSON.parse(response.text)) {
      const id = idOf(collection, value);
      if (found.has(id)) faults.push(`doubled: ${id} is twice in a list`);
      else if (last !== undefined && last > id) faults.push(`out of order: ${id} follows ${last}`);
      found.set(id, stateOf(collection, value));
      last = id;
    }
    faults.push(...subject.compare(collection, found, since));
    this.#report(faults, `in a list of ${subject.name}`);
    return response;
  }

  /** @param {readonly string[]} faults @param {string} where */
  #report(faults, where) {
    for (const fault of faults) this.#violation(`${fault} (${where})`);
  }
}
