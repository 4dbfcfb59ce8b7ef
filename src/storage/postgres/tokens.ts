// The access tokens of the PostgreSQL engine.
import type { Token, TokenRepository } from '../../domain/tokens.js';
import { tokenColumns, toToken, toTokenRow } from '../token-row.js';
import { begunInTime, type PostgresPool } from './pool.js';

/** The tokens in the database of a pool. */
export class PostgresTokens implements TokenRepository {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    await this.#pool.write(
      `INSERT INTO tokens (${tokenColumns}, hash) SELECT $2, $3, $4, $5::bigint, $6::bigint, $7::bigint, $8::bytea
       WHERE ${begunInTime}`,
      [...toTokenRow(token), hash],
    );
  }

  async find(hash: Uint8Array): Promise<Token | undefined> {
    const [row] = await this.#pool.read(`SELECT ${tokenColumns} FROM tokens WHERE hash = $1`, [hash]);
    return row === undefined ? undefined : toToken(row);
  }

  async list(): Promise<Token[]> {
    const rows = await this.#pool.read(
      `SELECT ${tokenColumns} FROM tokens ORDER BY created_at, id COLLATE "C"`,
    );
    return rows.map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    const rows = await this.#pool.write(
      `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2::bigint) WHERE id = $3 AND ${begunInTime} RETURNING id`,
      [at, id],
    );
    return rows.length > 0;
  }

  async prune(at: number): Promise<number> {
    const rows = await this.#pool.write(
      `DELETE FROM tokens WHERE (revoked_at IS NOT NULL OR expires_at <= $2::bigint) AND ${begunInTime} RETURNING id`,
      [at],
    );
    return rows.length;
  }
}
