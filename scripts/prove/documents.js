// The model of acknowledged documents, as clients know them from all responses.
import { performance } from 'node:perf_hooks';
import { Register } from '../lib/linearizability.js';
import { applyTo, readOutcome } from './model.js';

/** @typedef {import('./model.js').Collection} Collection */
/** @typedef {import('./model.js').Operation} Operation */

/** A document is not written again once so many requests may still take effect: each doubles what is possible. */
const mostUnsettled = 3;

/** A document, and what is known of it. */
export class Document {
  /** @type {Register<Operation>} */
  register;
  /** When its state may last have changed, by performance.now(); infinite while a write is on its way. */
  changed = 0;
  writes = 0;
  /** Whether it has been said that the responses contradict each other. */
  isReported = false;

  /** @param {Collection} collection @param {string | number} id */
  constructor(collection, id) {
    this.collection = collection;
    this.id = id;
    this.register = new Register(applyTo(collection), null);
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
  takeFault() {
    const { fault } = this.register;
    if (fault === undefined || this.isReported) return [];
    this.isReported = true;
    return [`${this.collection}/${this.id}: ${fault}`];
  }
}

/** The knowledge that the clients of a subject have of its documents. */
export class Subject {
  /** All that were ever used. @type {Record<Collection, Map<string | number, Document>>} */
  documents = { books: new Map(), loans: new Map(), plants: new Map() };
  /** Those in use. @type {Record<Collection, Document[]>} */
  inUse = { books: [], loans: [], plants: [] };

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

  /** All documents that were ever used. */
  get all() {
    return this.collections.flatMap((collection) => [...this.documents[collection].values()]);
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
    const fresh = new Document(collection, id);
    this.documents[collection].set(id, fresh);
    if (known === undefined) this.inUse[collection].push(fresh);
    else this.inUse[collection][place] = fresh;
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
      register.end(register.begin({ act: 'read' }), readOutcome(state));
      document.changed = performance.now();
      faults.push(...document.takeFault());
    }
    return faults;
  }
}
