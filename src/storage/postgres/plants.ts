// The plants of PostgreSQL: each page is a statement, writes go to the writer.
import type { Plant, PlantPage, PlantRepository } from '../../domain/plants.js';
import type { PostgresPool } from './pool.js';
import type { PostgresWriter } from './writer.js';

/** The most rows in a page of a list, which bounds how long reading it holds a connection. */
const pageRows = 500;
/** The most bytes in a page of a list (a single plant may have more). */
const pageBytes = 256 * 1024;

export class PostgresPlants implements PlantRepository {
  readonly #pool: PostgresPool;
  readonly #writer: PostgresWriter;

  constructor(pool: PostgresPool, writer: PostgresWriter) {
    this.#pool = pool;
    this.#writer = writer;
  }

  create(subject: string, id: bigint, { name, tag }: Plant): ReturnType<PlantRepository['create']> {
    const plant = tag === undefined ? JSON.stringify({ name }) : JSON.stringify({ name, tag });
    return this.#writer.write(subject, id, plant) as ReturnType<PlantRepository['create']>;
  }

  async delete(subject: string, id: bigint): Promise<boolean> {
    return (await this.#writer.write(subject, id)) === 'deleted';
  }

  /** Each page is a statement of its own: no transaction is open between pages. */
  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    const rows = Math.min(limit, pageRows);
    // The length of a long text is known without reading it, so only what fits is ever read.
    const [row] = await this.#pool.read(
      `SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits),
              (count(*) FILTER (WHERE fits))::int, max(id) FILTER (WHERE fits), count(*)::int
       FROM (SELECT id, plant, bytes <= $4 OR bytes = octet_length(plant) AS fits
             FROM (SELECT id, plant, sum(octet_length(plant)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS bytes
                   FROM (SELECT id, plant FROM plants WHERE subject = $1 AND ($2::bigint IS NULL OR id > $2)
                         ORDER BY id LIMIT $3) AS page) AS measured) AS chosen`,
      [subject, after, rows, pageBytes],
    );
    const [json, count, lastId, found] = row as [string | null, number, string | null, number];
    const more = found === rows || count < found;
    return { json: json ?? '', count, next: more ? BigInt(lastId!) : undefined };
  }
}
