-- oldest-application: 1.2.0

-- `project` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `project::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that
-- a change of the system's collations cannot corrupt the index.
CREATE TABLE projects (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  project text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION projects_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.project AS text
              FROM projects AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.project AS text
              FROM projects AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.project AS text
              FROM projects AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.project AS text, octet_length(stored.project) + 1 AS bytes
                            FROM projects AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.project AS text, octet_length(stored.project) + 1 AS bytes
                            FROM projects AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION projects_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM projects AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM projects WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION projects_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM projects AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.project AS stored_text FROM projects AS stored
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

  INSERT INTO projects (subject, id, project)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET project = excluded.project;

  DELETE FROM projects WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `timer` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `timer::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that a
-- change of the system's collations cannot corrupt the index.
CREATE TABLE timers (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  timer text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION timers_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.timer AS text
              FROM timers AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.timer AS text
              FROM timers AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.timer AS text
              FROM timers AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.timer AS text, octet_length(stored.timer) + 1 AS bytes
                            FROM timers AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.timer AS text, octet_length(stored.timer) + 1 AS bytes
                            FROM timers AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION timers_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM timers AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM timers WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION timers_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM timers AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.timer AS stored_text FROM timers AS stored
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

  INSERT INTO timers (subject, id, timer)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET timer = excluded.timer;

  DELETE FROM timers WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `entry` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `entry::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that a
-- change of the system's collations cannot corrupt the index.
CREATE TABLE entries (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  entry text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION entries_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM entries AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM entries AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM entries AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.entry AS text, octet_length(stored.entry) + 1 AS bytes
                            FROM entries AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.entry AS text, octet_length(stored.entry) + 1 AS bytes
                            FROM entries AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION entries_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM entries AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM entries WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION entries_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM entries AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.entry AS stored_text FROM entries AS stored
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

  INSERT INTO entries (subject, id, entry)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET entry = excluded.entry;

  DELETE FROM entries WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `entry` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `entry::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that a
-- change of the system's collations cannot corrupt the index.
CREATE TABLE unbilled (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  entry text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION unbilled_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM unbilled AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM unbilled AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.entry AS text
              FROM unbilled AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.entry AS text, octet_length(stored.entry) + 1 AS bytes
                            FROM unbilled AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.entry AS text, octet_length(stored.entry) + 1 AS bytes
                            FROM unbilled AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION unbilled_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM unbilled AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM unbilled WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION unbilled_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM unbilled AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.entry AS stored_text FROM unbilled AS stored
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

  INSERT INTO unbilled (subject, id, entry)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET entry = excluded.entry;

  DELETE FROM unbilled WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `invoice` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `invoice::json ->> 'name'` shows a field. The collation "C" orders subjects by bytes, so
-- that a change of the system's collations cannot corrupt the index.
CREATE TABLE invoices (
  subject text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  invoice text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. NULL is greater than any id. The result has a row for each page, in order: its
-- text, the number of documents, and the last id if more may follow. A page has at most 256 KiB or a single document.
-- After 1 MiB, the remaining pages have no row, because the result of the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION invoices_pages_v2(subjects text[], starts bigint[], stops bigint[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last bigint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start bigint;
  stop bigint;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], 9223372036854775807);
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.invoice AS text
              FROM invoices AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.invoice AS text
              FROM invoices AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.invoice AS text
              FROM invoices AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.invoice AS text, octet_length(stored.invoice) + 1 AS bytes
                            FROM invoices AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.invoice AS text, octet_length(stored.invoice) + 1 AS bytes
                            FROM invoices AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last - 1;
      ELSE
        start := last + 1;
      END IF;
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
CREATE FUNCTION invoices_delete_v1(subjects text[], ids bigint[])
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
      SELECT stored.ctid AS place FROM invoices AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM invoices WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION invoices_change_v1(subjects text[], ids bigint[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM invoices AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.invoice AS stored_text FROM invoices AS stored
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

  INSERT INTO invoices (subject, id, invoice)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET invoice = excluded.invoice;

  DELETE FROM invoices WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `counter` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json
-- values cannot be compared; `counter::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that
-- a change of the system's collations cannot corrupt the index.
CREATE TABLE counters (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  counter text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION counters_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.counter AS text
              FROM counters AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.counter AS text
              FROM counters AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.counter AS text
              FROM counters AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.counter AS text, octet_length(stored.counter) + 1 AS bytes
                            FROM counters AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.counter AS text, octet_length(stored.counter) + 1 AS bytes
                            FROM counters AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION counters_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM counters AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM counters WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION counters_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM counters AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.counter AS stored_text FROM counters AS stored
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

  INSERT INTO counters (subject, id, counter)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET counter = excluded.counter;

  DELETE FROM counters WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- `kept` is JSON, exactly as in responses: a list is these texts joined by commas. The type is text because json values
-- cannot be compared; `kept::json ->> 'name'` shows a field. The collation "C" orders texts by bytes, so that a change
-- of the system's collations cannot corrupt the index.
CREATE TABLE keys (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  kept text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Reads pages of documents. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have, for each page, the subject, the least and the greatest id, the maximum number of documents, and
-- whether the last documents come first. If they do, the greatest id is not in the page. NULL is greater than any id.
-- The result has a row for each page, in order: its text, the number of documents, and the last id if more may follow.
-- A page has at most 256 KiB or a single document. After 1 MiB, the remaining pages have no row, because the result of
-- the function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed
-- that the subject has fewer documents than the limit, it would read and sort all of them. Each direction has its own
-- statements, since a plan has one; so have pages without a greatest id, which are most of them, since PostgreSQL would
-- compare it with every id of an index page.
--
-- A step of 500 documents with at most 524 bytes each, including commas, fits into a page. Only if it has a longer one
-- do the lengths have to be added up; the text omits such documents, so that it stays small. What earlier steps have
-- read is a page without them. PostgreSQL knows the length of a long text without reading it.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION keys_pages_v2(subjects text[], starts text[], stops text[], limits int[], directions boolean[])
RETURNS TABLE (page text, count int, last text)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  page_subject text;
  start text;
  stop text;
  descending boolean;
  step_limit int;
  step record;
  bytes_read int := 0;
BEGIN
  FOR place IN 1 .. cardinality(subjects) LOOP
    page_subject := subjects[place];
    start := starts[place];
    stop := coalesce(stops[place], repeat(chr(1114111), 129));
    descending := directions[place];
    page := NULL;
    count := 0;
    last := NULL;
    LOOP
      step_limit := least(limits[place] - count, 500);
      IF descending THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               min(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.kept AS text
              FROM keys AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.kept AS text
              FROM keys AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.kept AS text
              FROM keys AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id LIMIT step_limit) AS following;
      END IF;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        IF descending THEN
          SELECT string_agg(text, ',' ORDER BY id DESC) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN min(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id DESC ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.kept AS text, octet_length(stored.kept) + 1 AS bytes
                            FROM keys AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id < stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.kept AS text, octet_length(stored.kept) + 1 AS bytes
                            FROM keys AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id LIMIT step_limit) AS following) AS measured) AS chosen;
        END IF;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit AND step.last <> CASE WHEN descending THEN start ELSE stop END
                   THEN step.last END;
      EXIT WHEN last IS NULL OR count = limits[place] OR octet_length(page) >= 131072;
      IF descending THEN
        stop := last;
      ELSE
        start := last || E'\x01';
      END IF;
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
CREATE FUNCTION keys_delete_v1(subjects text[], ids text[])
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
      SELECT stored.ctid AS place FROM keys AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM keys WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
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
CREATE FUNCTION keys_change_v1(subjects text[], ids text[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM keys AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.kept AS stored_text FROM keys AS stored
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

  INSERT INTO keys (subject, id, kept)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET kept = excluded.kept;

  DELETE FROM keys WHERE ctid = ANY (ARRAY(
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
