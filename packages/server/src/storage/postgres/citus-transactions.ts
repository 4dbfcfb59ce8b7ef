// Transactions on Citus: all documents of a subject are in shards of one node, and so is the lock of the subject.
import { escapeLiteral } from 'pg';
import type { CollectionDefinition } from '../interface.js';
import type { Step, TransactionCommitter } from '../transactions.js';
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

/** The transactions of one process on Citus. */
export class CitusTransactions implements TransactionCommitter {
  readonly #transactions: PostgresTransactions;
  readonly #nodes: CitusNodes;
  readonly #table: string;

  constructor(runner: StatementRunner, nodes: CitusNodes, collections: readonly CollectionDefinition[]) {
    this.#transactions = new PostgresTransactions(runner, citusTransactions(collections));
    this.#nodes = nodes;
    this.#table = collections[0]?.name ?? '';
  }

  commitTransaction(subject: string, steps: readonly Step[]): Promise<boolean> {
    return this.#onNode(subject, () => this.#transactions.commitTransaction(subject, steps));
  }

  commitAlone(subject: string, run: () => Promise<readonly Step[]>): Promise<boolean> {
    return this.#onNode(subject, () => this.#transactions.commitAlone(subject, run));
  }

  async #onNode(subject: string, commit: () => Promise<boolean>): Promise<boolean> {
    this.#nodes.requireSafety();
    await this.#nodes.requireReachable(this.#table, [subject]);
    try {
      return await commit();
    } catch (error) {
      this.#nodes.failed(error);
      throw error;
    }
  }
}
