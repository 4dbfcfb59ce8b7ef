// The statements for documents that Citus distributes by subject: each concerns one shard, or one row after the other.
import fastq from 'fastq';
import type { CollectionDefinition, Id, Outcome, Page, StorageError } from '../interface.js';
import type { Bounds } from '../collections.js';
import { idRules, type IdRules } from '../ids.js';
import { expectedBy, outcomeInSql, outcomeOfCreationInSql, type Write } from '../writes.js';
import { type CitusNodes, nodeConnectionTime, UnreachableNode } from './citus-nodes.js';
import { ofSubject, pageTextsOf, readPagesOfShard, type PageTexts } from './citus-pages.js';
import type { Placements } from './citus-tables.js';
import { bisect, isRowError } from './failures.js';
import { columnsOf, PageReaders, maxInFlightIn, type PageRow, type SubjectPage } from './page-reader.js';
import type { StatementRunner } from './statement-runner.js';
import type { Query, Row } from './query.js';
import { countText, idTypes, type DocumentStatements } from './statements.js';

/** The maximum number of rows in an INSERT. Each has three parameters, and a statement can have 65,535. */
const rowsInserted = 1_000;
/** The settings of a write transaction: it uses one connection per node, and does not wait long for it. */
export const sequentially = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;

/**
 * The statements on documents of one subject, $1: one for several subjects would read all of their documents, on every
 * shard. As in the functions of the schema, BETWEEN and ORDER BY make PostgreSQL look up each key in the index,
 * regardless of its statistics, and rows are locked in the order of their physical locations.
 */
function writeTextsOf({ name, column, id }: CollectionDefinition) {
  const type = idTypes[id];
  const stored = `FROM ${name} AS stored WHERE stored.subject = $1 AND`;
  const lookup = (what: string) => `CROSS JOIN LATERAL (
    SELECT stored.${what} AS found ${stored} stored.id BETWEEN given.id AND given.id ORDER BY stored.id LIMIT 1) AS it`;
  const located = `ctid = ANY (ARRAY(SELECT found FROM located))`;
  return {
    compare: `SELECT $1::text, id, ${outcomeOfCreationInSql('found', 'given')}
      FROM unnest($2::${type}[], $3::text[]) AS given (id, text) ${lookup(column)}`,
    delete: `WITH located AS (SELECT * FROM unnest($2::${type}[]) AS given (id) ${lookup('ctid')}),
        gone AS (DELETE ${stored} ${located} RETURNING id, 'deleted' AS outcome)
      SELECT $1::text, id, outcome FROM located LEFT JOIN gone USING (id)`,
    /** Locks documents, and decides what becomes of them. */
    decide: `WITH located AS (
          SELECT * FROM unnest($2::${type}[], $3::text[], $4::text[]) AS given (id, text, expected) ${lookup('ctid')}),
        locked AS (SELECT stored.id, stored.${column} AS stored_text ${stored} ${located} FOR UPDATE)
      SELECT $1::text, id, ${outcomeInSql('stored_text', 'located')} FROM located LEFT JOIN locked USING (id)`,
  };
}

/**
 * The statements for tables that are distributed. Writes run in transaction blocks, because a Citus worker commits any
 * other statement immediately after running it, possibly long after the client has given up.
 */
export class CitusStatements implements DocumentStatements {
  /** Citus would run a function on the wrong node. */
  readonly functions = [];
  readonly #runner: StatementRunner;
  readonly #table: string;
  readonly #column: string;
  readonly #ids: IdRules;
  readonly #texts: ReturnType<typeof writeTextsOf>;
  readonly #pageTexts: Readonly<Record<'ascending' | 'descending', PageTexts>>;
  readonly #countText: string;
  readonly #placements: Placements;
  readonly #nodes: CitusNodes;
  readonly #pagesOfShards = new Map<string, PageReaders>();
  /** For each node, what runs work within a limit, so that one that does not respond cannot occupy all connections. */
  readonly #slotsOfNodes = new Map<number, (work: () => Promise<void>) => Promise<void>>();

  /** @param nodes - What is known about the nodes, for all collections; `placements` likewise. */
  constructor(
    runner: StatementRunner,
    nodes: CitusNodes,
    placements: Placements,
    collection: CollectionDefinition,
  ) {
    this.#runner = runner;
    this.#table = collection.name;
    this.#column = collection.column;
    this.#ids = idRules[collection.id];
    this.#texts = writeTextsOf(collection);
    this.#pageTexts = {
      ascending: pageTextsOf(collection, false),
      descending: pageTextsOf(collection, true),
    };
    this.#countText = countText(collection, ofSubject);
    this.#placements = placements;
    this.#nodes = nodes;
  }

  insert(writes: readonly Write[], deadline: number): Promise<Row[]> {
    return this.#transaction(writes, deadline, (query) =>
      this.#insertRows(query, writes, 'DO NOTHING RETURNING subject, id'),
    );
  }

  compare(writes: readonly Write[], deadline: number): Promise<Row[]> {
    return bySubject(writes, (subject, documents) =>
      this.#runner.read(
        this.#texts.compare,
        [subject, idsOf(documents), documents.map(({ text }) => text)],
        deadline,
      ),
    );
  }

  delete(writes: readonly Write[], deadline: number): Promise<Row[]> {
    return this.#transaction(writes, deadline, (query) =>
      bySubject(writes, (subject, documents) => query(this.#texts.delete, [subject, idsOf(documents)])),
    );
  }

  change(writes: readonly Write[], deadline: number): Promise<Row[]> {
    return this.#transaction(writes, deadline, (query) =>
      bySubject(writes, async (subject, documents) => {
        const rows = await query(this.#texts.decide, [
          subject,
          idsOf(documents),
          documents.map(({ text }) => text),
          documents.map(expectedBy),
        ]);
        const outcomes = new Map(rows.map(([, id, outcome]) => [id, outcome]));
        const those = (outcome: Outcome) => documents.filter(({ id }) => outcomes.get(`${id}`) === outcome);
        const deleted = those('deleted');
        if (deleted.length > 0) await query(this.#texts.delete, [subject, idsOf(deleted)]);
        // The rows exist and are locked, so that this updates them; the plan of an UPDATE with a join would depend on
        // statistics.
        const set = `(subject, id) DO UPDATE SET ${this.#column} = excluded.${this.#column}`;
        await this.#insertRows(query, those('replaced'), set);
        return rows;
      }),
    );
  }

  /** Separates the writes to nodes that cannot be reached; if there are none, it splits writes by node. */
  async split(writes: readonly Write[], error: StorageError): Promise<(readonly Write[])[]> {
    const isKnown = error instanceof UnreachableNode;
    if (!isKnown) this.#nodes.failed(error);
    if (error.failure !== 'unavailable' || isRowError(error.cause)) return bisect(writes, error);
    if (!isKnown) await this.#nodes.check();
    try {
      const placements = await this.#placements.of(this.#table, subjectsOf(writes));
      const nodeOf = ({ subject }: Write) => placements.get(subject)?.node;
      const byReach = groupBy(writes, (write) => this.#nodes.isReachable(nodeOf(write)));
      return [...(isKnown || byReach.size > 1 ? byReach : groupBy(writes, nodeOf)).values()];
    } catch {
      return [writes];
    }
  }

  page(page: SubjectPage): Promise<Page<Id>> {
    return this.#read(page.subject, (readers) => readers.read(page));
  }

  count(subject: string, bounds: Bounds): Promise<number> {
    return this.#read(subject, (readers) => readers.count(subject, bounds));
  }

  check(): void {
    this.#nodes.requireSafety();
  }

  async drain(): Promise<void> {
    await Promise.all([...this.#pagesOfShards.values()].map((readers) => readers.drain()));
  }

  /** Inserts documents. @param onConflict - What follows ON CONFLICT. */
  async #insertRows(query: Query, inserts: readonly Write[], onConflict: string): Promise<Row[]> {
    const returned: Row[] = [];
    // Citus routes rows of VALUES to their shards, but would first write rows from unnest() to intermediate files.
    for (let from = 0; from < inserts.length; from += rowsInserted) {
      const rows = inserts.slice(from, from + rowsInserted);
      const placeholders = rows.map((_, i) => `($${3 * i + 1}, $${3 * i + 2}, $${3 * i + 3})`).join();
      returned.push(
        ...(await query(
          `INSERT INTO ${this.#table} (subject, id, ${this.#column}) VALUES ${placeholders} ON CONFLICT ${onConflict}`,
          rows.flatMap(({ subject, id, text }) => [subject, `${id}`, text]),
        )),
      );
    }
    return returned;
  }

  async #transaction<T>(
    writes: readonly Write[],
    deadline: number,
    work: (query: Query) => Promise<T>,
  ): Promise<T> {
    this.#nodes.requireSafety();
    await this.#nodes.requireReachable(this.#table, subjectsOf(writes));
    return this.#runner.transaction(sequentially, deadline, work);
  }

  async #read<T>(subject: string, read: (readers: PageReaders) => Promise<T>): Promise<T> {
    this.#nodes.requireSafety();
    try {
      return await read(await this.#readersOf(subject));
    } catch (error) {
      if (!(error instanceof UnreachableNode)) {
        this.#nodes.failed(error);
        this.#placements.forget(this.#table, subject);
      }
      throw error;
    }
  }

  async #readersOf(subject: string): Promise<PageReaders> {
    const placement = (await this.#placements.of(this.#table, [subject])).get(subject);
    if (placement === undefined) throw new Error('Citus knows no placement of the subject');
    const key = `${placement.shard} ${placement.node}`;
    let readers = this.#pagesOfShards.get(key);
    if (readers === undefined) {
      readers = new PageReaders(this.#runner, {
        ids: this.#ids,
        read: async (pages) => {
          await this.#nodes.requireReachable(this.#table, subjectsOf(pages));
          return readPagesOfShard(this.#runner, this.#pageTexts, this.#ids, pages);
        },
        count: async (pages) => {
          await this.#nodes.requireReachable(this.#table, subjectsOf(pages));
          const rows = await this.#runner.read(this.#countText, columnsOf(pages, this.#ids));
          return rows as readonly unknown[] as readonly PageRow[];
        },
        maxInFlight: 1,
        run: this.#slotsOf(placement.node),
      });
      this.#pagesOfShards.set(key, readers);
    }
    return readers;
  }

  #slotsOf(node: number): (work: () => Promise<void>) => Promise<void> {
    let run = this.#slotsOfNodes.get(node);
    if (run === undefined) {
      const slots = fastq.promise((work: () => Promise<void>) => work(), maxInFlightIn(this.#runner));
      run = (work) => slots.push(work);
      this.#slotsOfNodes.set(node, run);
    }
    return run;
  }
}

function idsOf(writes: readonly Write[]): string[] {
  return writes.map(({ id }) => `${id}`);
}

/** Does work for one subject after the other, and returns all rows. */
async function bySubject(
  writes: readonly Write[],
  work: (subject: string, documents: readonly Write[]) => Promise<Row[]>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [subject, documents] of groupBy(writes, (write) => write.subject)) {
    rows.push(...(await work(subject, documents)));
  }
  return rows;
}

function subjectsOf(items: readonly { readonly subject: string }[]): Set<string> {
  return new Set(items.map(({ subject }) => subject));
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
