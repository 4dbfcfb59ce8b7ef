// Clients that use a service with all its operations, and share the documents. What they know of each document says
// whether the responses fit together.
import { Agent } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';
import { faultOf } from './workers-documents.js';
import { idOf, messageOf, outcomeOf, stateOf } from './workers-model.js';

/** @typedef {import('./workers-meter.js').Kind} Kind */
/** @typedef {import('./workers-model.js').Collection} Collection */
/** @typedef {import('./workers-model.js').Operation} Operation */
/** @typedef {import('./workers-documents.js').Document} Document */
/** @typedef {import('./workers-documents.js').Subject} Subject */
/** @typedef {import('../lib/request.js').Response} Response */

/** The longest pause between the requests of a client, in ms. */
const longestPause = 20;
/** The pause after a failure, in ms. */
const failurePause = 30;
/** When a client gives up, in ms: far beyond what a slow machine takes. */
const timeout = 60_000;
/** The code of a 503 that says that the outcome of a write is unknown. */
const unknownOutcome = 50302;

/** The id of the requests on new connections, by which the log shows which workers serve them. */
export const newConnectionId = 'new-connection';

/** Runs all clients. */
export class Load {
  /** Acknowledged writes that had an effect, and among them renewals. */
  acknowledged = 0;
  renewals = 0;
  /** Writes whose outcome is unknown, and those that were refused without effect. */
  unknown = 0;
  refused = 0;
  /** Whether a 500 is a valid response, for want of descriptors. */
  allow500 = false;
  #origins;
  #meter;
  #violation;
  #running = true;
  #ended;
  #subjects;
  #written = 0;

  /**
   * Starts the clients.
   * @param {object} options
   * @param {readonly string[]} options.origins
   * @param {readonly Subject[]} options.subjects
   * @param {number} [options.clients] - Of each subject. Half of them keep a connection, half connect for each request.
   * @param {import('./workers-meter.js').Meter} options.meter
   * @param {(what: string) => void} options.violation
   */
  constructor({ origins, subjects, clients = 8, meter, violation }) {
    this.#origins = origins;
    this.#meter = meter;
    this.#violation = violation;
    this.#subjects = subjects;
    this.#ended = Promise.all(
      this.#subjects.flatMap((subject) => Array.from({ length: clients }, (_, i) => this.#run(subject, i))),
    );
  }

  /** Ends all clients. */
  async end() {
    this.#running = false;
    await this.#ended;
  }

  /** Lists everything, and compares it with what is known. @throws {Error} when there is no list. */
  async verify() {
    for (const subject of this.#subjects) {
      for (const collection of subject.collections) {
        const { status, text } = await this.#list(subject, collection);
        if (status !== 200) throw new Error(`the list of ${subject.name} returned ${status} ${text}`);
      }
    }
  }

  /** Begins to read all documents, as a backup does. Call what it returns with what was read. */
  beginSnapshot() {
    const clocks = this.#subjects.map(({ clock }) => clock);
    /** @param {(subject: string, collection: Collection) => Map<string | number, string>} read */
    return (read) => {
      for (const [i, subject] of this.#subjects.entries()) {
        for (const collection of subject.collections) {
          const found = read(subject.name, collection);
          this.#report(subject.compare(collection, found, clocks[i] ?? 0), `in a backup, ${subject.name}`);
        }
      }
    };
  }

  /** How many documents are known to exist. */
  get present() {
    const documents = this.#subjects.flatMap(({ all }) => all);
    return documents.filter(({ register }) => typeof register.state === 'string').length;
  }

  /** Runs one client, with one request at a time. @param {Subject} subject @param {number} index */
  async #run(subject, index) {
    const connection = index % 2 === 0 ? 'kept' : 'new';
    const agent = connection === 'kept' ? new Agent({ keepAlive: true, maxSockets: 1 }) : undefined;
    while (this.#running) {
      const begun = performance.now();
      const [kind, { status, text }] = await this.#request(subject, agent);
      if (status >= 200 && status < 500) {
        this.#meter.succeed(kind, connection, begun);
        await pause(1 + Math.random() * longestPause);
        continue;
      }
      if (status !== 0 && status !== 503 && !(status === 500 && this.allow500))
        this.#violation(`a ${kind} returned ${status} ${text.slice(0, 200)}`);
      this.#meter.fail(kind, connection, begun, `${status} ${text}`);
      await pause(failurePause);
    }
    agent?.destroy();
  }

  /**
   * @param {Subject} subject @param {Agent} [agent]
   * @returns {Promise<[Kind, Response]>}
   */
  async #request(subject, agent) {
    const document = subject.pick();
    const { collection } = document;
    if (Math.random() < 0.1) return ['list', await this.#list(subject, collection, agent)];
    const operation = document.choose(++this.#written);
    const { register } = document;
    const writes = operation.act !== 'read';
    const request = register.begin(operation);
    if (writes) {
      document.writes++;
      document.changed = Infinity;
    }
    const response = await this.#send(subject, messageOf(collection, document.id, operation), agent);
    if (writes) document.writes--;
    const outcome = this.#outcomeOf(document, operation, response);
    if (outcome === 'none') register.withdraw(request);
    else register.end(request, outcome);
    // What a read has seen may be the effect of a write whose outcome is unknown.
    if (writes || register.unsettled > 0) document.changed = document.writes > 0 ? Infinity : ++subject.clock;
    this.#report(faultOf(document), `subject ${subject.name}`);
    return [writes ? 'write' : 'get', response];
  }

  /**
   * The outcome of a request; undefined if it is unknown, and 'none' if it certainly had no effect.
   * @param {Document} document @param {Operation} operation @param {Response} response
   */
  #outcomeOf({ collection }, { act }, response) {
    const { status, text } = response;
    if (status >= 200 && status < 300 && act !== 'read') {
      this.acknowledged++;
      if (act === 'renew') this.renewals++;
    }
    if (status >= 200 && status < 500) return outcomeOf(collection, response);
    // The system refused the connection, so that the server cannot have received it.
    const isRefused =
      status === 0 ? text === 'ECONNREFUSED' : status === 503 && !text.includes(`${unknownOutcome}`);
    if (act === 'read' || isRefused) {
      if (act !== 'read') this.refused++;
      return 'none';
    }
    this.unknown++;
    return undefined;
  }

  /** @param {Subject} subject @param {Collection} collection @param {Agent} [agent] */
  async #list(subject, collection, agent) {
    const since = subject.clock;
    const csv = collection === 'loans' && Math.random() < 0.3;
    const response = await this.#send(subject, { path: csv ? '/loans.csv' : `/${collection}` }, agent);
    if (response.status !== 200) return response;
    const list = csv ? parseCsv(response.text) : JSON.parse(response.text);
    /** @type {Map<string | number, string>} */
    const found = new Map();
    const faults = [];
    let last;
    for (const value of list) {
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
    for (const fault of faults.slice(0, 3)) this.#violation(`${fault} (${where})`);
    if (faults.length > 3) this.#violation(`${faults.length - 3} more faults ${where}`);
  }

  /** @param {Subject} subject @param {import('../lib/request.js').Message} message @param {Agent} [agent] */
  #send({ token }, message, agent) {
    const headers = agent === undefined ? { 'x-request-id': newConnectionId } : undefined;
    const origin = this.#origins[Math.floor(Math.random() * this.#origins.length)] ?? '';
    return send(origin, { token, ...message, ...(headers && { headers }) }, { timeout, agent });
  }
}

/** The loans of an export, none of which has a quoted field. @param {string} text */
function parseCsv(text) {
  const [, ...lines] = text.trimEnd().split('\r\n');
  return lines.map((line) => {
    const [copy, isbn, borrower, due, renewals] = line.split(',');
    return { copy: Number(copy), isbn, borrower, due, renewals: Number(renewals) };
  });
}
