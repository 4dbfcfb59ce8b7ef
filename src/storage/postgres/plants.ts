// The plants of the PostgreSQL engine.
import type { PlantPage } from '../../domain/plants.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';
import type { PlantStatements } from './statements.js';

/** The maximum number of plants in a first page, so that many of them can be read together. */
const firstPageRows = 500;
/** The maximum number of plants in a next page. */
const nextPageRows = 2_500;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

/** The plants in a database. */
export class PostgresPlants extends GroupWrittenPlants {
  readonly #statements: () => PlantStatements;

  constructor(statements: () => PlantStatements, writer: PlantGroupWriter) {
    super(writer);
    this.#statements = statements;
  }

  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    if (after === maxId) return { json: '', count: 0, next: undefined };
    const isFirst = after === undefined;
    return this.#statements().page({
      subject,
      from: isFirst ? minId : after + 1n,
      rows: Math.min(limit, isFirst ? firstPageRows : nextPageRows),
      isFirst,
    });
  }
}
