// The collections of the PostgreSQL engine.
import {
  idRange,
  type Change,
  type Collection,
  type CollectionDefinition,
  type OutcomeOf,
  type Page,
  type PageRange,
} from '../../domain/collections.js';
import type { GroupWriter } from '../group-writer.js';
import { pageRows } from '../page-size.js';
import type { DocumentStatements } from './statements.js';

/** The maximum number of documents in a next page. A first page has fewer, so that many can be read together. */
const nextPageRows = 5 * pageRows;

/** A collection in a database. */
export class PostgresCollection implements Collection {
  readonly #definition: CollectionDefinition;
  readonly #statements: () => DocumentStatements;
  readonly #writer: GroupWriter;

  /** @param statements - Returns the statements that suit the tables at present. */
  constructor(definition: CollectionDefinition, statements: () => DocumentStatements, writer: GroupWriter) {
    this.#definition = definition;
    this.#statements = statements;
    this.#writer = writer;
  }

  write<C extends Change>(subject: string, id: bigint, change: C): Promise<OutcomeOf<C>> {
    return this.#writer.write({ collection: this.#definition, subject, id, ...change });
  }

  async page(subject: string, { after, limit }: PageRange): Promise<Page> {
    if (after === idRange.max) return { json: '', count: 0, next: undefined };
    const isFirst = after === undefined;
    return this.#statements().page({
      subject,
      from: isFirst ? idRange.min : after + 1n,
      rows: Math.min(limit, isFirst ? pageRows : nextPageRows),
      isFirst,
    });
  }
}
