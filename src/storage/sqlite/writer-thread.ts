// The thread that owns the connection for writes of documents: it syncs them and runs all checkpoints.
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { isMainThread, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { type CollectionDefinition, messageOf, type Outcome } from '../interface.js';
import type { Write } from '../writes.js';
import { Packer, packOutcomes, type PackedBatch, type PackedResults } from './batch-messages.js';
import { checkFiles, existing, identifyFiles, type StoreFile } from './files.js';
import type { Commit } from './relay-protocol.js';
import { receiveBatches } from './relay-server.js';
import { linkFiles, type WorkerFolder } from './worker-folder.js';

/** How workers reach the thread. */
export interface WorkerAccess extends Pick<WorkerFolder, 'socket' | 'database'> {
  /** The maximum length of a line from a worker, in characters. */
  readonly maxLineLength: number;
}

/** The worker data of the thread. */
export interface WriterData {
  file: string;
  synchronous: 'FULL' | 'OFF';
  collections: readonly CollectionDefinition[];
  /** Where the thread also receives the batches of other processes. */
  workers?: WorkerAccess | undefined;
}

/** The first message of the thread, when its connection is open, with the settings that SQLite reports. */
export interface WriterReady {
  synchronous: number | undefined;
  journal: string;
}

/** A batch to commit, or the request to exit. */
export type WriterRequest = PackedBatch | 'close';

/** The results of batches that were committed together, in order of arrival. */
export interface WriterReply {
  results: readonly PackedResults[];
  /** The commit, unless another process observes it. */
  commit: Commit | undefined;
}

/** A batch to commit, and what to call with its result. Only one of the batches of a commit gets the commit. */
interface WaitingBatch {
  readonly batch: readonly Write[];
  readonly reply: (result: PackedResults, commit: Commit | undefined) => void;
}

async function serve(
  port: NonNullable<typeof parentPort>,
  { file, synchronous, collections, workers }: WriterData,
): Promise<void> {
  const { database, ...settings } = openForWriting(file, synchronous);
  const files = identifyFiles(file);
  const packer = new Packer(collections);
  const committer = new BatchCommitter(database, files, collections);
  const stopReceiving =
    workers &&
    (await receiveBatches(
      workers.socket,
      { files: linkFiles(files, workers.database), maxLineLength: workers.maxLineLength },
      (batch, reply) => {
        committer.schedule({ batch: packer.unpack(batch), reply });
      },
    ));

  const close = () => {
    // The connection stays open until its statements are garbage collected, so run the checkpoint of its close now. First
    // PASSIVE, because other processes may be writing. Then it empties the log, if it need not wait for them.
    database.exec('PRAGMA wal_checkpoint(PASSIVE); PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
    stopReceiving?.();
    port.close();
  };

  port.on('message', (first: WriterRequest) => {
    const results: PackedResults[] = [];
    let observed: Commit | undefined;
    let request: WriterRequest | undefined = first;
    while (request !== undefined && request !== 'close') {
      committer.add({
        batch: packer.unpack(request),
        reply: (result, commit) => {
          results.push(result);
          observed ??= commit;
        },
      });
      request = (receiveMessageOnPort(port) as { message: WriterRequest } | undefined)?.message;
    }
    committer.commit();
    if (results.length > 0) port.postMessage({ results, commit: observed } satisfies WriterReply);
    if (request === 'close') close();
  });
  port.postMessage(settings satisfies WriterReady);
}

/**
 * Opens the connection for writes. Acknowledged writes are durable only with both settings, so it reads them back.
 * @throws Error if SQLite has not taken them.
 */
function openForWriting(file: string, wanted: 'FULL' | 'OFF') {
  const database = new DatabaseSync(existing(file), { timeout: 5_000 });
  database.exec(`PRAGMA synchronous = ${wanted}`);
  const [synchronous] = Object.values(database.prepare('PRAGMA synchronous').get() as Record<string, number>);
  const [journal] = Object.values(database.prepare('PRAGMA journal_mode').get() as Record<string, string>);
  if (journal !== 'wal' || (wanted === 'FULL' && synchronous !== 2)) {
    throw new Error(`the writer runs with journal_mode ${journal} and synchronous ${synchronous}`);
  }
  return { database, synchronous, journal };
}

/** Commits batches, all that wait in one transaction. The senders limit how many there are. */
class BatchCommitter {
  readonly #database: DatabaseSyncInstance;
  readonly #files: readonly StoreFile[];
  readonly #writers: ReadonlyMap<CollectionDefinition, (write: Write) => Outcome>;
  #waiting: WaitingBatch[] = [];

  constructor(
    database: DatabaseSyncInstance,
    files: readonly StoreFile[],
    collections: readonly CollectionDefinition[],
  ) {
    this.#database = database;
    this.#files = files;
    this.#writers = new Map(collections.map((one) => [one, writerOf(database, one)]));
  }

  /** Adds a batch to the next commit. */
  add(batch: WaitingBatch): void {
    this.#waiting.push(batch);
  }

  /** Adds a batch, and commits it with those of all processes that have arrived. */
  schedule(batch: WaitingBatch): void {
    if (this.#waiting.length === 0) {
      setImmediate(() => {
        this.commit();
      });
    }
    this.add(batch);
  }

  commit(): void {
    if (this.#waiting.length === 0) return;
    const start = performance.now();
    const committed = this.#waiting;
    this.#waiting = [];
    const results = this.#run(committed);
    const rows = committed.reduce((sum, { batch }) => sum + batch.length, 0);
    const seconds = (performance.now() - start) / 1000;
    for (const [i, { reply }] of committed.entries()) {
      reply(results[i] as PackedResults, i === 0 ? { rows, seconds } : undefined);
    }
  }

  #run(batches: readonly WaitingBatch[]): PackedResults[] {
    const database = this.#database;
    const make = (write: Write) => (this.#writers.get(write.collection) as (write: Write) => Outcome)(write);
    let committing = false;
    try {
      // IMMEDIATE waits for the locks of other processes here, not in the middle of the transaction.
      database.exec('BEGIN IMMEDIATE');
      const results = batches.map(({ batch }) => packOutcomes(batch, make));
      checkFiles(this.#files);
      committing = true;
      database.exec('COMMIT');
      return results;
    } catch (error) {
      // A failed COMMIT may have taken effect. An earlier failure has no effect.
      const failure = committing ? 'unknown-outcome' : 'unavailable';
      if (database.isTransaction) database.exec('ROLLBACK');
      return batches.map(() => ({ failure, message: `SQLite: ${messageOf(error)}` }));
    }
  }
}

/** Returns the function that makes a change to a document of a collection, in the transaction that is open. */
function writerOf(
  database: DatabaseSyncInstance,
  { name, column }: CollectionDefinition,
): (write: Write) => Outcome {
  const insert = database.prepare(
    `INSERT INTO ${name} (subject, id, ${column}) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
  );
  const find = database.prepare(`SELECT ${column} AS text FROM ${name} WHERE subject = ? AND id = ?`);
  const replace = database.prepare(`UPDATE ${name} SET ${column} = ? WHERE subject = ? AND id = ?`);
  const remove = database.prepare(`DELETE FROM ${name} WHERE subject = ? AND id = ?`);
  return (write) => {
    const { subject, id, when, text } = write;
    // Most writes are creates and deletes, which need a single statement.
    if (when === 'absent' && insert.run(subject, id, text).changes > 0) return 'inserted';
    if (when !== 'equals' && text === null)
      return remove.run(subject, id).changes > 0 ? 'deleted' : 'missing';
    const stored = (find.get(subject, id) as { text: string } | undefined)?.text;
    if (stored === undefined) {
      if (when !== 'any') return 'missing';
      insert.run(subject, id, text);
      return 'inserted';
    }
    if (stored === text) return 'same';
    if (when === 'absent' || (when === 'equals' && stored !== write.expected)) return 'other';
    if (text === null) {
      remove.run(subject, id);
      return 'deleted';
    }
    replace.run(text, subject, id);
    return 'replaced';
  };
}

if (!isMainThread && parentPort !== null) await serve(parentPort, workerData as WriterData);
