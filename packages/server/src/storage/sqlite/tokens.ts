// The access tokens of the SQLite engine.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { GroupCommit } from '../core/group-commit.js';
import { type Outcome, StorageError, type StoredToken, type TokenRepository } from '../core/interface.js';
import {
  copiedTogether,
  isSameToken,
  keptFor,
  listedTogether,
  listInPages,
  prunedTogether,
  tokenColumns,
  toStoredToken,
  toToken,
  toTokenRow,
} from '../core/token-row.js';
import { type IssuedRow, issuing, revoking } from '../core/token-writes.js';
import type { Write } from '../core/writes.js';
import { inTransaction } from './database.js';
import { isDamage, withStorageErrors } from './failures.js';
import { prepareRows } from './reads.js';

const insertText = `INSERT INTO tokens (${tokenColumns}, hash, prune_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
/** Tokens of operators have no `prune_at`, and get none. */
const revokeText =
  'UPDATE tokens SET revoked_at = coalesce(revoked_at, ?), prune_at = min(prune_at, ?) WHERE id = ?';
/** The number of tokens that the command deletes in one commit, so that the server does not wait long. */
const prunedByCommand = 1_000;

/** The columns of `toStoredToken`. */
const storedTokenColumns = `${tokenColumns}, lower(hex(hash)), prune_at`;

/**
 * Prepares the function that reads tokens, as `TokenRepository.stored`. @throws Error of SQLite, as does the function.
 */
export function storedTokenReader(database: DatabaseSyncInstance): (after: string) => StoredToken[] {
  const statement = prepareRows(
    database,
    `SELECT ${storedTokenColumns} FROM tokens WHERE id > ? ORDER BY id LIMIT ?`,
  );
  return (after) => {
    const tokens: StoredToken[] = [];
    try {
      for (const row of statement.iterate(after, copiedTogether))
        tokens.push(toStoredToken(row as unknown[]));
    } catch (error) {
      if (tokens.length === 0 || !isDamage(error)) throw error;
    }
    return tokens;
  };
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/**
 * Opens the tokens in a database. The caller must keep a reference to it, since its statements do not keep it open.
 * @param groupCommit - Takes the writes of handlers.
 */
export function openSqliteTokens(database: DatabaseSyncInstance, groupCommit: GroupCommit): TokenRepository {
  const file = database.location() ?? '';
  const prepare = (text: string) => prepareRows(database, text);
  /** Runs the writes of a command. */
  const write = <T>(run: () => T) => withStorageErrors(file, () => inTransaction(database, run));
  const insert = database.prepare(insertText);
  const insertStored = database.prepare(`${insertText} ON CONFLICT DO NOTHING`);
  const selectStored = storedTokenReader(database);
  const findById = prepare(`SELECT ${storedTokenColumns} FROM tokens WHERE id = ?`);
  const findOne = prepare(`SELECT ${tokenColumns} FROM tokens WHERE hash = ?`);
  const valid = (condition: string) =>
    `SELECT * FROM (SELECT ${tokenColumns} FROM tokens
     WHERE subject = ? AND revoked_at IS NULL AND ${condition} LIMIT ${listedTogether})`;
  const selectValid = prepare(
    `${valid('expires_at IS NULL')} UNION ALL ${valid('expires_at > ? ORDER BY expires_at DESC')}
     ORDER BY created_at, id LIMIT ${listedTogether}`,
  );
  const selectPage = prepare(
    `SELECT ${tokenColumns} FROM tokens WHERE subject = coalesce(?, subject) AND (created_at, id) > (?, ?)
     ORDER BY created_at, id LIMIT ?`,
  );
  const revokeOne = prepare(`${revokeText} RETURNING ${tokenColumns}`);
  const removeEnded = database.prepare(
    `DELETE FROM tokens WHERE rowid IN (
       SELECT rowid FROM tokens WHERE revoked_at IS NOT NULL OR expires_at <= ? LIMIT ${prunedByCommand})`,
  );
  return {
    async find(hashes) {
      const rows = withStorageErrors(file, () => hashes.map((hash): unknown => findOne.get(hash)));
      return rows.map((row) => (row === undefined ? undefined : toToken(row as unknown[])));
    },
    async issue(token, hash) {
      const outcome = await groupCommit.write(issuing(token, hash));
      if (outcome !== 'inserted')
        throw new StorageError('unavailable', 'SQLite: the id of the token is taken');
    },
    async listOf(subject, now) {
      return withStorageErrors(file, () => selectValid.all(subject, subject, now) as unknown[][]).map(
        toToken,
      );
    },
    async revokeOf(subject, id) {
      return (await groupCommit.write(revoking(subject, id))) === 'deleted';
    },
    async create(token, hash) {
      write(() => insert.run(...toTokenRow(token), hash, null));
    },
    list(subject) {
      return listInPages(async (...after) => {
        const rows = withStorageErrors(file, () => selectPage.all(subject ?? null, ...after) as unknown[][]);
        return rows.map(toToken);
      });
    },
    async revoke(id, at) {
      const row = write(() => revokeOne.get(at, at + keptFor, id) as unknown[] | undefined);
      return row && toToken(row);
    },
    async prune(at) {
      let total = 0;
      for (let deleted = 1; deleted > 0; total += deleted) deleted = write(() => removeEnded.run(at).changes);
      return total;
    },
    async stored(after) {
      return withStorageErrors(file, () => selectStored(after));
    },
    async copy(tokens) {
      return write(() =>
        tokens.map((token) => {
          const hash = Buffer.from(token.hash, 'hex');
          const { changes } = insertStored.run(...toTokenRow(token), hash, token.keptUntil ?? null);
          if (changes > 0) return 'inserted';
          const present = findById.get(token.id) as unknown[] | undefined;
          return present !== undefined && isSameToken(toStoredToken(present), token) ? 'same' : 'other';
        }),
      );
    },
  };
}
/* eslint-enable @typescript-eslint/require-await */

/** Returns the function that makes the writes of `token-writes.ts`, in the transaction that is open. */
export function prepareTokenWrites(database: DatabaseSyncInstance): (write: Write) => Outcome {
  const insert = database.prepare(`${insertText} ON CONFLICT DO NOTHING`);
  const revoke = database.prepare(`${revokeText} AND subject = ?`);
  const prune = database.prepare(
    `DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens
     WHERE prune_at <= ? ORDER BY prune_at LIMIT ${prunedTogether})`,
  );
  return ({ subject, id, text }) => {
    const now = Date.now();
    if (text === null) return revoke.run(now, now + keptFor, id, subject).changes > 0 ? 'deleted' : 'missing';
    prune.run(now);
    const { columns, hash, pruneAt } = JSON.parse(text) as IssuedRow;
    const { changes } = insert.run(...columns, Buffer.from(hash, 'base64'), pruneAt);
    return changes > 0 ? 'inserted' : 'other';
  };
}
