// Transactions on Citus: all documents of a subject are in shards of one node, and so is the lock of the subject.
import { escapeLiteral } from 'pg';
import type { CollectionDefinition } from '../interface.js';
import type { TransactionCommitter } from '../transactions.js';
import type { CitusNodes } from './citus-nodes.js';
import { sequentially } from './citus-statements.js';
import type { StatementRunner } from './statement-runner.js';
import { conflictOf, PostgresTransactions, textsOf, type TransactionStatements } from './transactions.js';

/** The statements for tables that are distributed: each leads to the shard of the subject. */
function citusTransactions(collections: readonly CollectionDefinition[]): TransactionStatements {
  // Any table leads to the node. Nothing of it is read, but there is one row, for which the lock is taken there.
  const table = collections[0]?.name;
  return {
    begin: (subject, key) => `${sequentially}; SELECT pg_advisory_xact_lock(${key}) FROM (
      SELECT count(*) FROM (SELECT FROM ${table} WHERE subject = ${escapeLiteral(subject)} LIMIT 0) AS none) AS shard`,
    texts: new Map(
      collections.map((one) => [
        one,
        {
          ...textsOf(one, 'stored.subject = $1 AND'),
          // Citus would first write the rows of unnest() to files.
          insert: (subject, documents, onConflict) => {
            const rows = documents.map((_, i) => `($1, $${2 * i + 2}, $${2 * i + 3})`).join();
            return [
              `INSERT INTO ${one.name} (subject, id, ${one.column}) VALUES ${rows}
                ${conflictOf(one.column, onConflict)} RETURNING id`,
              [subject, ...documents.flatMap(([id, text]) => [`${id}`, text])],
            ];
          },
        },
      ]),
    ),
    constant: false,
  };
}

/** Creates what commits the transactions of one process on Citus. */
export function createCitusTransactions(
  runner: StatementRunner,
  nodes: CitusNodes,
  collections: readonly CollectionDefinition[],
): Required<TransactionCommitter> {
  const transactions = new PostgresTransactions(runner, citusTransactions(collections));
  const onNode = async (subject: string, commit: () => Promise<boolean>) => {
    nodes.requireSafety();
    await nodes.requireReachable(collections[0]?.name ?? '', [subject]);
    try {
      return await commit();
    } catch (error) {
      nodes.failed(error);
      throw error;
    }
  };
  return {
    commitTransaction: (subject, steps) =>
      onNode(subject, () => transactions.commitTransaction(subject, steps)),
    commitAlone: (subject, run) => onNode(subject, () => transactions.commitAlone(subject, run)),
  };
}
