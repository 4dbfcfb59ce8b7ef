// Commits transactions over documents of one subject to PostgreSQL.
import { isCheck, type Step, type TransactionCommitter } from '../core/writes.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Query } from './connection/connections.js';
import {
  byKey,
  confirmation,
  type DocumentSql,
  type Keyed,
  parametersOf,
  type StoreSql,
} from './statements.js';

/** Holds the place of a document that must stay absent. It is never committed. */
const placeholder = 'null';

/**
 * Returns what commits the transactions of one process. At READ COMMITTED, each statement sees what was committed before
 * it, so whatever is read is locked until COMMIT, in this order:
 *
 * 1. The keys that must be absent, collection by collection, in the order of all statements: rows are inserted, and those
 *    that are not wanted are deleted in the end. Otherwise a document could be created before COMMIT.
 * 2. The rows that must exist, likewise. A transaction that has one never waits for a key.
 */
export function transactionCommitter(runner: StatementRunner, sql: StoreSql): TransactionCommitter {
  return {
    async commitTransaction(subject, steps) {
      if (steps.every(isCheck)) return hold(runner, sortedSteps(sql, subject, steps));
      return runner.transaction((query) => make(query, sql, subject, steps));
    },
  };
}

/** Makes steps. Resolves with whether all documents were as expected; if not, nothing must be committed. */
async function make(query: Query, sql: StoreSql, subject: string, steps: readonly Step[]): Promise<boolean> {
  const absent = steps.filter(({ expected }) => expected === null);
  const present = steps.filter(({ expected }) => expected !== null);
  const unwanted = absent.filter(({ text }) => text === null);
  const parts = [
    ['insert', absent.map((step) => ({ ...step, text: step.text ?? placeholder }))],
    ['lock', present],
    ['update', present.filter((step) => step.text !== null && !isCheck(step))],
    ['delete', present.filter(({ text }) => text === null)],
    ['delete', unwanted.map((step) => ({ ...step, expected: placeholder }))],
  ] as const;
  for (const [statement, part] of parts)
    for (const [documents, sorted] of sortedSteps(sql, subject, part)) {
      const rows = await query(documents[statement], parametersOf(sorted));
      if (rows.length < sorted.length) return false;
    }
  return true;
}

/** Whether all documents are as expected at one moment. */
async function hold(runner: StatementRunner, parts: readonly [DocumentSql, Keyed[]][]): Promise<boolean> {
  // One statement, which sees one state of all collections.
  const text = parts.map(([{ compare }], part) => compare(part)).join(' UNION ALL ');
  const values = parts.flatMap(([, steps]) => parametersOf(steps));
  const rows = await runner.read(text, values);
  await runner.read(confirmation);
  const present = parts.flatMap(([, steps]) => steps).filter(({ expected }) => expected !== null);
  return rows.length === present.length && rows.every(([, , stored]) => stored !== '');
}

/** Steps sorted by the keys of their documents, with the statements on each collection. */
function sortedSteps(sql: StoreSql, subject: string, steps: readonly Step[]): [DocumentSql, Keyed[]][] {
  return [...sql]
    .map(([collection, documents]): [DocumentSql, Keyed[]] => {
      const some = steps.filter((step) => step.collection === collection);
      return [documents, some.map(({ id, text, expected }) => ({ subject, id, text, expected })).sort(byKey)];
    })
    .filter(([, sorted]) => sorted.length > 0);
}
