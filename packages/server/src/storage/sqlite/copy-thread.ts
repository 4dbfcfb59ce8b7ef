// A thread that copies or checks a database, so that signals can end its process meanwhile.
import { workerData } from 'node:worker_threads';
import { DatabaseSync } from '@photostructure/sqlite';
import { SQLITE_CORRUPT } from './failures.js';

/** The worker data of the thread. */
export interface CopyTask {
  /** The path or URI of the database. */
  readonly source: string;
  /** The path of the copy, an empty file; if undefined, the database is checked. */
  readonly target?: string;
}

const { source, target } = workerData as CopyTask;
const database = new DatabaseSync(source, { timeout: 5_000, readOnly: true });
try {
  if (target === undefined) {
    const [row] = database.prepare('PRAGMA integrity_check(1)').all() as { integrity_check: string }[];
    if (row?.integrity_check !== 'ok')
      throw Object.assign(new Error(`database disk image is malformed: ${row?.integrity_check}`), {
        errcode: SQLITE_CORRUPT,
      });
  } else {
    database.prepare('VACUUM INTO ?').run(target);
  }
} finally {
  database.close();
}
