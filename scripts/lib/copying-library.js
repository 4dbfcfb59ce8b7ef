// The library of examples/library as a server whose writes change a document and a copy of it, in one transaction, or
// with COPIES=apart in two single writes: for checks and measurements of transactions. Every operation compares both, so
// that one which has seen only half of a transaction returns 500.
import { start } from 'contract-server/start';
import { fileURLToPath } from 'node:url';

/** @typedef {import('contract-server').ServiceContext} Context */
/** @typedef {bigint | string} Id */
/** @typedef {import('contract-server').Collection<any>} Collection */

/** The path of this server. Its command is that of the library. */
export const copyingLibrary = fileURLToPath(import.meta.url);

/** The id of the copy of a document. No book and no loan can have it. @template {Id} I @param {I} id @returns {I} */
export const copyOf = (id) => /** @type {I} */ (typeof id === 'bigint' ? -1n - id : `~${id}`);

/** Whether an id is that of a copy. @param {Id} id */
export const isCopy = (id) => (typeof id === 'bigint' ? id < 0n : id.startsWith('~'));

/**
 * A collection whose writes also change copies, which its pages do not have.
 * @param {Collection} documents
 * @param {boolean} isText - Whether its ids are texts.
 * @param {Context['transaction']} transaction
 * @returns {Collection}
 */
function copied(documents, isText, transaction) {
  /**
   * @template T
   * @param {string} subject
   * @param {Id} id
   * @param {(write: import('contract-server').CollectionInTransaction<any>['write'], stored: string | undefined) => Promise<T>} work
   */
  const together = (subject, id, work) =>
    transaction(subject, async (tx) => {
      const own = tx.of(documents);
      const [stored, copy] = await Promise.all([own.get(id), own.get(copyOf(id))]);
      if (stored !== copy) throw new Error(`${id} is ${stored}, and its copy ${copy}`);
      return work(async (id, change) => {
        const [outcome] = await Promise.all([own.write(id, change), own.write(copyOf(id), change)]);
        return outcome;
      }, stored);
    });
  const { before, from } = isText ? { before: '~' } : { from: 0n };
  return {
    write: (subject, id, change) => together(subject, id, (write) => write(id, change)),
    get: (subject, id) => together(subject, id, (_, stored) => Promise.resolve(stored)),
    change: (subject, id, update) =>
      together(subject, id, async (write, stored) => {
        if (stored === undefined) return undefined;
        const text = update(stored);
        await write(id, { when: 'any', text });
        return text;
      }),
    // The lists of the library only go on after an id.
    page: (subject, range) =>
      documents.page(subject, { ...range, before, ...(range.after === undefined && { from }) }),
    count: (subject) => documents.count(subject, { before, from }),
  };
}

/** @param {Collection} documents @returns {Collection} */
function apart(documents) {
  return {
    page: documents.page.bind(documents),
    get: documents.get.bind(documents),
    change: documents.change.bind(documents),
    count: documents.count.bind(documents),
    async write(subject, id, change) {
      const ids = [id, copyOf(id)];
      const [outcome] = await Promise.all(ids.map((one) => documents.write(subject, one, change)));
      return /** @type {never} */ (outcome);
    },
  };
}

if (process.argv[1] === copyingLibrary)
  await start(async () => {
    const { service } = await import('../../examples/library/dist/service.js');
    /** @param {Context} context */
    const open = (context) => {
      /** @type {Context['collection']} */
      const collection = (definition) => {
        const documents = context.collection(definition);
        return process.env['COPIES'] === 'apart'
          ? apart(documents)
          : copied(documents, definition.id === 'text', context.transaction);
      };
      return service.open({ ...context, collection });
    };
    return { service: { ...service, program: new URL(import.meta.url), open } };
  });
