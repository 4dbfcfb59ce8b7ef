// The thread that owns SQLite's writing connection: every fsync and every checkpoint happens here.
import { DatabaseSync } from '@photostructure/sqlite';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { messageOf, type StorageFailure } from '../../domain/storage.js';
import { watchFiles } from './database.js';
import {
  outcomeCode,
  plantOf,
  plantWriteKinds,
  type PlantWrite,
  type PlantWriteKind,
} from '../plant-writes.js';

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

/** Separates the texts of a batch: no text that is stored has it. */
const separator = '\u0000';

/**
 * A batch of writes, column by column: the kinds as places in `plantWriteKinds`, and the texts of a column as one,
 * since cloning many texts for another thread is slow.
 */
export interface WriterBatch {
  kinds: Uint8Array;
  subjects: string;
  ids: BigInt64Array;
  plants: string;
}

/** A batch to commit, or the order to end. */
export type WriterRequest = WriterBatch | 'close';

/** The codes of a batch's outcomes, or why it has none. */
export type WriterReply = Uint8Array | { failure: StorageFailure; message: string };

/** Packs a batch for the thread. */
export function packBatch(batch: readonly PlantWrite[]): WriterBatch {
  return {
    kinds: Uint8Array.from(batch, ({ kind }) => plantWriteKinds.indexOf(kind)),
    subjects: batch.map(({ subject }) => subject).join(separator),
    ids: BigInt64Array.from(batch, ({ id }) => id),
    plants: batch.map(plantOf).join(separator),
  };
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

  const writeAll = (batch: WriterBatch): Uint8Array => {
    const subjects = batch.subjects.split(separator);
    const plants = batch.plants.split(separator);
    return Uint8Array.from(subjects, (subject, i) => {
      const kind = plantWriteKinds[batch.kinds[i] ?? -1];
      const id = batch.ids[i];
      const plant = plants[i];
      if (kind === undefined || id === undefined || plant === undefined)
        throw new Error('the batch is incomplete');
      return commands[kind](subject, id, plant);
    });
  };

  port.on('message', (request: WriterRequest) => {
    if (request === 'close') {
      // A connection closes only when its statements are gone, and the file shall be whole now. Passive, since other
      // processes may be writing.
      database.exec('PRAGMA wal_checkpoint(PASSIVE)');
      database.close();
      port.close();
      return;
    }
    let committing = false;
    let reply: WriterReply;
    try {
      // Immediate, so that waiting for another process's lock happens here, not in the middle of the transaction.
      database.exec('BEGIN IMMEDIATE');
      reply = writeAll(request);
      checkFiles();
      committing = true;
      database.exec('COMMIT');
    } catch (error) {
      // A failed COMMIT may have written its frames before it failed; a failure before it has done nothing.
      reply = { failure: committing ? 'unknown-outcome' : 'unavailable', message: messageOf(error) };
      if (database.isTransaction) database.exec('ROLLBACK');
    }
    port.postMessage(reply);
  });
  port.postMessage({ synchronous: level, journal } satisfies WriterReady);
}
