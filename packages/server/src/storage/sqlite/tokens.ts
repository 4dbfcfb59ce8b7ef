// The access tokens of the SQLite engine.
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import type { GroupCommit } from '../core/group-commit.js';
import type { Outcome, Outcomes, Token, TokenRepository } from '../core/interface.js';
import {
  addition,
  listedTogether,
  prunedTogether,
  revoking,
  tokenColumns,
  type TokenRow,
  toToken,
  toTokenRow,
} from '../core/tokens.js';
import type { Write } from '../core/writes.js';
import { withStorageErrors } from './failures.js';
import { beforeDamage, prepareRows } from './reads.js';

const selectTokens = `SELECT ${tokenColumns.replace('hash', 'lower(hex(hash))')} FROM tokens`;

/** Reads tokens, as `TokenRepository.stored`. @throws Error of SQLite */
export function storedTokens(database: DatabaseSyncInstance, after: string, subject?: string): Token[] {
  const statement = prepareRows(
    database,
    `${selectTokens} WHERE id > ? AND subject = coalesce(?, subject) ORDER BY id LIMIT ${listedTogether}`,
  );
  return [...beforeDamage(statement.iterate(after, subject ?? null))].map(toToken);
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/**
 * Opens the tokens in a database. The caller must keep a reference to it, since its statements do not keep it open.
 * @param groupCommit - Takes the writes of handlers.
 */
export function openSqliteTokens(database: DatabaseSyncInstance, groupCommit: GroupCommit): TokenRepository {
  const file = database.location() ?? '';
  const call = <T>(run: () => T) => withStorageErrors(file, run);
  const findOne = prepareRows(database, `${selectTokens} WHERE hash = ?`);
  const selectValid = prepareRows(
    database,
    `${selectTokens} WHERE subject = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)
     ORDER BY created_at, id LIMIT ${listedTogether}`,
  );
  return {
    async find(hashes) {
      const rows = call(() => hashes.map((hash) => findOne.get(hash) as unknown[] | undefined));
      return rows.map((row) => row && toToken(row));
    },
    add: async (token) => (await groupCommit.write(addition(token))) as Outcomes['absent'],
    async listOf(subject, now) {
      return call(() => selectValid.all(subject, now) as unknown[][]).map(toToken);
    },
    revoke: async (id, subject) => (await groupCommit.write(revoking(id, subject))) === 'deleted',
    async stored(after, subject) {
      return call(() => storedTokens(database, after, subject));
    },
  };
}
/* eslint-enable @typescript-eslint/require-await */

/** Returns the function that makes the writes of tokens, in the transaction that is open. */
export function prepareTokenWrites(database: DatabaseSyncInstance): (write: Write) => Outcome {
  const insert = database.prepare(
    `INSERT INTO tokens (${tokenColumns}) VALUES (?, ?, ?, ?, ?, ?, unhex(?), ?) ON CONFLICT DO NOTHING`,
  );
  const findById = prepareRows(database, `${selectTokens} WHERE id = ?`);
  const revoke = database.prepare(
    `UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND subject = coalesce(nullif(?, ''), subject)`,
  );
  const prune = database.prepare(
    `DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens
     WHERE prune_at <= ? ORDER BY prune_at LIMIT ${prunedTogether})`,
  );
  return ({ subject, id, text }) => {
    const now = Date.now();
    if (text === null) return revoke.run(now, id, subject).changes > 0 ? 'deleted' : 'missing';
    prune.run(now);
    if (insert.run(...(JSON.parse(text) as TokenRow)).changes > 0) return 'inserted';
    const present = findById.get(id) as unknown[] | undefined;
    return present !== undefined && JSON.stringify(toTokenRow(toToken(present))) === text ? 'same' : 'other';
  };
}
