// The thread that owns SQLite's writing connection: every fsync and every checkpoint happens here.
import { DatabaseSync } from '@photostructure/sqlite';
import { isMainThread, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { messageOf } from '../../domain/storage.js';
import { watchFiles } from './database.js';
import { outcomeCode, plantOf, type PlantWriteKind } from '../plant-writes.js';
import { unpackBatch, type BatchResult, type PackedBatch } from './batch.js';

/** What the thread is started with. */
export interface WriterData {
  file: string;
  synchronous: 'FULL' | 'OFF';
}

/** The thread's first message, once it has its connection: how that writes, as SQLite itself reports it. */
export interface WriterReady {
  synchronous: number | undefined;
  journal: string;
}

/** A batch to commit, or the order to end. */
export type WriterRequest = PackedBatch | 'close';

/** What became of the batches that were committed together, in the order in which they came. */
export interface WriterReply {
  results: readonly BatchResult[];
  /** How many writes they had. */
  rows: number;
  /** How long the commit took. */
  seconds: number;
}

if (!isMainThread && parentPort !== null) serve(parentPort, workerData as WriterData);

function serve(port: NonNullable<typeof parentPort>, { file, synchronous }: WriterData): void {
  const database = new DatabaseSync(file, { timeout: 5_000 });
  database.exec(`PRAGMA synchronous = ${synchronous}`);
  const [level] = Object.values(database.prepare('PRAGMA synchronous').get() as Record<string, number>);
  const [journal] = Object.values(database.prepare('PRAGMA journal_mode').get() as Record<string, string>);
  // An acknowledged write is on the disk only with both of these, so they are read back rather than believed.
  if (journal !== 'wal' || (synchronous === 'FULL' && level !== 2)) {
    throw new Error(`the writer runs with journal_mode ${journal} and synchronous ${level}`);
  }
  const checkFiles = watchFiles(file);

  const insert = database.prepare(
    'INSERT INTO plants (subject, id, plant) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const compare = database.prepare('SELECT plant = ? AS same FROM plants WHERE subject = ? AND id = ?');
  const remove = database.prepare('DELETE FROM plants WHERE subject = ? AND id = ?');

  const commands: Record<PlantWriteKind, (subject: string, id: bigint, plant: string) => number> = {
    create(subject, id, plant) {
      if (insert.run(subject, id, plant).changes > 0) return outcomeCode('create', 'created');
      const { same } = compare.get(plant, subject, id) as { same: number };
      return outcomeCode('create', same === 1 ? 'identical' : 'different');
    },
    delete: (subject, id) =>
      outcomeCode('delete', remove.run(subject, id).changes > 0 ? 'deleted' : 'absent'),
  };

  const writeAll = (batch: PackedBatch): string =>
    unpackBatch(batch)
      .map((write) => commands[write.kind](write.subject, write.id, plantOf(write)))
      .join('');

  /** Commits batches in one transaction. */
  const commit = (batches: readonly PackedBatch[]): WriterReply => {
    const start = performance.now();
    let committing = false;
    let results: BatchResult[];
    try {
      // Immediate, so that waiting for another process's lock happens here, not in the middle of the transaction.
      database.exec('BEGIN IMMEDIATE');
      results = batches.map(writeAll);
      checkFiles();
      committing = true;
      database.exec('COMMIT');
    } catch (error) {
      // A failed COMMIT may have written its frames before it failed; a failure before it has done nothing.
      const failure = committing ? 'unknown-outcome' : 'unavailable';
      results = batches.map(() => ({ failure, message: `SQLite: ${messageOf(error)}` }));
      if (database.isTransaction) database.exec('ROLLBACK');
    }
    const rows = batches.reduce((sum, { kinds }) => sum + kinds.length, 0);
    return { results, rows, seconds: (performance.now() - start) / 1000 };
  };

  const close = () => {
    // A connection closes only when its statements are gone, and the file shall be whole now. Passive, since other
    // processes may be writing.
    database.exec('PRAGMA wal_checkpoint(PASSIVE)');
    database.close();
    port.close();
  };

  port.on('message', (first: WriterRequest) => {
    // Whatever has come meanwhile is committed with it: those who send it bound it.
    const batches: PackedBatch[] = [];
    let request: WriterRequest | undefined = first;
    while (request !== undefined && request !== 'close') {
      batches.push(request);
      request = (receiveMessageOnPort(port) as { message: WriterRequest } | undefined)?.message;
    }
    if (batches.length > 0) port.postMessage(commit(batches));
    if (request === 'close') close();
  });
  port.postMessage({ synchronous: level, journal } satisfies WriterReady);
}
