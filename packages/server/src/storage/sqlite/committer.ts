// The thread that owns the connection for writes of documents, and of tokens by handlers: it receives what all threads that
// serve want to commit, syncs it, and runs all checkpoints.
import { isMainThread, parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import type { CollectionDefinition, Id, Outcome, StorageError } from '../core/interface.js';
import { isCheck, outcomeOf, type Step, type Write } from '../core/writes.js';
import { closeWithCheckpoint, timeout } from './database.js';
import { isFull, toSqliteError } from './failures.js';
import { existing } from './files.js';
import { tokenDocuments } from '../core/tokens.js';
import { prepareTokenWrites } from './tokens.js';

export interface WriterData {
  /** The path of the database, without symbolic links. */
  file: string;
  collections: readonly CollectionDefinition[];
}

/** A write, or a transaction of at least one step: it takes effect as a whole, or not at all. */
export type Unit = Write | { readonly subject: string; readonly steps: readonly Step[] };

/** To the thread: what to commit; from the thread that started it also another one's port, or the request to exit. */
export type WriterRequest = readonly Unit[] | MessagePort | 'close';

/** The reason why a unit is not known to be committed. */
export type Failure = Pick<StorageError, 'failure' | 'message'>;

/** The result of a unit. The reply to the oldest request of a port without one has those of its units, in their order. */
export type Result = Outcome | 'committed' | 'conflict' | Failure;

interface WaitingRequest {
  readonly units: readonly Unit[];
  readonly reply: (results: readonly Result[]) => void;
}

function serve(parent: NonNullable<typeof parentPort>, { file, collections }: WriterData): void {
  const database = new DatabaseSync(existing(file), { timeout });
  // Acknowledged writes are durable only with this. The log shrinks to this size, in bytes, once those who read an old state
  // of it have moved on.
  database.exec('PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864');
  const committer = new BatchCommitter(database, collections);
  const receive = (port: MessagePort) => {
    port.on('message', (request: WriterRequest) => {
      if (request === 'close') {
        committer.commit();
        closeWithCheckpoint(database);
        parent.close();
      } else if ('postMessage' in request) {
        receive(request);
        // Only the thread that started this one keeps it alive.
        request.unref();
      } else {
        committer.add(request, (results) => {
          port.postMessage(results);
        });
      }
    });
  };
  receive(parent);
  parent.postMessage('open');
}

/** Commits units, all that wait in one transaction of SQLite. The senders limit how many there are. */
class BatchCommitter {
  readonly #database: DatabaseSyncInstance;
  /** By the names of their collections, which arrive as copies. */
  readonly #tables: ReadonlyMap<string, Table>;
  readonly #commitSoon = oncePerIteration(() => {
    this.commit();
  });
  #waiting: WaitingRequest[] = [];

  constructor(database: DatabaseSyncInstance, collections: readonly CollectionDefinition[]) {
    this.#database = database;
    const tokens: Table = { make: prepareTokenWrites(database), find: () => undefined };
    this.#tables = new Map([
      ...collections.map((collection) => [collection.name, tableOf(database, collection)] as const),
      [tokenDocuments.name, tokens],
    ]);
  }

  /** Adds a request, and commits it with those of all threads that have arrived. */
  add(units: readonly Unit[], reply: WaitingRequest['reply']): void {
    this.#waiting.push({ units, reply });
    this.#commitSoon();
  }

  commit(): void {
    if (this.#waiting.length === 0) return;
    const requests = this.#waiting;
    this.#waiting = [];
    const results = this.#run(requests.flatMap(({ units }) => units));
    for (const { units, reply } of requests) reply(results.splice(0, units.length));
  }

  /** Runs units in one transaction; those whose data is damaged fail alone. */
  #run(units: readonly Unit[]): Result[] {
    const results = this.#runTogether(units);
    if (!('failure' in results)) return results;
    if (results.failure !== 'damaged') return units.map(() => results);
    return units.flatMap((unit) => this.#runTogether([unit]));
  }

  #runTogether(units: readonly Unit[]): Result[] | Failure {
    let committing = false;
    try {
      // IMMEDIATE waits for the locks of other processes here, not in the middle of the transaction.
      this.#database.exec('BEGIN IMMEDIATE');
      const results = units.map((unit) => this.#make(unit));
      committing = true;
      this.#database.exec('COMMIT');
      return results;
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      // A failed COMMIT may have taken effect, unless the log had no space for all of it. An earlier failure has none.
      const { failure, message } = toSqliteError(this.#database.location() ?? '', error);
      return { failure: committing && !isFull(error) ? 'unknown-outcome' : failure, message };
    }
  }

  /** Makes a write in the transaction that is open, or the steps of a transaction if what it has read holds. */
  #make(unit: Unit): Result {
    if (!('steps' in unit)) return this.#tableOf(unit.collection).make(unit);
    const { subject, steps } = unit;
    const holds = steps.every(
      ({ collection, id, expected }) => (this.#tableOf(collection).find(subject, id) ?? null) === expected,
    );
    if (!holds) return 'conflict';
    for (const { collection, id, text } of steps.filter((step) => !isCheck(step)))
      this.#tableOf(collection).make({ collection, subject, id, when: 'any', text });
    return 'committed';
  }

  #tableOf({ name }: CollectionDefinition): Table {
    return this.#tables.get(name) as Table;
  }
}

/** The documents of a collection, in the transaction that is open. */
interface Table {
  readonly make: (write: Write) => Outcome;
  /** Returns the text of a document; undefined if there is none. */
  readonly find: (subject: string, id: Id) => string | undefined;
}

function tableOf(database: DatabaseSyncInstance, { name, column }: CollectionDefinition): Table {
  const insert = database.prepare(
    `INSERT INTO ${name} (subject, id, ${column}) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const select = database.prepare(`SELECT ${column} AS text FROM ${name} WHERE subject = ? AND id = ?`);
  const find = (subject: string, id: Id) => (select.get(subject, id) as { text: string } | undefined)?.text;
  const replace = database.prepare(`UPDATE ${name} SET ${column} = ? WHERE subject = ? AND id = ?`);
  const remove = database.prepare(`DELETE FROM ${name} WHERE subject = ? AND id = ?`);
  const make = (write: Write): Outcome => {
    const { subject, id, when, text } = write;
    // Most writes are creates and deletes, which need a single statement.
    if (when === 'absent' && insert.run(subject, id, text).changes > 0) return 'inserted';
    if (when !== 'equals' && text === null)
      return remove.run(subject, id).changes > 0 ? 'deleted' : 'missing';
    const outcome = outcomeOf(write, find(subject, id));
    if (outcome === 'inserted') insert.run(subject, id, text);
    else if (outcome === 'replaced') replace.run(text, subject, id);
    else if (outcome === 'deleted') remove.run(subject, id);
    return outcome;
  };
  return { make, find };
}

if (!isMainThread && parentPort !== null) serve(parentPort, workerData as WriterData);
