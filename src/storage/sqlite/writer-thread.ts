// The worker thread that owns SQLite's writing connection: every fsync and every checkpoint happens here.
import { DatabaseSync } from '@photostructure/sqlite';
import { parentPort, workerData, isMainThread } from 'node:worker_threads';
import type { StorageFailure } from '../../domain/storage.js';
import type { WriteOutcome } from '../group-writer.js';

/** What the worker is started with. */
export interface WriterData {
  file: string;
  synchronous: 'FULL' | 'OFF';
}

/** What the worker says once it has its connection: what SQLite itself tells of how that one writes. */
export interface WriterReady {
  synchronous: number | undefined;
  journal: string;
}

/** Stands between the texts of a request: no text that is stored has it. */
export const separator = '\u0000';

/**
 * A batch of writes, column by column (no plant is a delete); or the word to end. The texts of a column come as one: cloning
 * them one by one for the other thread took a sixth of what the server gets done.
 */
export type WriterRequest = { subjects: string; ids: BigInt64Array; plants: string } | 'close';

/** The outcomes, as indexes into `writeOutcomes`; or why there are none. */
export type WriterReply = Uint8Array | { failure: StorageFailure; message: string };

/** The outcomes by their codes in a reply. */
export const writeOutcomes: readonly WriteOutcome[] = [
  'created',
  'identical',
  'different',
  'deleted',
  'absent',
];

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

  const insert = database.prepare(
    'INSERT INTO plants (subject, id, plant) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const compare = database.prepare('SELECT plant = ? AS same FROM plants WHERE subject = ? AND id = ?');
  const remove = database.prepare('DELETE FROM plants WHERE subject = ? AND id = ?');

  const write = (subject: string, id: bigint, plant: string): WriteOutcome => {
    if (plant === '') return remove.run(subject, id).changes > 0 ? 'deleted' : 'absent';
    if (insert.run(subject, id, plant).changes > 0) return 'created';
    return (compare.get(plant, subject, id) as { same: number }).same === 1 ? 'identical' : 'different';
  };

  port.on('message', (request: WriterRequest) => {
    if (request === 'close') {
      // A connection closes only when its statements are gone; the file shall be whole now. Passive, as others may be writing.
      database.exec('PRAGMA wal_checkpoint(PASSIVE)');
      database.close();
      port.close();
      return;
    }
    const { ids } = request;
    const subjects = request.subjects.split(separator);
    const plants = request.plants.split(separator);
    let committing = false;
    let reply: WriterReply;
    try {
      // Immediate, so that waiting for another process's lock happens here, not in the middle of the transaction.
      database.exec('BEGIN IMMEDIATE');
      reply = Uint8Array.from(subjects, (subject, i) =>
        writeOutcomes.indexOf(write(subject, ids[i]!, plants[i]!)),
      );
      committing = true;
      database.exec('COMMIT');
    } catch (error) {
      // A failed COMMIT may have written its frames before it failed; a failure before it has done nothing.
      reply = { failure: committing ? 'unknown-outcome' : 'unavailable', message: (error as Error).message };
      if (database.isTransaction) database.exec('ROLLBACK');
    }
    port.postMessage(reply);
  });
  port.postMessage({ synchronous: level, journal } satisfies WriterReady);
}
