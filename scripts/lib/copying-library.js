// The library of examples/library as a server whose writes change a document and a copy of it in one transaction. Each write
// compares both first, so that it returns 500 if half of a transaction has taken effect.
import { start } from 'contract-server/start';
import { fileURLToPath } from 'node:url';

/** @typedef {import('contract-server').ServiceContext} Context */
/** @typedef {bigint | number | string} Id */
/** @typedef {import('contract-server').Transaction} Transaction */
/** @typedef {import('../../packages/server/dist/storage/core/interface.js').OpenCollection<any>} Collection */

/** The path of this server, which shares the library's command. */
export const copyingLibrary = fileURLToPath(import.meta.url);

/** The beginning of the ids of copies, or the least of them: no client uses such ids. */
const firstCopy = { text: '~', number: 2 ** 40 };

/** The id of the copy of a document. @template {Id} I @param {I} id @returns {I} */
function copyOf(id) {
  const distance = 2 * firstCopy.number;
  const number = typeof id === 'bigint' ? id + BigInt(distance) : Number(id) + distance;
  return /** @type {I} */ (typeof id === 'string' ? `${firstCopy.text}${id}` : number);
}

/**
 * Returns the documents of a collection of a subject without the copies.
 * @param {ReadonlyMap<number | string, string>} stored - The texts of all.
 * @returns {[number | string, string][]}
 * @throws {Error} when there are copies, and one is not what its document is.
 */
export function withoutCopies(stored) {
  const originals = [...stored].filter(([id]) =>
    typeof id === 'string' ? !id.startsWith(firstCopy.text) : id < firstCopy.number,
  );
  if (originals.length === stored.size) return originals;
  const areCopied = originals.every(([id, text]) => stored.get(copyOf(id)) === text);
  if (areCopied && 2 * originals.length === stored.size) return originals;
  throw new Error('half of a transaction has taken effect');
}

/**
 * A collection whose writes also change copies, which its pages do not have.
 * @param {Collection} documents
 * @param {boolean} isText - Whether its ids are texts.
 * @param {Context['transaction']} transaction
 * @returns {Collection}
 */
function copied(documents, isText, transaction) {
  /** @template T @param {(id: Id) => Promise<T>} write @param {Id} id */
  const both = async (write, id) => (await Promise.all([write(id), write(copyOf(id))]))[0];
  /**
   * @template T
   * @param {string | Transaction} subject
   * @param {Id} id
   * @param {(tx: Transaction) => Promise<T>} work
   */
  const together = async (subject, id, work) => {
    if (typeof subject !== 'string') throw new Error('the library has no transactions');
    return transaction(subject, async (tx) => {
      const [stored, copy] = await Promise.all([documents.get(tx, id), documents.get(tx, copyOf(id))]);
      if (stored !== copy) throw new Error(`${id} is ${stored}, and its copy ${copy}`);
      return work(tx);
    });
  };
  const before = isText ? firstCopy.text : BigInt(firstCopy.number);
  return {
    definition: documents.definition,
    write: (subject, id, change) =>
      together(subject, id, (tx) => both((one) => documents.write(tx, one, change), id)),
    get: documents.get.bind(documents),
    change: (subject, id, update) =>
      together(subject, id, (tx) => both((one) => documents.change(tx, one, update), id)),
    // The lists of the library have no end.
    page: (subject, range) => documents.page(subject, { ...range, before }),
    stored: (subject, range) => documents.stored(subject, { ...range, before }),
    storedOfAll: documents.storedOfAll.bind(documents),
  };
}

if (process.argv[1] === copyingLibrary)
  await start(async () => {
    const { service } = await import('../../examples/library/dist/service.js');
    /** @param {Context} context */
    const open = (context) => {
      /** @type {Context['collection']} */
      const collection = (definition) => {
        const given = context.collection(definition);
        // Every collection of a store is an OpenCollection.
        const documents = /** @type {Collection} */ (/** @type {unknown} */ (given));
        return /** @type {never} */ (copied(documents, definition.id === 'text', context.transaction));
      };
      return service.open({ ...context, collection });
    };
    return { service: { ...service, program: new URL(import.meta.url), open } };
  });
