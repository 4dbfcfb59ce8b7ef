// The model of acknowledged documents, as clients know them from all responses.
import { performance } from 'node:perf_hooks';
import { Register } from '../lib/linearizability.js';
import { applyTo, readOutcome } from './model.js';

/** @typedef {import('./model.js').Collection} Collection */
/** @typedef {import('./model.js').Operation} Operation */

/** A document is not written again once so many requests may still take effect: each doubles what is possible. */
const mostUnsettled = 3;

/**
 * What a history notes. A request ends without an outcome if nobody knows that, and with null if it certainly had no effect.
 * @typedef {{ act: 'begin', key: string, operation: Operation }
 *   | { act: 'end', key: string, number: number, outcome?: string | null | undefined }} Note
 */
/** @typedef {import('../lib/linearizability.js').Request<Operation>} Request */

/** A document, and what is known of it. */
export class Document {
  /** @type {Register<Operation>} */
  register;
  /** When its state may last have changed, by performance.now(); infinite while a write is on its way. */
  changed = 0;
  writes = 0;
  /** Whether it has been said that the responses contradict each other. */
  isReported = false;
  #note;

  /** @param {Collection} collection @param {string | number} id @param {(note: Note) => void} note */
  constructor(collection, id, note) {
    this.collection = collection;
    this.id = id;
    this.key = `${collection}/${id}`;
    this.register = new Register(applyTo(collection), null);
    this.#note = note;
  }

  /** A request begins. @param {Operation} operation @returns {Request} */
  begin(operation) {
    if (operation.act !== 'read') {
      this.writes++;
      this.changed = Infinity;
    }
    this.#note({ act: 'begin', key: this.key, operation });
    return this.register.begin(operation);
  }

  /**
   * A request has ended.
   * @param {Request} request
   * @param {string | null | undefined} outcome
   * @returns {string[]} What is wrong.
   */
  end(request, outcome) {
    const isWrite = request.operation.act !== 'read';
    if (isWrite) this.writes--;
    this.#note({ act: 'end', key: this.key, number: request.number, outcome });
    if (outcome === null) this.register.withdraw(request);
    else this.register.end(request, outcome);
    // What a read has seen may be the effect of a write whose outcome is unknown.
    if (isWrite || this.register.unsettled > 0) this.changed = this.writes > 0 ? Infinity : performance.now();
    return this.#takeFault();
  }

  /** Chooses a client's next operation. @param {number} count - Makes what it writes unique. @returns {Operation} */
  choose(count) {
    const { collection, id, register } = this;
    if (collection === 'plants') {
      const creates = register.state === null || Math.random() < 0.1;
      return creates ? { act: 'create', value: { name: `Plant ${id}` } } : { act: 'delete' };
    }
    const whole =
      collection === 'books'
        ? { title: `t${count}`, author: `a${count}` }
        : { isbn: '9780141439600', borrower: `b${count}`, due: '2031-12-24' };
    if (register.state === null && Math.random() < 0.8) return { act: 'create', value: whole };
    const choice = Math.random();
    if (choice < 0.3) return { act: 'read' };
    if (choice < 0.4) return { act: 'delete' };
    if (choice < 0.5) return { act: 'create', value: whole };
    if (collection === 'books') {
      if (choice < 0.6) return { act: 'replace', value: { ...whole, shelf: `s${count}` } };
      const field = ['title', 'author', 'shelf'][count % 3] ?? '';
      return { act: 'change', value: { [field]: `${field}${count}` } };
    }
    if (choice < 0.6) return { act: 'replace', value: { ...whole, renewals: 0 } };
    return { act: 'renew' };
  }

  /** Returns its fault, once. */
  #takeFault() {
    const { fault } = this.register;
    if (fault === undefined || this.isReported) return [];
    this.isReported = true;
    return [`${this.key}: ${fault}`];
  }
}

/** The knowledge that the clients of a subject have of its documents. */
export class Subject {
  /** All that were ever used. @type {Record<Collection, Map<string | number, Document>>} */
  documents = { books: new Map(), loans: new Map(), plants: new Map() };
  /** Those in use. @type {Record<Collection, Document[]>} */
  inUse = { books: [], loans: [], plants: [] };
  /** Is told what begins and ends. @type {(note: Note) => void} */
  note = () => {};

  /**
   * @param {string} name
   * @param {string} token
   * @param {Readonly<Partial<Record<Collection, number>>>} counts - How many documents are in use at a time.
   */
  constructor(name, token, counts) {
    this.name = name;
    this.token = token;
    this.counts = counts;
    this.collections = /** @type {Collection[]} */ (Object.keys(counts));
  }

  /** One of the documents in use, of any collection. */
  pick() {
    const collection = /** @type {Collection} */ (
      this.collections[Math.floor(Math.random() * this.collections.length)]
    );
    const place = Math.floor(Math.random() * (this.counts[collection] ?? 0));
    const known = this.inUse[collection][place];
    if (known !== undefined && known.register.unsettled < mostUnsettled) return known;
    const number = this.documents[collection].size + 1;
    // Both signs, since the order of numbers is not that of texts.
    const copy = Math.random() < 0.5 ? number : -number;
    const id = collection === 'books' ? String(9_780_000_000_000 + number) : copy;
    const fresh = this.document(collection, id);
    if (known !== undefined) this.inUse[collection][place] = fresh;
    return fresh;
  }

  /** A document, which is in use from now on if it is new and others are wanted. @param {Collection} collection @param {string | number} id */
  document(collection, id) {
    const known = this.documents[collection].get(id);
    if (known !== undefined) return known;
    const fresh = new Document(collection, id, (note) => this.note(note));
    this.documents[collection].set(id, fresh);
    if (this.inUse[collection].length < (this.counts[collection] ?? 0)) this.inUse[collection].push(fresh);
    return fresh;
  }

  /**
   * Compares all documents of a collection with what is known. A document that was written meanwhile is left out.
   * @param {Collection} collection
   * @param {ReadonlyMap<string | number, string>} found - The states, by id.
   * @param {number} since - When reading began, by performance.now().
   * @returns {string[]} What is wrong.
   */
  compare(collection, found, since) {
    const faults = [];
    const known = this.documents[collection];
    for (const id of found.keys()) if (!known.has(id)) faults.push(`doubled: ${id} was never created`);
    for (const document of known.values()) {
      const { register, id, changed } = document;
      const state = found.get(id);
      if (changed > since || register.state === (state ?? null)) continue;
      faults.push(...document.end(document.begin({ act: 'read' }), readOutcome(state)));
      document.changed = performance.now();
    }
    return faults;
  }
}
