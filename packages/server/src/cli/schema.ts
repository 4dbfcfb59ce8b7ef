// Renders what a migration creates for a collection, from its definition.
import { DatabaseSync } from '@photostructure/sqlite';
import { messageOf, type CollectionDefinition } from '../storage/interface.js';
import { bytesTogether, enoughBytes, pageBytes, pageRows, shortBytes } from '../storage/page-size.js';
import { functionsOf, greatestOf, pageOrder, type PageOrder } from '../storage/postgres/page-order.js';
import { idTypes } from '../storage/postgres/statements.js';
import { tokenIndexes } from '../storage/token-row.js';
import { outcomeInSql } from '../storage/writes.js';
import { longBytes, longIndexOf } from '../storage/sqlite/page-reader.js';

/** An object of a schema. */
export interface SchemaObject {
  readonly name: string;
  /** Why it is as it is. */
  readonly comment: string;
  /** The statement that creates it. */
  readonly sql: string;
}

/** Renders the objects of a schema for an engine. */
interface Renderer {
  /** The table of access tokens, which every service has, and its indexes. */
  readonly tokens: readonly SchemaObject[];
  readonly objectsOf: (collection: CollectionDefinition) => SchemaObject[];
}

function tokens({ bytes, integer, end }: Record<'bytes' | 'integer' | 'end', string>): SchemaObject[] {
  const isPostgres = bytes === 'bytea';
  const text = isPostgres ? 'text' : 'TEXT';
  const [bySubject, byEnd] = tokenIndexes;
  const table = {
    name: 'tokens',
    comment:
      'Times are in milliseconds since the epoch; `hash` is the SHA-256 of the secret; scopes are separated by spaces.',
    sql: `CREATE TABLE tokens (
  id ${text} NOT NULL PRIMARY KEY,
  hash ${bytes} NOT NULL UNIQUE,
  subject ${text} NOT NULL,
  scopes ${text} NOT NULL,
  created_at ${integer} NOT NULL,
  expires_at ${integer},
  revoked_at ${integer}
)${end};`,
  };
  const subject = isPostgres ? 'subject COLLATE "C"' : 'subject';
  return [
    table,
    {
      name: bySubject,
      comment: 'Finds the valid tokens of a subject.',
      sql: `CREATE INDEX ${bySubject} ON tokens (${subject}, expires_at) WHERE revoked_at IS NULL;`,
    },
    {
      name: byEnd,
      comment:
        'When the server may delete a token that a handler issued. Tokens of operators have no such time: they stay until "token prune".',
      sql: `ALTER TABLE tokens ADD COLUMN prune_at ${integer};
CREATE INDEX ${byEnd} ON tokens (prune_at) WHERE prune_at IS NOT NULL;`,
    },
  ];
}

/** For each engine, what renders the objects of a service. */
export const rendered: Readonly<Record<'sqlite' | 'postgres', Renderer>> = {
  sqlite: {
    tokens: tokens({ bytes: 'BLOB', integer: 'INTEGER', end: ' STRICT' }),
    objectsOf(collection) {
      const { name, column, id } = collection;
      return [
        {
          name,
          comment: `\`${column}\` is JSON, exactly as in responses: a list is these texts joined by commas. \`${column} ->> '$.name'\` shows a field.`,
          sql: `CREATE TABLE ${name} (
  subject TEXT NOT NULL,
  id ${id === 'text' ? 'TEXT' : 'INTEGER'} NOT NULL,
  ${column} TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;`,
        },
        {
          name: longIndexOf(collection),
          comment:
            'Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.',
          sql: `CREATE INDEX ${longIndexOf(collection)} ON ${name} (subject, id) WHERE octet_length(${column}) > ${longBytes};`,
        },
      ];
    },
  },
  postgres: {
    tokens: tokens({ bytes: 'bytea', integer: 'bigint', end: '' }),
    objectsOf(collection) {
      const { name, column, id } = collection;
      return [
        {
          name,
          comment: `\`${column}\` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json values cannot be compared; \`${column}::json ->> 'name'\` shows a field. The collation "C" orders ${id === 'text' ? 'texts' : 'subjects'} by bytes, so that a change of the system's collations cannot corrupt the index.`,
          sql: `CREATE TABLE ${name} (
  subject text COLLATE "C" NOT NULL,
  id ${id === 'text' ? 'text COLLATE "C"' : 'bigint'} NOT NULL,
  ${column} text NOT NULL,
  PRIMARY KEY (subject, id)
);`,
        },
        pagesFunction(collection),
        deleteFunction(collection),
        changeFunction(collection),
      ];
    },
  },
};

/** Why no table can be created for a collection; undefined if it can be created. */
export function faultOf(collection: CollectionDefinition): string | undefined {
  const database = new DatabaseSync(':memory:');
  try {
    for (const { sql } of rendered.sqlite.objectsOf(collection)) database.exec(sql);
    return undefined;
  } catch (error) {
    return `SQLite cannot create ${collection.name} (${messageOf(error)}): choose other names.`;
  } finally {
    database.close();
  }
}

function pagesFunction(collection: CollectionDefinition): SchemaObject {
  const { name: table, column, id } = collection;
  const type = idTypes[id];
  const { pages: name } = functionsOf(collection);
  const [ascending, descending] = [pageOrder(id, false), pageOrder(id, true)];
  const documents = (
    { within, direction }: PageOrder,
    columns: string,
    indent: string,
    condition = within('stored.id', 'start', 'stop'),
  ) =>
    `(SELECT ${columns}
${indent} FROM ${table} AS stored
${indent} WHERE stored.subject = page_subject AND ${condition}
${indent} ORDER BY stored.id${direction} LIMIT step_limit) AS following`;
  const step = (order: PageOrder, condition?: string) => `
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < ${shortBytes}) AS page, count(*)::int AS count,
               ${order.last}(id) AS last, max(octet_length(text)) >= ${shortBytes} AS has_long
        INTO step
        FROM ${documents(order, `stored.id, stored.${column} AS text`, ' '.repeat(13), condition)};`;
  const withLong = (order: PageOrder) => `
          SELECT string_agg(text, ',' ORDER BY id${order.direction}) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN ${order.last}(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= ${pageBytes} OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id${order.direction} ROWS UNBOUNDED PRECEDING) AS total
                      FROM ${documents(order, `stored.id, stored.${column} AS text, octet_length(stored.${column}) + 1 AS bytes`, ' '.repeat(27))}) AS measured) AS chosen;`;
  return {
    name,
    comment: `Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.

The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and whether the last documents come first.${id === 'text' ? ' If they do, the greatest id is not in the page.' : ''} NULL is greater than any id. The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow. A page has at most ${pageBytes / 1024} KiB or a single document. After ${bytesTogether / 1024 / 1024} MiB, the remaining pages have no row, because the result of the function is in memory as a whole.

The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would compare it with every id of an index page.

A step of ${pageRows} documents with at most ${shortBytes} bytes each, including commas, fits into a page. Only if it has a longer one do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have read is a page without them. PostgreSQL knows the length of a long text without reading it.

Older servers call the function until they have been updated, so a different function needs a different name.`,
    sql: `CREATE FUNCTION ${name}(subjects text[], starts ${type}[], stops ${type}[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last ${type})
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start ${type};
  stop ${type};
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], ${greatestOf[id]});
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, ${pageRows});
      IF descending THEN${step(descending)}
      ELSIF stops[place] IS NULL THEN${step(ascending, 'stored.id >= start')}
      ELSE${step(ascending)}
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN${withLong(descending)}
        ELSE${withLong(ascending)}
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= ${pageBytes};
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN ${descending.end} ELSE ${ascending.end} END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= ${enoughBytes};
      IF descending THEN
        ${descending.moving} := ${descending.following('last')};
      ELSE
        ${ascending.moving} := ${ascending.following('last')};
      END IF;
    END LOOP;
    RETURN NEXT;
    bytes_read := bytes_read + coalesce(octet_length(page), 0);
    EXIT WHEN bytes_read >= ${bytesTogether};
  END LOOP;
END
$$;`,
  };
}

function deleteFunction(collection: CollectionDefinition): SchemaObject {
  const { name: table, id } = collection;
  const type = idTypes[id];
  const { delete: name } = functionsOf(collection);
  return {
    name,
    comment: `Deletes documents, and returns for each one that exists whether this call deleted it. It is a function for the sake of its plan: planning this statement takes longer than running it.

BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics. The rows are deleted by physical location (ctid), whose order is the order in which all processes lock them.`,
    sql: `CREATE FUNCTION ${name}(subjects text[], ids ${type}[])
RETURNS TABLE (subject text, id ${type}, deleted boolean)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH found AS (
    SELECT subject, id, place
    FROM unnest(subjects, ids) AS given (subject, id)
    CROSS JOIN LATERAL (
      SELECT stored.ctid AS place FROM ${table} AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
  )
  SELECT subject, id, gone.id IS NOT NULL FROM found LEFT JOIN gone USING (subject, id);
END
$$;`,
  };
}

function changeFunction(collection: CollectionDefinition): SchemaObject {
  const { name: table, column, id } = collection;
  const type = idTypes[id];
  const { change: name } = functionsOf(collection);
  return {
    name,
    comment: `Replaces documents, or deletes those whose new text is NULL, and returns for each one that exists the outcome. An expected text that is not NULL must be the stored one. The outcome is NULL if another transaction has changed the document.

The first statement finds and locks the rows as the function that deletes does: each key is looked up in the index, and the rows are locked in the order of their physical location (ctid). The plan of an UPDATE with a join would depend on statistics. The INSERT has none, and since its rows exist and are locked, it updates all of them.`,
    sql: `CREATE FUNCTION ${name}(subjects text[], ids ${type}[], texts text[], expected text[])
RETURNS TABLE (subject text, id ${type}, outcome text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  places tid[];
  outcomes text[];
  deleted bigint;
BEGIN
  WITH found AS (
    SELECT subject, id, text, expected, place
    FROM unnest(subjects, ids, texts, expected) AS given (subject, id, text, expected)
    CROSS JOIN LATERAL (
      SELECT stored.ctid AS place FROM ${table} AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.${column} AS stored_text FROM ${table} AS stored
    WHERE stored.ctid = ANY (ARRAY(SELECT place FROM found)) FOR UPDATE
  )
  SELECT array_agg(subject), array_agg(id), array_agg(found.text), array_agg(locked.place),
         array_agg(${outcomeInSql('stored_text', 'found')})
  INTO subjects, ids, texts, places, outcomes
  FROM found LEFT JOIN locked USING (subject, id);

  INSERT INTO ${table} (subject, id, ${column})
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET ${column} = excluded.${column};

  DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;`,
  };
}
