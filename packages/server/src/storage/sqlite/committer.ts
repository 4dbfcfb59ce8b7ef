// The thread that owns the connection for writes of documents, and of tokens by handlers: it receives batches of all
// threads that serve, syncs them, and runs all checkpoints.
import { isMainThread, parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { oncePerIteration } from '../../base/once-per-iteration.js';
import type { CollectionDefinition, Id, Outcome, StorageFailure } from '../core/interface.js';
import { isCheck, outcomeOf, type Step, type Write } from '../core/writes.js';
import { closeWithCheckpoint, inTransaction, timeout } from './database.js';
import { isFull, toSqliteError } from './failures.js';
import { existing } from './files.js';
import { tokenDocuments } from '../core/token-row.js';
import { prepareTokenWrites } from './tokens.js';

/** The worker data of the thread. */
export interface WriterData {
  /** The path of the database, without symbolic links. */
  file: string;
  collections: readonly CollectionDefinition[];
}

/** A batch of at least one write, whose results are independent; or a transaction of at least one step. */
export type WriterBatch =
  { readonly writes: readonly Write[] } | { readonly subject: string; readonly steps: readonly Step[] };

/** To the thread: what to commit; from the thread that started it also another one's port, or the request to exit. */
export type WriterRequest = WriterBatch | { readonly port: MessagePort } | 'close';

/** The result of a write, or of a transaction. */
export type Result = Outcome | 'committed' | 'conflict' | Failure;

/** The reason why a write or a transaction is not known to be committed. */
export interface Failure {
  readonly failure: StorageFailure;
  readonly message: string;
}

/** The reply to the oldest request of a port without a reply: the results of each write in order, or of a transaction. */
export type Reply = readonly Result[];

/** A request, and the callback for its results. */
interface WaitingBatch {
  readonly request: WriterBatch;
  readonly reply: (reply: Reply) => void;
}

function serve(parent: NonNullable<typeof parentPort>, { file, collections }: WriterData): void {
  const database = openForWriting(file);
  const committer = new BatchCommitter(database, collections);
  const receive = (port: MessagePort) => {
    port.on('message', (request: WriterRequest) => {
      if (request === 'close') {
        committer.commit();
        closeWithCheckpoint(database);
        parent.close();
      } else if ('port' in request) {
        receive(request.port);
        // Only the thread that started this one keeps it alive.
        request.port.unref();
      } else {
        committer.add(request, (reply) => {
          port.postMessage(reply);
        });
      }
    });
  };
  receive(parent);
  parent.postMessage('open');
}

/**
 * Opens the connection for writes. Acknowledged writes are durable only with both settings, so it reads them back.
 * @throws Error if SQLite has not taken them.
 */
function openForWriting(file: string): DatabaseSyncInstance {
  const database = new DatabaseSync(existing(file), { timeout });
  // The log shrinks to this size, in bytes, once those who read an old state of it have moved on.
  database.exec('PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864');
  const [synchronous] = Object.values(database.prepare('PRAGMA synchronous').get() as Record<string, number>);
  const [journal] = Object.values(database.prepare('PRAGMA journal_mode').get() as Record<string, string>);
  if (journal !== 'wal' || synchronous !== 2) {
    throw new Error(`the writer runs with journal_mode ${journal} and synchronous ${synchronous}`);
  }
  return database;
}

/** Commits batches and transactions, all that wait in one transaction of SQLite. The senders limit how many there are. */
class BatchCommitter {
  readonly #database: DatabaseSyncInstance;
  /** By the names of their collections, which arrive as copies. */
  readonly #tables: ReadonlyMap<string, Table>;
  readonly #writeToken: (write: Write) => Outcome;
  readonly #commitSoon = oncePerIteration(() => {
    this.commit();
  });
  #waiting: WaitingBatch[] = [];

  constructor(database: DatabaseSyncInstance, collections: readonly CollectionDefinition[]) {
    this.#database = database;
    this.#tables = new Map(collections.map((collection) => [collection.name, tableOf(database, collection)]));
    this.#writeToken = prepareTokenWrites(database);
  }

  /** Adds a request, and commits it with those of all threads that have arrived. */
  add(request: WriterBatch, reply: WaitingBatch['reply']): void {
    this.#waiting.push({ request, reply });
    this.#commitSoon();
  }

  /** Commits everything that waits. */
  commit(): void {
    if (this.#waiting.length === 0) return;
    const batches = this.#waiting;
    this.#waiting = [];
    const replies = this.#run(batches.map(({ request }) => request));
    for (const [i, reply] of replies.entries()) batches[i]?.reply(reply);
  }

  /** Runs requests in one transaction; those whose data is damaged fail alone. */
  #run(requests: readonly WriterBatch[]): Reply[] {
    const replies = this.#runTogether(requests);
    if (!('failure' in replies)) return replies;
    return requests.map((request) => {
      const parts = 'writes' in request ? request.writes.map((write) => ({ writes: [write] })) : [request];
      if (replies.failure !== 'damaged') return parts.map(() => replies);
      return parts.flatMap((part) => {
        const alone = this.#runTogether([part]);
        return 'failure' in alone ? [alone] : alone.flat();
      });
    });
  }

  #runTogether(requests: readonly WriterBatch[]): Reply[] | Failure {
    let committing = false as boolean;
    try {
      return inTransaction(this.#database, () => {
        const replies = requests.map((request) => this.#write(request));
        committing = true;
        return replies;
      });
    } catch (error) {
      // A failed COMMIT may have taken effect, unless the log had no space for all of it. An earlier failure has none.
      const { failure, message } = toSqliteError(this.#database.location() ?? '', error);
      return { failure: committing && !isFull(error) ? 'unknown-outcome' : failure, message };
    }
  }

  /** Makes the writes of a request in the transaction that is open; those of a transaction only if what it has read holds. */
  #write(request: WriterBatch): Reply {
    if ('writes' in request) return request.writes.map((write) => this.#writeDocument(write));
    const { subject, steps } = request;
    const holds = steps.every(
      ({ collection, id, expected }) => (this.#tableOf(collection).find(subject, id) ?? null) === expected,
    );
    if (!holds) return ['conflict'];
    for (const { collection, id, text } of steps.filter((step) => !isCheck(step)))
      this.#writeDocument({ collection, subject, id, when: 'any', text });
    return ['committed'];
  }

  #writeDocument(write: Write): Outcome {
    const { collection } = write;
    if (collection.name === tokenDocuments.name) return this.#writeToken(write);
    return this.#tableOf(collection).make(write);
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
