// The access tokens of the embedded engine.
import type { DatabaseSyncInstance, StatementSyncInstance } from '@photostructure/sqlite';
import type { Scope, Token, TokenRepository } from '../../domain/tokens.js';
import { guard } from './database.js';

interface TokenRow {
  id: string;
  subject: string;
  scopes: string;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
}

function toToken(row: TokenRow): Token {
  return {
    id: row.id,
    subject: row.subject,
    scopes: row.scopes.split(' ') as Scope[],
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}

/* eslint-disable @typescript-eslint/require-await -- the interface is asynchronous, SQLite is not */
export class SqliteTokens implements TokenRepository {
  readonly #insert: StatementSyncInstance;
  readonly #find: StatementSyncInstance;
  readonly #list: StatementSyncInstance;
  readonly #revoke: StatementSyncInstance;

  constructor(database: DatabaseSyncInstance) {
    const columns = 'id, subject, scopes, created_at, expires_at, revoked_at';
    this.#insert = database.prepare(`INSERT INTO tokens (${columns}, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`);
    this.#find = database.prepare(`SELECT ${columns} FROM tokens WHERE hash = ?`);
    this.#list = database.prepare(`SELECT ${columns} FROM tokens ORDER BY created_at, id`);
    this.#revoke = database.prepare('UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?');
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    const { id, subject, scopes, createdAt, expiresAt = null, revokedAt = null } = token;
    guard(() => this.#insert.run(id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash));
  }

  async find(hash: Uint8Array): Promise<Token | undefined> {
    const row = guard(() => this.#find.get(hash) as TokenRow | undefined);
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<Token[]> {
    return guard(() => this.#list.all() as TokenRow[]).map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    return guard(() => this.#revoke.run(at, id)).changes > 0;
  }
}
/* eslint-enable @typescript-eslint/require-await */
