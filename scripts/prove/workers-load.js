// The clients of prove:workers: they create, delete and list plants, and check every response.
import { Agent } from 'node:http';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, creation, deletion, listing, Lost, send } from './workers-client.js';
import { Plants } from './workers-model.js';
import { Random } from './workers-random.js';

/** @typedef {import('./workers-meter.js').Kind} Kind */
/** @typedef {import('./workers-meter.js').Connection} Connection */
/** @typedef {import('./workers-client.js').Response} Response */
/** @typedef {ReturnType<Plants['add']>} Plant */

/** The names of the subjects, and how many plants each of their clients keeps. The first one's lists have two pages. */
export const subjects = /** @type {const} */ ({ many: 170, some: 25, few: 5 });
/** Two with a kept connection, and two that connect for each request. */
const clientsPerSubject = 4;
/** The longest pause between the requests of a client, in ms. */
const longestPause = 14;
/** The pause after a failure, in ms. */
const failurePause = 30;
/** The code of a 503 that says that the outcome of a write is unknown. */
const unknownOutcome = 50302;

/** One client, with one request at a time, and plants of its own. */
class Client {
  /** Those that exist. @type {Plant[]} */
  #present = [];
  /** Those that were deleted. @type {Plant[]} */
  #absent = [];
  #nextId;

  /** @param {number} index - Its number among the clients of its subject. @param {number} most @param {Random} random */
  constructor(index, most, random) {
    this.#nextId = index + 1;
    this.most = most;
    this.random = random;
    /** @type {Connection} */
    this.connection = index % 2 === 0 ? 'kept' : 'new';
    this.agent = this.connection === 'kept' ? new Agent({ keepAlive: true, maxSockets: 1 }) : undefined;
  }

  /** What to do next. @returns {Kind} */
  chooseKind() {
    if (this.random.next() < 0.2) return 'list';
    if (this.#present.length === 0) return 'create';
    const share = this.#present.length < this.most ? 0.7 : 0.3;
    return this.random.next() < share ? 'create' : 'delete';
  }

  /** Takes a plant to write. @param {'create' | 'delete'} kind @param {Plants} plants @returns {Plant} */
  take(kind, plants) {
    const source = kind === 'create' ? this.#absent : this.#present;
    const [plant] = source.splice(this.random.integer(0, source.length - 1), 1);
    // Sometimes one that was deleted, sometimes a new one.
    if (plant !== undefined && (kind === 'delete' || this.random.next() < 0.5)) return plant;
    if (plant !== undefined) source.push(plant);
    const id = this.#nextId;
    this.#nextId += clientsPerSubject;
    // Both signs, since the order of a list is numerical.
    return plants.add(this.random.next() < 0.5 ? id : -id);
  }

  /** Returns a plant after a write. One whose state is unknown is not used again. @param {Plant} plant */
  putBack(plant) {
    if (plant.state === 'present') this.#present.push(plant);
    if (plant.state === 'absent') this.#absent.push(plant);
  }
}

/** Runs all clients. */
export class Load {
  /** Acknowledged writes. */
  acknowledged = { create: 0, delete: 0 };
  /** Writes whose outcome is unknown, and those that were refused without effect. */
  unknown = 0;
  refused = 0;
  /** Whether a 500 is a valid response, for want of descriptors. */
  allow500 = false;
  #port;
  #meter;
  #violation;
  #running = true;
  /** @type {Promise<void>} */
  #ended;
  /** @type {{ name: string, token: string, plants: Plants }[]} */
  #subjects = [];

  /**
   * Starts the clients.
   * @param {object} options
   * @param {number} options.port
   * @param {readonly string[]} options.tokens - One for each of `subjects`.
   * @param {number} options.seed
   * @param {import('./workers-meter.js').Meter} options.meter
   * @param {(what: string) => void} options.violation
   */
  constructor({ port, tokens, seed, meter, violation }) {
    this.#port = port;
    this.#meter = meter;
    this.#violation = violation;
    const clients = Object.entries(subjects).flatMap(([name, most], s) => {
      const subject = { name, token: tokens[s] ?? '', plants: new Plants() };
      this.#subjects.push(subject);
      return Array.from({ length: clientsPerSubject }, (_, i) => {
        const random = new Random(seed + 100 * s + i);
        return this.#run(subject, new Client(i, most, random));
      });
    });
    this.#ended = Promise.all(clients).then(() => undefined);
  }

  /** Ends all clients. */
  async end() {
    this.#running = false;
    await this.#ended;
  }

  /** Lists all plants, and compares them with what is known. @throws {Error} when there is no list. */
  async verify() {
    for (const { name, token, plants } of this.#subjects) {
      const since = plants.now();
      const { status, text } = await send(this.#port, token, listing);
      if (status !== 200) throw new Error(`the list of ${name} returned ${status} ${text}`);
      this.#check({ name, plants }, text, since);
    }
  }

  /** How many plants are known to exist, not to exist, or are unknown. */
  count() {
    const total = { present: 0, absent: 0, unknown: 0 };
    for (const { plants } of this.#subjects) {
      for (const [state, number] of Object.entries(plants.count())) {
        total[/** @type {keyof typeof total} */ (state)] += number;
      }
    }
    return total;
  }

  /** @param {{ name: string, token: string, plants: Plants }} subject @param {Client} client */
  async #run(subject, client) {
    while (this.#running) {
      const kind = client.chooseKind();
      const begun = performance.now();
      try {
        const response = await (kind === 'list'
          ? this.#list(subject, client)
          : this.#write(kind, subject, client));
        if (this.#judge(kind, response)) {
          this.#meter.succeed(kind, client.connection, begun);
          await pause(client.random.integer(1, longestPause));
          continue;
        }
        this.#meter.fail(kind, client.connection, begun, `${response.status} ${response.text}`);
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        this.#meter.fail(kind, client.connection, begun, error.message);
      }
      await pause(failurePause);
    }
    client.agent?.destroy();
  }

  /** @param {Kind} kind @param {Response} response @returns {boolean} Whether it is a success. */
  #judge(kind, { status, text }) {
    if (status === 200 || status === 204) return true;
    const valid = status === 503 || (status === 500 && this.allow500);
    if (!valid) this.#violation(`a ${kind} returned ${status} ${text.slice(0, 200)}`);
    return false;
  }

  /** @param {{ name: string, token: string, plants: Plants }} subject @param {Client} client */
  async #list({ name, token, plants }, { agent }) {
    const since = plants.now();
    const response = await send(this.#port, token, listing, agent);
    if (response.status === 200) this.#check({ name, plants }, response.text, since);
    return response;
  }

  /** @param {{ name: string, plants: Plants }} subject @param {string} text @param {number} since */
  #check({ name, plants }, text, since) {
    const faults = plants.check(JSON.parse(text), since);
    for (const fault of faults.slice(0, 3)) this.#violation(`${fault} (subject ${name})`);
    if (faults.length > 3) this.#violation(`${faults.length - 3} more in the same list of ${name}`);
  }

  /**
   * @param {'create' | 'delete'} kind
   * @param {{ token: string, plants: Plants }} subject
   * @param {Client} client
   */
  async #write(kind, { token, plants }, client) {
    const plant = client.take(kind, plants);
    if (kind === 'create') plant.generation++;
    plants.begin(plant);
    /** @type {Plant['state']} */
    let state = 'unknown';
    try {
      const message = kind === 'create' ? creation(plant) : deletion(plant);
      const response = await send(this.#port, token, message, client.agent);
      state = this.#stateAfter(kind, plant, response);
      return response;
    } catch (error) {
      if (error instanceof Lost && error.unsent) state = plant.state;
      throw error;
    } finally {
      if (state === 'unknown') this.unknown++;
      plants.end(plant, state);
      client.putBack(plant);
    }
  }

  /** @param {'create' | 'delete'} kind @param {Plant} plant @param {Response} response @returns {Plant['state']} */
  #stateAfter(kind, plant, { status, text }) {
    if (status === (kind === 'create' ? 200 : 204)) {
      this.acknowledged[kind]++;
      return kind === 'create' ? 'present' : 'absent';
    }
    if (status === 503 && codeOf(text) !== unknownOutcome) {
      this.refused++;
      return plant.state;
    }
    if (kind === 'create' && status === 400)
      this.#violation(`undone: ${plant.name} must not exist, but ${text}`);
    if (kind === 'delete' && status === 404) this.#violation(`lost: ${plant.name} must exist, but ${text}`);
    return 'unknown';
  }
}
