// The peers' store: the Plant Store's SQLite driver, with durable commits, used as its documentation shows.
// Tokens are in memory, so that looking them up costs a peer nothing.
import { DatabaseSync } from '@photostructure/sqlite';

/** Opens the store in DATABASE_URL. A subject's token is its name. */
export function openStore() {
  const database = new DatabaseSync(process.env.DATABASE_URL);
  database.exec('PRAGMA synchronous = FULL');
  const insert = database.prepare('INSERT INTO plants VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING');
  const select = database.prepare('SELECT name, tag FROM plants WHERE subject = ? ORDER BY id LIMIT ?');
  const remove = database.prepare('DELETE FROM plants WHERE subject = ? AND id = ?');
  const rows = database.prepare('SELECT DISTINCT subject FROM plants').all();
  const subjects = new Set(rows.map(({ subject }) => subject));
  return {
    // Its statements end with it.
    database,
    subjectOf: (token) => (subjects.has(token) ? token : undefined),
    create: (subject, { id, name, tag }) => insert.run(subject, id, name, tag ?? null).changes === 1,
    list: (subject, limit = -1) =>
      select.all(subject, limit).map(({ name, tag }) => (tag === null ? { name } : { name, tag })),
    delete: (subject, id) => remove.run(subject, id).changes === 1,
  };
}
