// The peers' store: the Plant Store's SQLite driver, with durable commits, used as its documentation shows.
// Tokens are in memory, so that looking them up costs a peer nothing.
import { DatabaseSync } from '@photostructure/sqlite';

/** @param {string} file */
function open(file) {
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS plants (
      subject TEXT NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, tag TEXT, PRIMARY KEY (subject, id)
    ) WITHOUT ROWID`);
  return database;
}

/** Opens the store in PLANTS_FILE. A subject's token is its name. */
export function openStore() {
  const database = open(process.env.PLANTS_FILE);
  const insert = database.prepare('INSERT INTO plants VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING');
  const select = database.prepare('SELECT name, tag FROM plants WHERE subject = ? ORDER BY id LIMIT ?');
  const remove = database.prepare('DELETE FROM plants WHERE subject = ? AND id = ?');
  const subjects = new Map();
  for (const { subject } of database.prepare('SELECT DISTINCT subject FROM plants').all()) {
    subjects.set(subject, subject);
  }
  return {
    database,
    subjectOf: (token) => subjects.get(token),
    create: (subject, { id, name, tag }) => insert.run(subject, id, name, tag ?? null).changes === 1,
    list: (subject, limit = -1) =>
      select.all(subject, limit).map(({ name, tag }) => (tag === null ? { name } : { name, tag })),
    delete: (subject, id) => remove.run(subject, id).changes === 1,
  };
}

/** Fills a new file. @param {string} file @param {Iterable<{ subject: string, plants: number }>} seed */
export function seedStore(file, seed) {
  const database = open(file);
  const insert = database.prepare('INSERT INTO plants VALUES (?, ?, ?, ?)');
  database.exec('BEGIN');
  for (const { subject, plants } of seed) {
    for (let id = 1; id <= plants; id++) insert.run(subject, -id, 'Monstera deliciosa', 'indoor');
  }
  database.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
}
