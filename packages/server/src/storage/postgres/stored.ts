// Reads documents with their keys, and copies tokens with their hashes, on PostgreSQL and Citus.
import type { StoredRange } from '../core/collections.js';
import { idRules } from '../core/ids.js';
import type {
  CollectionDefinition,
  DocumentKey,
  Id,
  Outcomes,
  StoredDocument,
  StoredToken,
} from '../core/interface.js';
import { pageBytes, pageRows } from '../core/page-size.js';
import {
  copiedTogether,
  isSameToken,
  tokenColumns,
  toStoredToken,
  toStoredTokenRow,
} from '../core/token-row.js';
import type { StatementRunner } from './connection/statement-runner.js';
import { idTypes } from './statements.js';

/** Reads the documents of a collection with their keys. @throws StorageError */
export interface StoredReader {
  readonly texts: (subject: string, ids: readonly Id[]) => Promise<(string | undefined)[]>;
  readonly stored: (subject: string, range: StoredRange) => Promise<StoredDocument[]>;
  readonly storedOfAll: (after: DocumentKey | undefined) => Promise<StoredDocument[]>;
}

/** A part of a collection: a condition, its values, and the direction of its order. */
interface Part {
  readonly condition: string;
  readonly values: readonly unknown[];
  readonly direction: 'ASC' | 'DESC';
}

/** All statements name one subject or all of them, so they suit Citus. */
export function storedReader(
  runner: StatementRunner,
  { name, column, id }: CollectionDefinition,
): StoredReader {
  const { parse } = idRules[id];
  const select = (columns: string, { condition, values, direction }: Part, limit: number) =>
    runner.read(
      // By the column: "id" alone would be the text that is selected.
      `SELECT subject, id::text, ${columns} FROM ${name} WHERE ${condition}
       ORDER BY subject ${direction}, ${name}.id ${direction} LIMIT ${limit}`,
      values,
    );
  /**
   * Reads the first documents of a part that fit into a page: first their lengths, since otherwise the server, and on Citus
   * each node, would send long documents of which most do not fit.
   * @param upTo - Returns the part up to a key.
   */
  const readFitting = async (part: Part, most: number, upTo: (subject: string, id: string) => Part) => {
    const lengths = await select(`octet_length(${column})`, part, most);
    let bytes = 0;
    let last: [subject: string, id: string] | undefined;
    for (const row of lengths) {
      const [subject, id, length] = row as [string, string, number];
      bytes += length;
      if (bytes > pageBytes && last !== undefined) break;
      last = [subject, id];
    }
    if (last === undefined) return [];
    const rows = await select(column, upTo(...last), most);
    return rows.map((row): StoredDocument => {
      const [subject, id, text] = row as [string, string, string];
      return { subject, id: parse(id), text };
    });
  };
  return {
    async texts(subject, ids) {
      const rows = await runner.read(
        `SELECT id::text, ${column} FROM ${name} WHERE subject = $1 AND id = ANY ($2::${idTypes[id]}[])`,
        [subject, ids.map(String)],
      );
      const texts = new Map(rows as [string, string][]);
      return ids.map((id) => texts.get(`${id}`));
    },
    stored(subject, { from, to, descending, limit }) {
      const direction = descending ? 'DESC' : 'ASC';
      const condition = 'subject = $1 AND id BETWEEN $2 AND $3';
      const part = (from: Id | string, to: Id | string): Part => ({
        condition,
        values: [subject, `${from}`, `${to}`],
        direction,
      });
      return readFitting(part(from, to), Math.min(limit, pageRows), (_subject, last) =>
        descending ? part(last, to) : part(from, last),
      );
    },
    storedOfAll(after) {
      const direction = 'ASC';
      const values = after === undefined ? [] : [after.subject, `${after.id}`];
      const condition = after === undefined ? 'true' : '(subject, id) > ($1, $2)';
      const end = `(subject, id) <= ($${values.length + 1}, $${values.length + 2})`;
      return readFitting({ condition, values, direction }, pageRows, (...last) => ({
        condition: `${condition} AND ${end}`,
        values: [...values, ...last],
        direction,
      }));
    },
  };
}

const storedColumns = `${tokenColumns}, encode(hash, 'hex'), prune_at`;
const selectStored = `SELECT ${storedColumns} FROM tokens WHERE id > $1 ORDER BY id LIMIT ${copiedTogether}`;
const selectById = `SELECT ${storedColumns} FROM tokens WHERE id = ANY ($1::text[])`;
const insertStored = `INSERT INTO tokens (${tokenColumns}, hash, prune_at)
  SELECT id, subject, scopes, created_at, expires_at, revoked_at, decode(hash, 'hex'), prune_at
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[])
    AS copied (id, subject, scopes, created_at, expires_at, revoked_at, hash, prune_at)
  ON CONFLICT DO NOTHING RETURNING id`;

/** Reads tokens as `TokenRepository.stored`. @throws StorageError */
export async function readStoredTokens(runner: StatementRunner, after: string): Promise<StoredToken[]> {
  return (await runner.read(selectStored, [after])).map(toStoredToken);
}

/** Stores tokens as `TokenRepository.copy`. @throws StorageError */
export async function copyTokens(
  runner: StatementRunner,
  tokens: readonly StoredToken[],
): Promise<Outcomes['absent'][]> {
  const rows = tokens.map(toStoredTokenRow);
  const columns = Array.from({ length: 8 }, (_, column) => rows.map((row) => row[column]));
  const inserted = new Set((await runner.write(insertStored, columns)).map(([id]) => id));
  const stored = new Map(
    (await runner.read(selectById, [tokens.map(({ id }) => id)]))
      .map(toStoredToken)
      .map((token) => [token.id, token]),
  );
  return tokens.map((token) => {
    // Of two tokens with one id, the first is inserted.
    if (inserted.delete(token.id)) return 'inserted';
    const present = stored.get(token.id);
    return present !== undefined && isSameToken(present, token) ? 'same' : 'other';
  });
}
