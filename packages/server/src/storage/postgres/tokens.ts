// The access tokens of the PostgreSQL engine.
import { AsyncResource } from 'node:async_hooks';
import type { Token, TokenRepository } from '../interface.js';
import { tokenColumns, toToken, toTokenRow } from '../token-row.js';
import { isolateFailures } from './failures.js';
import type { StatementRunner } from './statement-runner.js';
import { withPrivilege } from './privileges.js';
import type { Row } from './query.js';
import { begunInTime } from './statements.js';

/** A call of `find` that waits for the others of the same iteration of the event loop. */
interface Lookup {
  readonly hashes: readonly Uint8Array[];
  readonly resolve: (tokens: (Token | undefined)[]) => void;
  readonly reject: (error: unknown) => void;
}

/** The tokens in the database. */
export class PostgresTokens implements TokenRepository {
  readonly #runner: StatementRunner;
  #waiting: Lookup[] = [];
  /** Without this, a statement for several requests would belong to the trace of the first one. */
  readonly #ownContext = new AsyncResource('PostgresTokens');

  constructor(runner: StatementRunner) {
    this.#runner = runner;
  }

  async create(token: Token, hash: Uint8Array): Promise<void> {
    await this.#write(
      'INSERT',
      `INSERT INTO tokens (${tokenColumns}, hash) SELECT $2, $3, $4, $5::bigint, $6::bigint, $7::bigint, $8::bytea
       WHERE ${begunInTime}`,
      [...toTokenRow(token), hash],
    );
  }

  find(hashes: readonly Uint8Array[]): Promise<(Token | undefined)[]> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ hashes, resolve, reject }) > 1) return;
      this.#ownContext.runInAsyncScope(() => {
        setImmediate(() => void this.#findWaiting());
      });
    });
  }

  /** Looks up the tokens of one iteration. */
  async #findWaiting(): Promise<void> {
    const lookups = this.#waiting;
    this.#waiting = [];
    await isolateFailures(lookups, this.#findTogether, ({ reject }, error) => {
      reject(error);
    });
  }

  /** Looks up tokens in one statement, whose fixed cost is far higher than that of a token. */
  readonly #findTogether = async (lookups: readonly Lookup[]): Promise<void> => {
    const rows = await this.#runner.read(
      `SELECT encode(hash, 'hex'), ${tokenColumns} FROM tokens WHERE hash = ANY ($1::bytea[])`,
      [lookups.flatMap(({ hashes }) => hashes)],
    );
    const found = new Map(rows.map(([hash, ...columns]) => [hash, toToken(columns)]));
    for (const { hashes, resolve } of lookups) {
      resolve(hashes.map((hash) => found.get(Buffer.from(hash).toString('hex'))));
    }
  };

  async list(): Promise<Token[]> {
    const rows = await this.#runner.read(
      `SELECT ${tokenColumns} FROM tokens ORDER BY created_at, id COLLATE "C"`,
    );
    return rows.map(toToken);
  }

  async revoke(id: string, at: number): Promise<boolean> {
    const rows = await this.#write(
      'UPDATE',
      `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2::bigint) WHERE id = $3 AND ${begunInTime} RETURNING id`,
      [at, id],
    );
    return rows.length > 0;
  }

  async prune(at: number): Promise<number> {
    const rows = await this.#write(
      'DELETE',
      `DELETE FROM tokens WHERE (revoked_at IS NOT NULL OR expires_at <= $2::bigint) AND ${begunInTime} RETURNING id`,
      [at],
    );
    return rows.length;
  }

  #write(
    privilege: 'INSERT' | 'UPDATE' | 'DELETE',
    text: string,
    values: readonly unknown[],
  ): Promise<Row[]> {
    return withPrivilege(this.#runner, ['tokens', privilege], () => this.#runner.write(text, values));
  }
}
