// The peers' store on PostgreSQL: its driver as its documentation shows, with a pool of 10 and prepared statements.
// Tokens are in memory, so that looking them up costs a peer nothing.
import { Pool } from 'pg';

/** Opens the store in DATABASE_URL. A subject's token is its name. */
export async function openStore() {
  const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
  const { rows } = await pool.query('SELECT DISTINCT subject FROM plants');
  const subjects = new Set(rows.map(({ subject }) => subject));
  const changesOne = async (name, text, values) => (await pool.query({ name, text, values })).rowCount === 1;
  return {
    subjectOf: (token) => (subjects.has(token) ? token : undefined),
    create: (subject, { id, name, tag }) =>
      changesOne('create', 'INSERT INTO plants VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING', [
        subject,
        id,
        name,
        tag,
      ]),
    list: async (subject, limit) => {
      const text = 'SELECT name, tag FROM plants WHERE subject = $1 ORDER BY id LIMIT $2';
      const { rows } = await pool.query({ name: 'list', text, values: [subject, limit] });
      return rows.map(({ name, tag }) => (tag === null ? { name } : { name, tag }));
    },
    delete: (subject, id) =>
      changesOne('delete', 'DELETE FROM plants WHERE subject = $1 AND id = $2', [subject, id]),
  };
}
