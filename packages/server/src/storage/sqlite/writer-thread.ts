// The thread that owns the connection for writes of documents: it receives batches, of its own process and of workers,
// syncs them, and runs all checkpoints.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { type CollectionDefinition, messageOf, type Outcome } from '../interface.js';
import type { Write } from '../writes.js';
import {
  Packer,
  packResults,
  refused,
  type PackedBatch,
  type PackedResults,
  type Reply,
} from './packed-batches.js';
import { closeWithCheckpoint, describeError, isFull } from './database.js';
import { SpaceReserve, spaceMeter } from './free-space.js';
import { checkFiles, existing, type StoreFile } from './files.js';
import { lineOf, onLine, openSocketPath, parseBatch, type Greeting } from './writer-protocol.js';
import { linkFiles, type WorkerFolder } from './worker-folder.js';

/** How workers reach the thread. */
interface WorkerAccess extends Pick<WorkerFolder, 'socket' | 'database'> {
  /** The maximum length of a line from a worker, in characters. */
  readonly maxLineLength: number;
}

/** The worker data of the thread. */
export interface WriterData {
  file: string;
  /** The files of the store, which must be those that the thread opens. */
  files: readonly StoreFile[];
  synchronous: 'FULL' | 'OFF';
  collections: readonly CollectionDefinition[];
  /** The free space that creates and replacements leave on the disk, in bytes. */
  reserve?: number | undefined;
  /** Where the thread also receives the batches of other processes. */
  workers?: WorkerAccess | undefined;
}

/** The first message of the thread, when its connection is open, with the settings that SQLite reports. */
interface WriterReady {
  synchronous: number | undefined;
  journal: string;
}

/** A batch to commit, or the request to exit. */
export type WriterRequest = PackedBatch | 'close';

/** Takes a batch, and replies once it is committed, in the order of the batches. @throws Error when it is invalid. */
type Receive = (batch: PackedBatch, reply: (reply: Reply) => void) => void;

/** The writes of a batch, and what to call when they are committed. */
interface WaitingBatch {
  readonly writes: readonly Write[];
  readonly reply: (reply: Reply) => void;
}

async function serve(
  port: NonNullable<typeof parentPort>,
  { file, files, synchronous, collections, reserve, workers }: WriterData,
): Promise<void> {
  const { database, ...settings } = openForWriting(file, synchronous);
  checkFiles(files);
  const packer = new Packer(collections);
  const space = new SpaceReserve(spaceMeter(database, file, reserve));
  const committer = new BatchCommitter(database, files, collections, space);
  const receive: Receive = (batch, reply) => {
    committer.add({ writes: packer.unpack(batch), reply });
  };
  const stopReceiving =
    workers &&
    (await receiveFromWorkers(
      workers.socket,
      { files: linkFiles(files, workers.database), maxLineLength: workers.maxLineLength },
      receive,
    ));
  port.on('message', (request: WriterRequest) => {
    if (request !== 'close') {
      receive(request, (reply) => {
        port.postMessage(reply);
      });
      return;
    }
    committer.commit();
    closeWithCheckpoint(database);
    stopReceiving?.();
    port.close();
  });
  port.postMessage(settings satisfies WriterReady);
}

/**
 * Receives the batches of other processes. A batch that has arrived is committed even if its sender dies; a line that
 * is not a batch closes its connection. Does not keep the thread alive.
 * @param path - The path of a Unix domain socket, or on Windows of a named pipe.
 * @param greeting - The first message to each process.
 * @returns A function that stops listening.
 * @throws Error when it cannot listen.
 */
async function receiveFromWorkers(path: string, greeting: Greeting, receive: Receive): Promise<() => void> {
  const server = createServer((socket) => {
    // A worker that has died needs no reply.
    socket.on('error', () => undefined);
    socket.unref();
    socket.write(lineOf(greeting));
    onLine(socket, greeting.maxLineLength, (line) => {
      receive(parseBatch(line), (reply) => {
        if (socket.writable) socket.write(lineOf(reply));
      });
    });
  });
  const { address, release } = openSocketPath(path);
  try {
    await once(server.listen(address), 'listening');
  } catch (error) {
    release();
    throw new Error(`${path}, the socket for workers: ${messageOf(error)}`, { cause: error });
  }
  // For lack of a descriptor, a connection was not accepted. It waits, without a greeting, and is tried again.
  server.on('error', () => undefined);
  server.unref();
  return () => {
    // Closing removes the socket by its address, so the address must be valid until then.
    server.close();
    release();
  };
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
export class BatchCommitter {
  readonly #database: DatabaseSyncInstance;
  readonly #space: SpaceReserve;
  readonly #files: readonly StoreFile[];
  readonly #writers: ReadonlyMap<CollectionDefinition, (write: Write) => Outcome>;
  #waiting: WaitingBatch[] = [];

  constructor(
    database: DatabaseSyncInstance,
    files: readonly StoreFile[],
    collections: readonly CollectionDefinition[],
    space: SpaceReserve,
  ) {
    this.#database = database;
    this.#space = space;
    this.#files = files;
    this.#writers = new Map(collections.map((one) => [one, writerOf(database, one)]));
  }

  /** Adds a batch, and commits it with those of all processes that have arrived. */
  add(batch: WaitingBatch): void {
    if (this.#waiting.push(batch) > 1) return;
    setImmediate(() => {
      this.commit();
    });
  }

  /** Commits all batches that wait. */
  commit(): void {
    if (this.#waiting.length === 0) return;
    const start = performance.now();
    const committed = this.#waiting;
    this.#waiting = [];
    const results = this.#run(committed);
    const rows = committed.reduce((sum, { writes }) => sum + writes.length, 0);
    const seconds = (performance.now() - start) / 1000;
    for (const [i, { reply }] of committed.entries()) {
      // One of them has the commit.
      reply({ result: results[i] as PackedResults, commit: i === 0 ? { rows, seconds } : undefined });
    }
  }

  #run(batches: readonly WaitingBatch[]): PackedResults[] {
    const database = this.#database;
    const all = batches.map(({ writes }) => writes);
    // What makes space goes on.
    const refuses = this.#space.isShortFor(all) ? ({ text }: Write) => text !== null : () => false;
    const make = (write: Write) =>
      refuses(write) ? refused : (this.#writers.get(write.collection) as (write: Write) => Outcome)(write);
    if (all.every((writes) => writes.every(refuses))) return all.map((writes) => packResults(writes, make));
    let committing = false;
    try {
      // IMMEDIATE waits for the locks of other processes here, not in the middle of the transaction.
      database.exec('BEGIN IMMEDIATE');
      const results = all.map((writes) => packResults(writes, make));
      checkFiles(this.#files);
      committing = true;
      database.exec('COMMIT');
      return results;
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK');
      if (isFull(error)) this.#space.wasFull();
      // A failed COMMIT may have taken effect, unless the log had no space for all of it. An earlier failure has none.
      const failure = committing && !isFull(error) ? 'unknown-outcome' : 'unavailable';
      return batches.map(() => ({ failure, message: describeError(error) }));
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
