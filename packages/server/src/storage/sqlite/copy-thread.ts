// The thread that copies a database and checks the copy, so that signals are handled meanwhile.
import { workerData } from 'node:worker_threads';
import { DatabaseSync } from '@photostructure/sqlite';
import { existing } from './files.js';

const [source, target] = workerData as [string, string];
const database = new DatabaseSync(source, { timeout: 5_000, readOnly: true });
// SQLite's backup interface would restart whenever another process writes, and so never finish while a server is busy.
// If a signal has just removed the file, SQLite must not make it again.
database.prepare('VACUUM INTO ?').run(existing(target));
database.close();
// VACUUM also copies documents whose ends are damaged, and the copy then has no damaged page.
for (const path of [source, target]) {
  const checked = new DatabaseSync(path, { timeout: 5_000, readOnly: true });
  const row = checked.prepare('PRAGMA integrity_check(1)').get() as { integrity_check: string };
  checked.close();
  if (row.integrity_check !== 'ok')
    throw new Error(`database disk image is malformed: ${row.integrity_check}`);
}
