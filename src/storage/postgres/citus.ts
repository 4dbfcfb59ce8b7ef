// The statements for documents that Citus distributes by subject: each concerns one shard, or one row after the other.
import fastq from 'fastq';
import type { CollectionDefinition, Page } from '../../domain/collections.js';
import type { StorageError } from '../../domain/storage.js';
import type { Deletion, Insert, Write } from '../writes.js';
import { CitusNodes, nodeConnectionTime } from './citus-nodes.js';
import { pageTextsOf, readPagesOfShard, type PageTexts } from './citus-pages.js';
import { Places } from './citus-tables.js';
import { bisect, isRowError } from './failures.js';
import { PageReaders, underWayIn, type PageRange } from './page-reader.js';
import type { PostgresPool } from './pool.js';
import type { Query, Row } from './query.js';
import type { DocumentStatements } from './statements.js';

/** The maximum number of rows in an INSERT. Each has three parameters, and a statement can have 65,535. */
const rowsInserted = 1_000;
/** The settings of a write transaction: it uses one connection per node, and does not wait long for it. */
const settings = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;

/**
 * The statements for tables that are distributed. Writes run in transaction blocks, because a Citus worker commits any
 * other statement immediately after running it, possibly long after the client has given up.
 */
export class CitusStatements implements DocumentStatements {
  /** Citus would run a function on the wrong node. */
  readonly functions = [];
  readonly #pool: PostgresPool;
  readonly #table: string;
  readonly #column: string;
  readonly #pageTexts: PageTexts;
  readonly #nodes: CitusNodes;
  readonly #places: Places;
  readonly #pagesOfShards = new Map<string, PageReaders>();
  /** For each node, what runs work within a limit, so that one that does not respond cannot occupy all connections. */
  readonly #slotsOfNodes = new Map<number, (work: () => Promise<void>) => Promise<void>>();

  /** @param nodes - What is known about the nodes, for all collections. */
  constructor(pool: PostgresPool, nodes: CitusNodes, collection: CollectionDefinition) {
    this.#pool = pool;
    this.#table = collection.name;
    this.#column = collection.column;
    this.#pageTexts = pageTextsOf(collection);
    this.#nodes = nodes;
    this.#places = new Places(pool, collection);
  }

  insert(inserts: readonly Insert[], end: number): Promise<Row[]> {
    return this.#transaction(end, async (query) => {
      const inserted: Row[] = [];
      // Citus routes rows of VALUES to their shards, but would first write rows from unnest() to intermediate files.
      for (let from = 0; from < inserts.length; from += rowsInserted) {
        const rows = inserts.slice(from, from + rowsInserted);
        const places = rows.map((_, i) => `($${3 * i + 1}, $${3 * i + 2}, $${3 * i + 3})`).join();
        inserted.push(
          ...(await query(
            `INSERT INTO ${this.#table} (subject, id, ${this.#column}) VALUES ${places}
             ON CONFLICT DO NOTHING RETURNING subject, id`,
            rows.flatMap(({ subject, id, text }) => [subject, `${id}`, text]),
          )),
        );
      }
      return inserted;
    });
  }

  async compare(inserts: readonly Insert[], end: number): Promise<Row[]> {
    const found: Row[] = [];
    for (const [subject, documents] of groupBy(inserts, ({ subject }) => subject)) {
      found.push(
        ...(await this.#pool.read(
          `SELECT stored.subject, stored.id, stored.${this.#column} = given.text
           FROM ${this.#table} AS stored
           JOIN unnest($2::bigint[], $3::text[]) AS given (id, text) ON stored.id = given.id
           WHERE stored.subject = $1 AND stored.id = ANY ($2::bigint[])`,
          [subject, documents.map(({ id }) => `${id}`), documents.map(({ text }) => text)],
          end,
        )),
      );
    }
    return found;
  }

  delete(deletions: readonly Deletion[], end: number): Promise<Row[]> {
    return this.#transaction(end, async (query) => {
      const deleted: Row[] = [];
      // One subject per statement: a statement for several subjects would read all of their documents, on every shard.
      for (const [subject, documents] of groupBy(deletions, ({ subject }) => subject)) {
        deleted.push(
          ...(await query(
            `DELETE FROM ${this.#table} WHERE subject = $1 AND id = ANY ($2::bigint[])
             RETURNING subject, id, true`,
            [subject, documents.map(({ id }) => `${id}`)],
          )),
        );
      }
      return deleted;
    });
  }

  /** Splits writes by node, so that only those to unreachable nodes fail. */
  async split<W extends Write>(writes: readonly W[], error: StorageError): Promise<(readonly W[])[]> {
    this.#nodes.failed(error);
    if (writes.length < 2 || error.failure !== 'unavailable' || isRowError(error.cause)) {
      return bisect(writes, error);
    }
    try {
      const places = await this.#places.of(new Set(writes.map(({ subject }) => subject)));
      return [...groupBy(writes, ({ subject }) => places.get(subject)?.node).values()];
    } catch {
      return [writes];
    }
  }

  async page(range: PageRange): Promise<Page> {
    this.#nodes.require();
    try {
      return await (await this.#readersOf(range.subject)).read(range);
    } catch (error) {
      this.#nodes.failed(error);
      this.#places.forget(range.subject);
      throw error;
    }
  }

  check(): void {
    this.#nodes.require();
  }

  async drain(): Promise<void> {
    await Promise.all([...this.#pagesOfShards.values()].map((readers) => readers.drain()));
  }

  #transaction<T>(end: number, work: (query: Query) => Promise<T>): Promise<T> {
    this.#nodes.require();
    return this.#pool.transaction(settings, end, work);
  }

  async #readersOf(subject: string): Promise<PageReaders> {
    const place = (await this.#places.of([subject])).get(subject);
    if (place === undefined) throw new Error('Citus knows no place for the subject');
    const key = `${place.shard} ${place.node}`;
    let readers = this.#pagesOfShards.get(key);
    if (readers === undefined) {
      readers = new PageReaders(this.#pool, {
        read: (pages) => readPagesOfShard(this.#pool, this.#pageTexts, pages),
        maxUnderWay: 1,
        run: this.#slotsOf(place.node),
      });
      this.#pagesOfShards.set(key, readers);
    }
    return readers;
  }

  #slotsOf(node: number): (work: () => Promise<void>) => Promise<void> {
    let run = this.#slotsOfNodes.get(node);
    if (run === undefined) {
      const slots = fastq.promise((work: () => Promise<void>) => work(), underWayIn(this.#pool));
      run = (work) => slots.push(work);
      this.#slotsOfNodes.set(node, run);
    }
    return run;
  }
}

/** Groups items by a key, in order. */
function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
