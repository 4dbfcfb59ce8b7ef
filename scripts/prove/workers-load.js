// The clients of prove:workers: they create, delete and list plants, and compare every response with what they know.
import { Agent } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { send } from '../lib/request.js';

/** @typedef {import('./workers-meter.js').Kind} Kind */
/** @typedef {import('../lib/request.js').Response} Response */

/** The names of the subjects, and how many plants each of their clients keeps. The first one's lists have two pages. */
export const subjects = /** @type {const} */ ({ many: 170, some: 25, few: 5 });
/** Two with a kept connection, and two that connect for each request. */
const clientsPerSubject = 4;
/** The longest pause between the requests of a client, in ms. */
const longestPause = 14;
/** The pause after a failure, in ms. */
const failurePause = 30;
/** When a client gives up, in ms. */
const timeout = 5_000;
/** The code of a 503 that says that the outcome of a write is unknown. */
const unknownOutcome = 50302;

/** The id of the requests on new connections, by which the log shows which workers serve them. */
export const newConnectionId = 'new-connection';

/**
 * A plant that one client uses, with one request at a time.
 * @typedef {object} Plant
 * @property {number} id
 * @property {'present' | 'absent' | 'unknown'} state - Unknown if a response was lost, or said so. It then stays unknown,
 *   since its write may still be on its way, and is not used again.
 * @property {number} changed - When its last write ended, by the subject's clock; infinite while one is on its way.
 * @property {number} generation - Which creation of this id it is; each has another name.
 */

/** Starts with the id, since a list does not have it. @param {Plant} plant */
const nameOf = ({ id, generation }) => `${id}/${generation}`;

/** What the clients of a subject know of its plants. */
class Subject {
  /** @type {Map<number, Plant>} */
  plants = new Map();
  /** Counts the ends of writes. */
  clock = 0;

  /** @param {string} name @param {string} token @param {number} most - How many plants each client keeps. */
  constructor(name, token, most) {
    this.name = name;
    this.token = token;
    this.most = most;
  }

  /**
   * Checks a list. Plants that were written since it was requested may be in it or not.
   * @param {string} text
   * @param {number} since - The clock at the request.
   * @returns {string[]} What is wrong.
   */
  check(text, since) {
    const faults = [];
    /** @type {{ name: string }[]} */
    const plants = JSON.parse(text);
    const list = plants.map(({ name }) => ({ id: Number(name.split('/')[0]), name }));
    const listed = new Map(list.map(({ id, name }) => [id, name]));
    for (const [i, { id }] of list.entries()) {
      const previous = list[i - 1];
      if (previous !== undefined && previous.id >= id) faults.push(`order: ${id} follows ${previous.id}`);
      if (!this.plants.has(id)) faults.push(`foreign: ${id} was never created`);
    }
    for (const plant of this.plants.values()) {
      if (plant.state === 'unknown' || plant.changed > since) continue;
      const found = listed.get(plant.id);
      if (plant.state === 'absent' && found !== undefined)
        faults.push(`undone: ${found} was deleted, and is there`);
      if (plant.state === 'present' && found !== nameOf(plant))
        faults.push(`lost: ${nameOf(plant)} is ${found === undefined ? 'missing' : `there as ${found}`}`);
    }
    return faults;
  }
}

/** Runs all clients. */
export class Load {
  /** Acknowledged writes. */
  acknowledged = 0;
  /** Writes whose outcome is unknown, and those that were refused without effect. */
  unknown = 0;
  refused = 0;
  /** Whether a 500 is a valid response, for want of descriptors. */
  allow500 = false;
  #origin;
  #meter;
  #violation;
  #running = true;
  #ended;
  #subjects;

  /**
   * Starts the clients.
   * @param {object} options
   * @param {string} options.origin
   * @param {readonly string[]} options.tokens - One for each of `subjects`.
   * @param {import('./workers-meter.js').Meter} options.meter
   * @param {(what: string) => void} options.violation
   */
  constructor({ origin, tokens, meter, violation }) {
    this.#origin = origin;
    this.#meter = meter;
    this.#violation = violation;
    this.#subjects = Object.entries(subjects).map(
      ([name, most], i) => new Subject(name, tokens[i] ?? '', most),
    );
    this.#ended = Promise.all(
      this.#subjects.flatMap((subject) =>
        Array.from({ length: clientsPerSubject }, (_, i) => this.#run(subject, i)),
      ),
    );
  }

  /** Ends all clients. */
  async end() {
    this.#running = false;
    await this.#ended;
  }

  /** Lists all plants, and compares them with what is known. @throws {Error} when there is no list. */
  async verify() {
    for (const subject of this.#subjects) {
      const { status, text } = await this.#list(subject);
      if (status !== 200) throw new Error(`the list of ${subject.name} returned ${status} ${text}`);
    }
  }

  /** How many plants are known to exist. */
  get present() {
    const plants = this.#subjects.flatMap((subject) => [...subject.plants.values()]);
    return plants.filter(({ state }) => state === 'present').length;
  }

  /**
   * Runs one client, with one request at a time, and plants of its own.
   * @param {Subject} subject
   * @param {number} index
   */
  async #run(subject, index) {
    const connection = index % 2 === 0 ? 'kept' : 'new';
    const agent = connection === 'kept' ? new Agent({ keepAlive: true, maxSockets: 1 }) : undefined;
    /** @type {Plant[]} */
    const plants = [];
    while (this.#running) {
      const present = plants.filter(({ state }) => state === 'present');
      const kind = chooseKind(present.length, subject.most);
      const begun = performance.now();
      let response;
      if (kind === 'list') response = await this.#list(subject, agent);
      else if (kind === 'delete') response = await this.#write(kind, subject, pick(present), agent);
      else {
        const absent = plants.filter(({ state }) => state === 'absent');
        // Sometimes one that was deleted, sometimes a new one.
        const again = absent.length > 0 && Math.random() < 0.5;
        const plant = again ? pick(absent) : newPlant(plants.length * clientsPerSubject + index + 1);
        if (!again) {
          plants.push(plant);
          subject.plants.set(plant.id, plant);
        }
        plant.generation++;
        response = await this.#write(kind, subject, plant, agent);
      }
      const { status, text } = response;
      if (status === 200 || status === 204) {
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

  /** @param {Subject} subject @param {Agent} [agent] */
  async #list(subject, agent) {
    const since = subject.clock;
    const response = await this.#send(subject, { path: '/plants' }, agent);
    if (response.status !== 200) return response;
    const faults = subject.check(response.text, since);
    for (const fault of faults.slice(0, 3)) this.#violation(`${fault} (subject ${subject.name})`);
    if (faults.length > 3) this.#violation(`${faults.length - 3} more in the same list of ${subject.name}`);
    return response;
  }

  /** @param {'create' | 'delete'} kind @param {Subject} subject @param {Plant} plant @param {Agent} [agent] */
  async #write(kind, subject, plant, agent) {
    const { id } = plant;
    plant.changed = Infinity;
    const message =
      kind === 'create'
        ? { method: 'POST', path: '/plants', body: JSON.stringify({ id, name: nameOf(plant) }) }
        : { method: 'DELETE', path: `/plants/${id}` };
    const response = await this.#send(subject, message, agent);
    plant.state = this.#stateAfter(kind, plant, response);
    plant.changed = ++subject.clock;
    return response;
  }

  /** @param {'create' | 'delete'} kind @param {Plant} plant @param {Response} response @returns {Plant['state']} */
  #stateAfter(kind, plant, { status, text }) {
    if (status === (kind === 'create' ? 200 : 204)) {
      this.acknowledged++;
      return kind === 'create' ? 'present' : 'absent';
    }
    // Refused by the system, so that the server cannot have received it.
    if (status === 0 && text === 'ECONNREFUSED') return plant.state;
    if (status === 503 && !text.includes(String(unknownOutcome))) {
      this.refused++;
      return plant.state;
    }
    if (kind === 'create' && status === 400)
      this.#violation(`undone: ${nameOf(plant)} must not exist, but ${text}`);
    if (kind === 'delete' && status === 404)
      this.#violation(`lost: ${nameOf(plant)} must exist, but ${text}`);
    this.unknown++;
    return 'unknown';
  }

  /** @param {Subject} subject @param {import('../lib/request.js').Message} message @param {Agent} [agent] */
  #send({ token }, message, agent) {
    const headers = agent === undefined ? { 'x-request-id': newConnectionId } : undefined;
    return send(this.#origin, { token, ...message, ...(headers && { headers }) }, { timeout, agent });
  }
}

/**
 * What a client does next.
 * @param {number} present - How many of its plants exist.
 * @param {number} most
 * @returns {Kind}
 */
function chooseKind(present, most) {
  if (Math.random() < 0.2) return 'list';
  if (present === 0) return 'create';
  return Math.random() < (present < most ? 0.7 : 0.3) ? 'create' : 'delete';
}

/** @param {number} number @returns {Plant} */
function newPlant(number) {
  // Both signs, since the order of a list is numerical.
  const id = Math.random() < 0.5 ? number : -number;
  return { id, state: 'absent', changed: 0, generation: 0 };
}

/** One of some plants, at random. @param {readonly Plant[]} plants @returns {Plant} */
function pick(plants) {
  return /** @type {Plant} */ (plants[Math.floor(Math.random() * plants.length)]);
}
