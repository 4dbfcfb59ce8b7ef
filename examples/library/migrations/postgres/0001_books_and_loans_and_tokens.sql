-- oldest-application: 1.1.0

-- `book` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json values
-- cannot be compared. The collation "C" orders texts by bytes, so that a change of the system's collations cannot
-- corrupt the index.
CREATE TABLE books (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  book text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have the subject, the first id and the maximum number of documents of each page. The result has a row for
-- each page, in order: its text, the number of documents, and the last id if more may follow. A page has at most 256
-- KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of the function is in
-- memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION books_pages_v1(subjects text[], starts text[], limits int[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
             max(id) AS last, max(octet_length(text)) >= 524 AS has_long
      INTO step
      FROM (SELECT stored.id, stored.book AS text FROM books AS stored
            WHERE stored.subject = page_subject AND stored.id >= start
            ORDER BY stored.id LIMIT step_limit) AS following;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
        INTO page, count, last
        FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
              FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                    FROM (SELECT stored.id, stored.book AS text, octet_length(stored.book) + 1 AS bytes
                          FROM books AS stored
                          WHERE stored.subject = page_subject AND stored.id >= start
                          ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place]
        OR octet_length(page) >= 131072;
      start := last || E'\x01';
    END LOOP;
    RETURN NEXT;
    bytes_read := bytes_read + coalesce(octet_length(page), 0);
    EXIT WHEN bytes_read >= 1048576;
  END LOOP;
END
$$;

-- Deletes documents, and returns for each one that exists whether this call deleted it. It is a function for the sake
-- of its plan: planning this statement takes longer than running it.
--
-- BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics. The rows are
-- deleted by physical location (ctid), whose order is the order in which all processes lock them.
CREATE FUNCTION books_delete_v1(subjects text[], ids text[])
RETURNS TABLE (subject text, id text, deleted boolean)
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
      SELECT stored.ctid AS place FROM books AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM books WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
  )
  SELECT subject, id, gone.id IS NOT NULL FROM found LEFT JOIN gone USING (subject, id);
END
$$;

-- Replaces documents, or deletes those whose new text is NULL, and returns for each one that exists the outcome. An
-- expected text that is not NULL must be the stored one. The outcome is NULL if another transaction has changed the
-- document.
--
-- The first statement finds and locks the rows as the function that deletes does: each key is looked up in the index,
-- and the rows are locked in the order of their physical location (ctid). The plan of an UPDATE with a join would
-- depend on statistics. The INSERT has none, and since its rows exist and are locked, it updates all of them.
CREATE FUNCTION books_change_v1(subjects text[], ids text[], texts text[], expected text[])
RETURNS TABLE (subject text, id text, outcome text)
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
      SELECT stored.ctid AS place FROM books AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.book AS stored_text FROM books AS stored
    WHERE stored.ctid = ANY (ARRAY(SELECT place FROM found)) FOR UPDATE
  )
  SELECT array_agg(subject), array_agg(id), array_agg(found.text), array_agg(locked.place),
         array_agg(CASE WHEN stored_text IS NULL THEN NULL
                        WHEN stored_text = found.text THEN 'same'
                        WHEN stored_text <> found.expected THEN 'other'
                        WHEN found.text IS NULL THEN 'deleted'
                        ELSE 'replaced' END)
  INTO subjects, ids, texts, places, outcomes
  FROM found LEFT JOIN locked USING (subject, id);

  INSERT INTO books (subject, id, book)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET book = excluded.book;

  DELETE FROM books WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `loan` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json values
-- cannot be compared. The collation "C" orders subjects by bytes, so that a change of the system's collations cannot
-- corrupt the index.
CREATE TABLE loans (
  subject text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  loan text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have the subject, the first id and the maximum number of documents of each page. The result has a row for
-- each page, in order: its text, the number of documents, and the last id if more may follow. A page has at most 256
-- KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of the function is in
-- memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION loans_pages_v1(subjects text[], starts bigint[], limits int[])
RETURNS TABLE (page text, count int, last bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start bigint;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
             max(id) AS last, max(octet_length(text)) >= 524 AS has_long
      INTO step
      FROM (SELECT stored.id, stored.loan AS text FROM loans AS stored
            WHERE stored.subject = page_subject AND stored.id >= start
            ORDER BY stored.id LIMIT step_limit) AS following;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
        INTO page, count, last
        FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
              FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                    FROM (SELECT stored.id, stored.loan AS text, octet_length(stored.loan) + 1 AS bytes
                          FROM loans AS stored
                          WHERE stored.subject = page_subject AND stored.id >= start
                          ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit THEN step.last END;
      EXIT WHEN last IS NULL OR last = 9223372036854775807 OR count = limits[place]
        OR octet_length(page) >= 131072;
      start := last + 1;
    END LOOP;
    RETURN NEXT;
    bytes_read := bytes_read + coalesce(octet_length(page), 0);
    EXIT WHEN bytes_read >= 1048576;
  END LOOP;
END
$$;

-- Deletes documents, and returns for each one that exists whether this call deleted it. It is a function for the sake
-- of its plan: planning this statement takes longer than running it.
--
-- BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics. The rows are
-- deleted by physical location (ctid), whose order is the order in which all processes lock them.
CREATE FUNCTION loans_delete_v1(subjects text[], ids bigint[])
RETURNS TABLE (subject text, id bigint, deleted boolean)
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
      SELECT stored.ctid AS place FROM loans AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM loans WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
  )
  SELECT subject, id, gone.id IS NOT NULL FROM found LEFT JOIN gone USING (subject, id);
END
$$;

-- Replaces documents, or deletes those whose new text is NULL, and returns for each one that exists the outcome. An
-- expected text that is not NULL must be the stored one. The outcome is NULL if another transaction has changed the
-- document.
--
-- The first statement finds and locks the rows as the function that deletes does: each key is looked up in the index,
-- and the rows are locked in the order of their physical location (ctid). The plan of an UPDATE with a join would
-- depend on statistics. The INSERT has none, and since its rows exist and are locked, it updates all of them.
CREATE FUNCTION loans_change_v1(subjects text[], ids bigint[], texts text[], expected text[])
RETURNS TABLE (subject text, id bigint, outcome text)
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
      SELECT stored.ctid AS place FROM loans AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.loan AS stored_text FROM loans AS stored
    WHERE stored.ctid = ANY (ARRAY(SELECT place FROM found)) FOR UPDATE
  )
  SELECT array_agg(subject), array_agg(id), array_agg(found.text), array_agg(locked.place),
         array_agg(CASE WHEN stored_text IS NULL THEN NULL
                        WHEN stored_text = found.text THEN 'same'
                        WHEN stored_text <> found.expected THEN 'other'
                        WHEN found.text IS NULL THEN 'deleted'
                        ELSE 'replaced' END)
  INTO subjects, ids, texts, places, outcomes
  FROM found LEFT JOIN locked USING (subject, id);

  INSERT INTO loans (subject, id, loan)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET loan = excluded.loan;

  DELETE FROM loans WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- Times are in milliseconds since the epoch; `hash` is the SHA-256 of the secret; scopes are separated by spaces.
CREATE TABLE tokens (
  id text NOT NULL PRIMARY KEY,
  hash bytea NOT NULL UNIQUE,
  subject text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);
