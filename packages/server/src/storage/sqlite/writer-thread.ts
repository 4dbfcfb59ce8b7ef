// The thread that owns the connection for writes of documents, and of tokens by handlers: it receives batches, of its own process and of workers,
// syncs them, and runs all checkpoints.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { oncePerIteration } from '../../once-per-iteration.js';
import { type CollectionDefinition, type Id, messageOf, type Outcome } from '../interface.js';
import { outcomeOf, type Write } from '../writes.js';
import {
  asTransaction,
  packDecision,
  Packer,
  packResults,
  refused,
  type PackedBatch,
  type PackedResults,
  type Reply,
  type Required,
} from './packed-batches.js';
import { closeWithCheckpoint, inTransaction } from './database.js';
import { describeError, isFull } from './failures.js';
import { SpaceReserve, spaceMeter } from './free-space.js';
import { checkFiles, existing, type StoreFile } from './files.js';
import { lineOf, onLine, openSocketPath, parseRequest, type Greeting } from './writer-protocol.js';
import { tokenDocuments } from '../token-writes.js';
import { prepareTokenWrites } from './tokens.js';
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

/** A batch or a transaction to commit, or the request to exit. */
export type WriterRequest = PackedBatch | 'close';

/** Takes a request, and replies once it is committed, in the order of the requests. @throws Error when it is invalid. */
type Receive = (request: PackedBatch, reply: (reply: Reply) => void) => void;

/** The writes of a batch or of a transaction, and what to call when they are committed. */
interface WaitingBatch {
  readonly writes: readonly Write[];
  /** What must hold so that any of them is made, if they are a transaction. */
  readonly required?: readonly Required[];
  readonly reply: (reply: Reply) => void;
}

async function serve(
  port: NonNullable<typeof parentPort>,
  { file, files, collections, reserve, workers }: WriterData,
): Promise<void> {
  const { database, ...settings } = openForWriting(file);
  checkFiles(files);
  const packer = new Packer(collections);
  const space = new SpaceReserve(spaceMeter(database, file, reserve));
  const committer = new BatchCommitter(database, files, collections, space);
  const receive: Receive = (request, reply) => {
    const writes = packer.unpack(request);
    committer.add(request.isTransaction ? { ...asTransaction(writes), reply } : { writes, reply });
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
      receive(parseRequest(line), (reply) => {
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
function openForWriting(file: string) {
  const database = new DatabaseSync(existing(file), { timeout: 5_000 });
  database.exec('PRAGMA synchronous = FULL');
  const [synchronous] = Object.values(database.prepare('PRAGMA synchronous').get() as Record<string, number>);
  const [journal] = Object.values(database.prepare('PRAGMA journal_mode').get() as Record<string, string>);
  if (journal !== 'wal' || synchronous !== 2) {
    throw new Error(`the writer runs with journal_mode ${journal} and synchronous ${synchronous}`);
  }
  return { database, synchronous, journal };
}

/** Commits batches and transactions, all that wait in one transaction of SQLite. The senders limit how many there are. */
export class BatchCommitter {
  readonly #database: DatabaseSyncInstance;
  readonly #space: SpaceReserve;
  readonly #files: readonly StoreFile[];
  readonly #tables: ReadonlyMap<CollectionDefinition, Table>;
  readonly #makeToken: (write: Write) => Outcome;
  #waiting: WaitingBatch[] = [];
  readonly #commitSoon = oncePerIteration(() => {
    this.commit();
  });

  constructor(
    database: DatabaseSyncInstance,
    files: readonly StoreFile[],
    collections: readonly CollectionDefinition[],
    space: SpaceReserve,
  ) {
    this.#database = database;
    this.#space = space;
    this.#files = files;
    this.#tables = new Map(collections.map((one) => [one, tableOf(database, one)]));
    this.#makeToken = prepareTokenWrites(database);
  }

  /** Adds a batch, and commits it with those of all processes that have arrived. */
  add(batch: WaitingBatch): void {
    this.#waiting.push(batch);
    this.#commitSoon();
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
      // One of them has the commit, unless there were only checks.
      const commit = i === 0 && rows > 0 ? { rows, seconds } : undefined;
      reply({ result: results[i] as PackedResults, commit });
    }
  }

  #run(batches: readonly WaitingBatch[]): PackedResults[] {
    // What makes space goes on.
    const refuses = this.#space.isShortFor(batches.map(({ writes }) => writes))
      ? ({ text }: Write) => text !== null
      : () => false;
    const tableOf = (collection: CollectionDefinition) => this.#tables.get(collection) as Table;
    const make = (write: Write) =>
      write.collection === tokenDocuments ? this.#makeToken(write) : tableOf(write.collection).make(write);
    const find = ({ collection, subject, id }: Required) => tableOf(collection).find(subject, id);
    const run = ({ writes, required }: WaitingBatch) => {
      if (required === undefined)
        return packResults(writes, (write) => (refuses(write) ? refused : make(write)));
      return writes.some(refuses) ? refused : packDecision({ required, writes }, find, make);
    };
    const isRefused = ({ writes, required }: WaitingBatch) =>
      required === undefined ? writes.every(refuses) : writes.some(refuses);
    if (batches.every(isRefused)) return batches.map(run);
    let committing = false as boolean;
    try {
      return inTransaction(this.#database, () => {
        const results = batches.map(run);
        checkFiles(this.#files);
        committing = true;
        return results;
      });
    } catch (error) {
      if (isFull(error)) this.#space.wasFull();
      // A failed COMMIT may have taken effect, unless the log had no space for all of it. An earlier failure has none.
      const failure = committing && !isFull(error) ? 'unknown-outcome' : 'unavailable';
      return batches.map(() => ({ failure, message: describeError(error) }));
    }
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

if (!isMainThread && parentPort !== null) await serve(parentPort, workerData as WriterData);
