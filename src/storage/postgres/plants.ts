// The plants of the PostgreSQL engine.
import type { PlantPage } from '../../domain/plants.js';
import { GroupWrittenPlants, type PlantGroupWriter } from '../plant-writes.js';
import { Places, readPagesOfShard, Slots } from './citus-pages.js';
import {
  columnsOf,
  PageReader,
  type PageRange,
  type PageReaderOptions,
  type PageRow,
} from './page-reader.js';
import type { PostgresPool } from './pool.js';

/** The maximum number of plants in a first page, so that many of them can be read together. */
const firstPageRows = 500;
/** The maximum number of plants in a next page. */
const nextPageRows = 2_500;
/** The maximum number of first pages in a statement. Each of them waits for all the others. */
const firstPagesTogether = 64;
/** The number of waiting first pages from which another statement starts while others are in flight. */
const firstPagesApart = 16;
/** The maximum number of next pages in a statement. They are mostly full, so that combining more saves little. */
const nextPagesTogether = 4;
const minId = -(2n ** 63n);
const maxId = 2n ** 63n - 1n;

/** The plants in the database of a pool. */
export class PostgresPlants extends GroupWrittenPlants {
  readonly #pool: PostgresPool;
  readonly #pages: PageReaders;
  // Only with Citus: the place of each subject, the readers of each shard, and the concurrency limit of each node.
  readonly #places: Places;
  readonly #pagesOfShards = new Map<string, PageReaders>();
  readonly #slotsOfNodes = new Map<string, Slots>();

  constructor(pool: PostgresPool, writer: PlantGroupWriter) {
    super(writer);
    this.#pool = pool;
    this.#pages = createReaders(pool, { read: (pages) => readPages(pool, pages) });
    this.#places = new Places(pool);
  }

  async list(
    subject: string,
    { after, limit }: { after?: bigint | undefined; limit: number },
  ): Promise<PlantPage> {
    if (after === maxId) return { json: '', count: 0, next: undefined };
    const readers = this.#pool.distributed ? await this.#readersOf(subject) : this.#pages;
    const page =
      after === undefined
        ? readers.first.read({ subject, from: minId, rows: Math.min(limit, firstPageRows) })
        : readers.next.read({ subject, from: after + 1n, rows: Math.min(limit, nextPageRows) });
    return page.catch((error: unknown) => {
      this.#places.forget(subject);
      throw error;
    });
  }

  async #readersOf(subject: string): Promise<PageReaders> {
    const { shard, node } = await this.#places.of(subject);
    const key = `${shard} ${node}`;
    let readers = this.#pagesOfShards.get(key);
    if (readers === undefined) {
      const slots = this.#slotsOfNodes.get(node) ?? new Slots(underWayIn(this.#pool));
      this.#slotsOfNodes.set(node, slots);
      readers = createReaders(this.#pool, {
        read: (pages) => readPagesOfShard(this.#pool, pages),
        maxUnderWay: 1,
        run: slots.run,
      });
      this.#pagesOfShards.set(key, readers);
    }
    return readers;
  }

  /** Resolves when all requested pages have been read. */
  async drain(): Promise<void> {
    const readers = [this.#pages, ...this.#pagesOfShards.values()];
    await Promise.all(readers.flatMap(({ first, next }) => [first.drain(), next.drain()]));
  }
}

/** Separate readers for the first and the next pages of lists, so that long lists do not delay short ones. */
interface PageReaders {
  readonly first: PageReader;
  readonly next: PageReader;
}

/**
 * The maximum number of concurrent statements of a reader. With more, each would have fewer pages; and tokens and other
 * readers need connections too.
 */
const underWayIn = ({ size }: PostgresPool) => Math.ceil(size / 5);

function createReaders(
  pool: PostgresPool,
  options: Pick<PageReaderOptions, 'read'> & Partial<PageReaderOptions>,
): PageReaders {
  const common = {
    maxAge: pool.budget,
    maxUnderWay: underWayIn(pool),
    run: (work: () => Promise<void>) => work(),
    ...options,
  };
  return {
    first: new PageReader({ ...common, together: firstPagesTogether, apart: firstPagesApart }),
    next: new PageReader({ ...common, together: nextPagesTogether, apart: 1 }),
  };
}

/** Reads pages with a function of the schema, which also limits their size. */
async function readPages(pool: PostgresPool, pages: readonly PageRange[]): Promise<readonly PageRow[]> {
  const rows = await pool.read('SELECT page, count, last FROM plant_pages($1, $2, $3)', columnsOf(pages));
  return rows as readonly unknown[] as readonly PageRow[];
}
