// Commits transactions over documents of one subject to PostgreSQL.
import { isCheck, type Step, type TransactionCommitter, type Write } from '../core/writes.js';
import type { StatementRunner } from './connection/statement-runner.js';
import type { Query } from './connection/connections.js';
import { byKey, confirmation, parametersOf, type AllTexts, type DocumentTexts } from './statements.js';

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
export function transactionCommitter(runner: StatementRunner, texts: AllTexts): TransactionCommitter {
  return {
    async commitTransaction(subject, steps) {
      if (steps.every(isCheck)) return hold(runner, writesOf(texts, subject, steps));
      return runner.transaction((query) => make(query, texts, subject, steps));
    },
  };
}

/** Makes steps. Resolves with whether all documents were as expected; if not, nothing must be committed. */
async function make(
  query: Query,
  texts: AllTexts,
  subject: string,
  steps: readonly Step[],
): Promise<boolean> {
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
    for (const [ofCollection, writes] of writesOf(texts, subject, part)) {
      const rows = await query(ofCollection[statement], parametersOf(statement, writes));
      if (rows.length < writes.length) return false;
    }
  return true;
}

/** Whether all documents are as expected at one moment. */
async function hold(runner: StatementRunner, parts: readonly [DocumentTexts, Write[]][]): Promise<boolean> {
  // One statement, which sees one state of all collections.
  const text = parts.map(([{ compare }], part) => compare(part)).join(' UNION ALL ');
  const rows = await runner.read(
    text,
    parts.flatMap(([, writes]) => parametersOf('compare', writes)),
  );
  await runner.read(confirmation);
  const present = parts.flatMap(([, writes]) => writes).filter(({ when }) => when === 'equals');
  return rows.length === present.length && rows.every(([, , found]) => found === 'same');
}

/** Steps as writes, sorted by their keys, with the statements on each collection. */
function writesOf(texts: AllTexts, subject: string, steps: readonly Step[]): [DocumentTexts, Write[]][] {
  return [...texts]
    .map(([collection, ofCollection]): [DocumentTexts, Write[]] => {
      const writes = steps
        .filter((step) => step.collection === collection)
        .map(({ id, expected, text }): Write => {
          const when = expected === null ? { when: 'any' as const } : { when: 'equals' as const, expected };
          return { ...when, collection, subject, id, text };
        });
      return [ofCollection, writes.sort(byKey)];
    })
    .filter(([, writes]) => writes.length > 0);
}
