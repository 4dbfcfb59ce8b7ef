// The access tokens of PostgreSQL.
import type { Scope, Token, TokenRepository } from '../../domain/tokens.js';
import { begunInTime, type PostgresPool, type Row } from './pool.js';

const tokenColumns = 'id, subject, scopes, created_at, expires_at, revoked_at';

function toToken(row: Row): Token {
  const [id, subject, scopes, createdAt, expiresAt, revokedAt] = row as (string | null)[];
  return {
    id: id!,
    subject: subject!,
    scopes: scopes!.split(' ') as Scope[],
    createdAt: Number(createdAt),
    expiresAt: expiresAt == null ? undefined : Number(expiresAt),
    revokedAt: revokedAt == null ? undefined : Number(revokedAt),
  };
}

export class PostgresTokens implements TokenRepository {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    const { id, subject, scopes, createdAt, expiresAt, revokedAt } = token;
    await this.#pool.write(
      `INSERT INTO tokens (${tokenColumns}, hash) SELECT $2, $3, $4, $5::bigint, $6::bigint, $7::bigint, $8::bytea
       WHERE ${begunInTime}`,
      [id, subject, scopes.join(' '), createdAt, expiresAt, revokedAt, hash],
    );
  }

  async find(hash: Uint8Array): Promise<Token | undefined> {
    const [row] = await this.#pool.read(`SELECT ${tokenColumns} FROM tokens WHERE hash = $1`, [hash]);
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<Token[]> {
    return (
      await this.#pool.read(`SELECT ${tokenColumns} FROM tokens ORDER BY created_at, id COLLATE "C"`)
    ).map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    const rows = await this.#pool.write(
      `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2::bigint) WHERE id = $3 AND ${begunInTime} RETURNING id`,
      [at, id],
    );
    return rows.length > 0;
  }
}
