// Tables that Citus distributes by subject: a statement concerns one shard, and a node may be missing.
import { LRUCache } from 'lru-cache';
import { escapeLiteral } from 'pg';
import { type CollectionDefinition, StorageError } from '../../core/interface.js';
import { outcomeOf, type Write } from '../../core/writes.js';
import type { Documents, Tables } from '../documents.js';
import { bisect, isRowError } from '../connection/failures.js';
import { createPageReaders, type PageReaders } from '../page-reader.js';
import type { StatementRunner } from '../connection/statement-runner.js';
import type { Query, Row } from '../connection/query.js';
import { durabilityFault, durabilitySettings } from '../server-check.js';
import { columnsOf, documentTexts, type DocumentTexts, type WriteDocuments } from '../statements.js';
import { storedReader } from '../stored.js';
import { postgresTransactions } from '../transactions.js';

/** How long a node may take to accept a connection, in ms. */
const nodeConnectionTime = 500;
/** The settings of a write transaction: it uses one connection per node, and does not wait long for it. */
const sequentially = `SET LOCAL citus.node_connection_timeout TO ${nodeConnectionTime};
  SET LOCAL citus.multi_shard_modify_mode TO 'sequential'`;
/** The minimum time between two checks of the nodes, in ms, since a check takes longer than a statement. */
const pause = 1_000;

/** Reads the settings of all nodes, since each node commits with its own; NULL for one that did not respond. */
const readNodes =
  // First shortens the time that Citus waits for a node that does not respond, and hides the warning about it.
  `WITH before AS MATERIALIZED (
     SELECT set_config('citus.node_connection_timeout', '${nodeConnectionTime}', true) AS time,
            set_config('client_min_messages', 'error', true))
   SELECT groupid, nodename || ':' || nodeport, CASE WHEN success THEN result END
   FROM before
   CROSS JOIN LATERAL run_command_on_all_nodes(
     left(before.time, 0) || $$SELECT ${durabilitySettings}$$)
   JOIN pg_dist_node USING (nodeid)`;

const readPlacements = `SELECT subject, shardid, groupid FROM unnest($1::text[]) AS subject
  JOIN pg_dist_placement ON shardid = get_shard_id_for_distribution_column($2::regclass, subject)`;

/** Where the documents of a subject are, in all tables: a shard of the first one, and the group of its node. */
interface Placement {
  readonly shard: string;
  readonly node: number;
}

/** The error of a statement that was not sent, because a node that it concerns cannot be reached. */
class UnreachableNode extends StorageError {}

export type CitusNodes = ReturnType<typeof citusNodes>;

/**
 * What is known about the nodes of the cluster: where subjects are, who can be reached, and whether it is safe.
 * @param table - One that is distributed. The others are likewise.
 */
export function citusNodes(runner: StatementRunner, table: string) {
  const placements = new LRUCache<string, Placement>({ max: 100_000 });
  /** When the last check ended, on the clock of performance.now(). */
  let checked = -Infinity;
  let checking: Promise<void> | undefined;
  /** Whether a statement has failed since the last check, or a node did not respond to it. */
  let suspect = false;
  /**
   * The names of the nodes that cannot be reached, by their groups: those that did not respond to a check when they were
   * suspect already. Each check finds out anew, and there is one per second until all nodes respond.
   */
  let unreachable: ReadonlyMap<number | undefined, string> = new Map();
  /** The unsafe settings that the last check found. */
  let fault: StorageError | undefined;

  const learn = (nodes: readonly Row[]): void => {
    const silent = nodes.filter(([, , settings]) => settings === null) as [number, string, null][];
    unreachable = new Map(suspect ? silent.map(([group, name]) => [group, name]) : []);
    suspect = silent.length > 0;
    // The subjects of a node that does not respond may be moved to others.
    if (suspect) placements.clear();
    fault = undefined;
    for (const [, name, settings] of nodes as [number, string, string | null][]) {
      const unsafe = settings === null ? undefined : durabilityFault(settings);
      if (unsafe !== undefined) fault = new StorageError('unavailable', `PostgreSQL: ${unsafe} on ${name}`);
    }
  };
  /** Finds out which nodes respond. Never rejects. */
  const check = (): Promise<void> =>
    (checking ??= runner
      .read(readNodes)
      .then(learn, () => {
        suspect = true;
      })
      .then(() => {
        checked = performance.now();
        checking = undefined;
      }));
  const checkWhenDue = (): void => {
    if (performance.now() > checked + pause) void check();
  };
  const failed = (error: unknown): void => {
    if (error instanceof StorageError && error.failure !== 'overloaded' && !isRowError(error.cause))
      suspect = true;
  };

  /** @throws StorageError when a node has unsafe settings. */
  const requireSafety = (): void => {
    if (suspect || fault !== undefined) checkWhenDue();
    if (fault !== undefined) throw fault;
  };
  /** Returns where subjects are, in order. @throws StorageError */
  const placementsOf = async (subjects: readonly string[]): Promise<(Placement | undefined)[]> => {
    const unknown = [...new Set(subjects.filter((subject) => !placements.has(subject)))];
    if (unknown.length > 0) {
      const rows = await runner.read(readPlacements, [unknown, table]);
      for (const [subject, shard, node] of rows as [string, string, number][])
        placements.set(subject, { shard, node });
    }
    return subjects.map((subject) => placements.get(subject));
  };
  /** @throws StorageError when a node has unsafe settings, UnreachableNode when that of a subject cannot be reached. */
  const requireReachable = async (subjects: readonly string[]): Promise<void> => {
    requireSafety();
    if (unreachable.size === 0) return;
    for (const placement of await placementsOf(subjects)) {
      const name = unreachable.get(placement?.node);
      if (name !== undefined) throw new UnreachableNode('unavailable', `Citus: ${name} cannot be reached`);
    }
  };
  return {
    requireSafety,
    requireReachable,
    placementsOf,
    /**
     * Call it with each new connection. Only the first one waits for a check: later, a node that does not respond must not
     * delay requests for other nodes.
     * @throws StorageError when the first check finds unsafe settings; the driver's error when it fails.
     */
    async connected(query: Query): Promise<void> {
      if (checked !== -Infinity) {
        checkWhenDue();
        return;
      }
      checked = performance.now();
      learn(await query(readNodes));
      requireSafety();
    },
    /** Runs statements about a subject, and learns from their failure: its shard may have been moved, or its node be down. */
    async run<T>(subject: string, work: () => Promise<T>): Promise<T> {
      await requireReachable([subject]);
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof UnreachableNode)) {
          failed(error);
          placements.delete(subject);
        }
        throw error;
      }
    },
    /** Splits writes that failed together: by whether their nodes can be reached, else by node. */
    async split(writes: readonly Write[], error: StorageError): Promise<(readonly Write[])[]> {
      const isKnown = error instanceof UnreachableNode;
      if (!isKnown) failed(error);
      if (error.failure !== 'unavailable' || isRowError(error.cause)) return bisect(writes, error);
      if (!isKnown) await check();
      try {
        const known = await placementsOf(writes.map(({ subject }) => subject));
        const byReach = groupBy(writes, (_, i) => unreachable.has(known[i]?.node));
        const parts = isKnown || byReach.size > 1 ? byReach : groupBy(writes, (_, i) => known[i]?.node);
        return [...parts.values()];
      } catch {
        return [writes];
      }
    },
  };
}

/** Tables that are distributed. Their statements lead to one shard by a condition on their subjects. */
export function citusTables(
  runner: StatementRunner,
  nodes: CitusNodes,
  collections: readonly CollectionDefinition[],
): Tables {
  const texts = new Map(collections.map((one) => [one, documentTexts(one, true)]));
  // Any table leads to the node. Nothing of it is read, but there is one row, for which the lock is taken there.
  const begin = (subject: string, key: bigint) =>
    `${sequentially}; SELECT pg_advisory_xact_lock(${key}) FROM (SELECT count(*) FROM (
      SELECT FROM ${collections[0]?.name} WHERE subject = ${escapeLiteral(subject)} LIMIT 0) AS none) AS shard`;
  const documents = new Map(
    Array.from(texts, ([one, own]) => [one, citusDocuments(runner, nodes, one, own)]),
  );
  const transactions = postgresTransactions(runner, texts, documents, { begin, asWrites: false });
  return {
    documents,
    transactions: {
      commitTransaction: (subject, steps) =>
        nodes.run(subject, () => transactions.commitTransaction(subject, steps)),
      commitAlone: (subject, run) => nodes.run(subject, () => transactions.commitAlone(subject, run)),
    },
    // In a transaction block, because a worker commits any other statement immediately after running it, possibly long
    // after the client has given up.
    async write(work, writes, deadline) {
      await nodes.requireReachable(writes.map(({ subject }) => subject));
      return runner.transaction(sequentially, deadline, (query) => work(query, writes));
    },
    split: (writes, error) => nodes.split(writes, error),
  };
}

/**
 * The documents of a collection. A statement that changes some concerns one subject: one for several subjects would read
 * all of their documents, on every shard.
 */
function citusDocuments(
  runner: StatementRunner,
  nodes: CitusNodes,
  collection: CollectionDefinition,
  texts: DocumentTexts,
): Documents {
  // Each node has its own, so that one that does not respond cannot occupy all connections.
  const readersOfNodes = new Map<number, PageReaders>();
  const insertRows = (query: Query, kind: 'insert' | 'replace', writes: readonly Write[]) =>
    query(...insertion(texts, kind, columnsOf(writes)));
  const deleteRows: WriteDocuments = (query, writes) =>
    query(texts.delete, [...columnsOf(writes).slice(0, 2), Infinity]);
  const changeRows: WriteDocuments = async (query, writes) => {
    const rows = await query(texts.lock, columnsOf(writes).slice(0, 2));
    const stored = new Map(rows.map(([, id, text]) => [id, text as string | null]));
    const decided = writes.flatMap((write) => {
      const text = stored.get(`${write.id}`);
      if (text === undefined) return [];
      return { write, outcome: text === null ? null : outcomeOf(write, text) };
    });
    const those = (wanted: string) =>
      decided.flatMap(({ write, outcome }) => (outcome === wanted ? write : []));
    const [deleted, replaced] = [those('deleted'), those('replaced')];
    if (deleted.length > 0) await deleteRows(query, deleted);
    if (replaced.length > 0) await insertRows(query, 'replace', replaced);
    return decided.map(({ write: { subject, id }, outcome }) => [subject, `${id}`, outcome]);
  };
  const read = <T>(subject: string, from: (readers: PageReaders, shard: string) => Promise<T>): Promise<T> =>
    nodes.run(subject, async () => {
      const [placement] = await nodes.placementsOf([subject]);
      if (placement === undefined)
        throw new StorageError('unavailable', 'Citus knows no placement of the subject');
      const { node, shard } = placement;
      const readers =
        readersOfNodes.get(node) ?? createPageReaders(runner, collection, texts, nodes.requireReachable);
      readersOfNodes.set(node, readers);
      return from(readers, shard);
    });
  const { texts: readTexts, stored, storedOfAll } = storedReader(runner, collection);
  return {
    texts: (subject, ids) => nodes.run(subject, () => readTexts(subject, ids)),
    stored: (subject, range) => nodes.run(subject, () => stored(subject, range)),
    storedOfAll,
    insert: (query, all) => insertRows(query, 'insert', all),
    compare: (writes, deadline) =>
      bySubject(writes, (own) => runner.read(texts.compare(), columnsOf(own), deadline)),
    delete: (query, all) => bySubject(all, (own) => deleteRows(query, own)),
    change: (query, all) => bySubject(all, (own) => changeRows(query, own)),
    page: (subject, page) => read(subject, (readers, shard) => readers.page(subject, page, shard)),
    countPart: (subject, bounds) =>
      read(subject, (readers, shard) => readers.countPart(subject, bounds, shard)),
  };
}

/** Citus routes rows of VALUES to their shards, but would first write rows from unnest() to intermediate files. */
function insertion(
  { into, onConflict }: DocumentTexts,
  kind: 'insert' | 'replace',
  [subjects, ids, texts]: ReturnType<typeof columnsOf>,
): [text: string, values: unknown[]] {
  const rows = subjects.map((_, i) => `($${3 * i + 1}, $${3 * i + 2}, $${3 * i + 3})`).join();
  // A statement has at most 65,535 parameters, far more than those of a batch.
  const values = subjects.flatMap((subject, i) => [subject, ids[i], texts[i]]);
  return [`${into} VALUES ${rows} ON CONFLICT ${onConflict[kind]}`, values];
}

/** Does work for one subject after the other, and returns all rows. */
async function bySubject(writes: readonly Write[], work: (own: readonly Write[]) => Promise<Row[]>) {
  const rows: Row[] = [];
  for (const own of groupBy(writes, ({ subject }) => subject).values()) rows.push(...(await work(own)));
  return rows;
}

/** Groups items by a key, in order. */
function groupBy<T, K>(items: readonly T[], keyOf: (item: T, index: number) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const [i, item] of items.entries()) {
    const key = keyOf(item, i);
    const group = groups.get(key) ?? [];
    group.push(item);
    groups.set(key, group);
  }
  return groups;
}
