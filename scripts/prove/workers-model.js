// What the clients of prove:workers know of their plants, and what a list must therefore contain.

/**
 * What is known of a plant: it exists; it does not; or a response was lost, or said that the outcome is unknown, and it
 * may be either. A plant that is unknown stays so, since its write may still be on its way; it is not used again.
 * @typedef {'present' | 'absent' | 'unknown'} State
 */

/** A plant that one client uses, with one request at a time. */
class Plant {
  /** @type {State} */
  state = 'absent';
  /** When the last request for it began or ended, as a number of the subject's clock. */
  changed = 0;
  /** Whether a request is on its way. */
  busy = false;
  /** Which creation of this id it is; each has another name. */
  generation = 0;

  /** @param {number} id */
  constructor(id) {
    this.id = id;
  }

  /** Starts with the id, since a list does not have it. */
  get name() {
    return `${this.id}/${this.generation}`;
  }
}

/** The plants of a subject. */
export class Plants {
  #plants = new Map();
  /** Counts the beginnings and ends of writes. */
  #clock = 0;

  /** @returns {number} The present moment, for `check`. */
  now() {
    return this.#clock;
  }

  /** A plant that has never existed. @param {number} id */
  add(id) {
    const plant = new Plant(id);
    this.#plants.set(id, plant);
    return plant;
  }

  /** A write begins. @param {Plant} plant */
  begin(plant) {
    plant.busy = true;
    plant.changed = ++this.#clock;
  }

  /** A write has ended. @param {Plant} plant @param {State} state */
  end(plant, state) {
    plant.busy = false;
    plant.state = state;
    plant.changed = ++this.#clock;
  }

  /** How many plants are in each state. */
  count() {
    const counts = { present: 0, absent: 0, unknown: 0 };
    for (const plant of this.#plants.values()) counts[/** @type {State} */ (plant.state)]++;
    return counts;
  }

  /**
   * Checks a list that was requested at a moment. Plants that were written since then may be in it or not.
   * @param {readonly { name: string }[]} plants
   * @param {number} since - From `now`.
   * @returns {string[]} What is wrong.
   */
  check(plants, since) {
    const faults = [];
    const list = plants.map(({ name }) => ({ id: Number(name.split('/')[0]), name }));
    const listed = new Map(list.map(({ id, name }) => [id, name]));
    for (const [i, { id }] of list.entries()) {
      const previous = list[i - 1];
      if (previous !== undefined && previous.id >= id) faults.push(`order: ${id} follows ${previous.id}`);
      if (!this.#plants.has(id)) faults.push(`foreign: ${id} was never created`);
    }
    for (const plant of this.#plants.values()) {
      if (plant.busy || plant.state === 'unknown' || plant.changed > since) continue;
      const name = listed.get(plant.id);
      if (plant.state === 'absent' && name !== undefined)
        faults.push(`undone: ${name} was deleted, and is there`);
      if (plant.state === 'present' && name === undefined) faults.push(`lost: ${plant.name} is missing`);
      if (plant.state === 'present' && name !== undefined && name !== plant.name) {
        faults.push(`lost: ${plant.name} is there as ${name}`);
      }
    }
    return faults;
  }
}
