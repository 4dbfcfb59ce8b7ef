// The access tokens of the SQLite engine.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { Token, TokenRepository } from '../interface.js';
import { tokenColumns, toToken, toTokenRow } from '../token-row.js';
import { withStorageErrors } from './database.js';

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
/** The tokens in a database. The caller must keep a reference to it, since its statements do not keep it open. */
export class SqliteTokens implements TokenRepository {
  readonly #insert: StatementSyncInstance;
  readonly #find: StatementSyncInstance;
  readonly #list: StatementSyncInstance;
  readonly #revoke: StatementSyncInstance;
  readonly #prune: StatementSyncInstance;

  constructor(database: DatabaseSyncInstance) {
    this.#insert = database.prepare(
      `INSERT INTO tokens (${tokenColumns}, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#find = database.prepare(`SELECT ${tokenColumns} FROM tokens WHERE hash = ?`);
    this.#list = database.prepare(`SELECT ${tokenColumns} FROM tokens ORDER BY created_at, id`);
    this.#revoke = database.prepare('UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?');
    this.#prune = database.prepare('DELETE FROM tokens WHERE revoked_at IS NOT NULL OR expires_at <= ?');
    for (const statement of [this.#find, this.#list]) statement.setReturnArrays(true);
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    withStorageErrors(() => this.#insert.run(...toTokenRow(token), hash));
  }

  async find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]> {
    const rows = withStorageErrors(() => hashes.map((hash) => this.#find.get(hash) as unknown[] | undefined));
    return rows.map((row) => row && toToken(row));
  }

  async list(): Promise<Token[]> {
    return withStorageErrors(() => this.#list.all() as unknown[][]).map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    return withStorageErrors(() => this.#revoke.run(at, id)).changes > 0;
  }

  async prune(at: number): Promise<number> {
    return withStorageErrors(() => this.#prune.run(at)).changes;
  }
}
/* eslint-enable @typescript-eslint/require-await */
