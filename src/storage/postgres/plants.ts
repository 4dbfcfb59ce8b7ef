// The plants of PostgreSQL: each page is a statement of its own, so that no transaction is open between pages.
import type { PlantPage } from '../../domain/plants.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';
import type { PostgresPool } from './pool.js';

/** The most rows in a page of a list, which bounds how long reading it holds a connection. */
const pageRows = 500;
/** The most bytes in a page of a list, each plant with a comma (a single plant may have more). */
const pageBytes = 256 * 1024;

/** The plants that a pool reaches. */
export class PostgresPlants extends GroupWrittenPlants {
  readonly #pool: PostgresPool;

  constructor(pool: PostgresPool, writer: PlantGroupWriter) {
    super(writer);
    this.#pool = pool;
  }

  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    const rows = Math.min(limit, pageRows);
    // The length of a long text is known without reading it, so only what fits is ever read.
    const [row] = await this.#pool.read(
      `SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits),
              (count(*) FILTER (WHERE fits))::int, max(id) FILTER (WHERE fits), count(*)::int
       FROM (SELECT id, plant, bytes <= $4 OR bytes = octet_length(plant) + 1 AS fits
             FROM (SELECT id, plant, sum(octet_length(plant) + 1) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS bytes
                   FROM (SELECT id, plant FROM plants WHERE subject = $1 AND ($2::bigint IS NULL OR id > $2)
                         ORDER BY id LIMIT $3) AS page) AS measured) AS chosen`,
      [subject, after, rows, pageBytes],
    );
    const [json, count, lastId, found] = row as [string | null, number, string | null, number];
    const more = found === rows || count < found;
    return { json: json ?? '', count, next: more && lastId !== null ? BigInt(lastId) : undefined };
  }
}
