-- oldest-application: 1.1.0

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
CREATE FUNCTION plants_pages_v2(subjects text[], starts bigint[], stops bigint[], limits int[], directions boolean[])
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
        FROM (SELECT stored.id, stored.plant AS text
              FROM plants AS stored
              WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
              ORDER BY stored.id DESC LIMIT step_limit) AS following;
      ELSIF stops[place] IS NULL THEN
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.plant AS text
              FROM plants AS stored
              WHERE stored.subject = page_subject AND stored.id >= start
              ORDER BY stored.id LIMIT step_limit) AS following;
      ELSE
        SELECT string_agg(text, ',') FILTER (WHERE octet_length(text) < 524) AS page, count(*)::int AS count,
               max(id) AS last, max(octet_length(text)) >= 524 AS has_long
        INTO step
        FROM (SELECT stored.id, stored.plant AS text
              FROM plants AS stored
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
                      FROM (SELECT stored.id, stored.plant AS text, octet_length(stored.plant) + 1 AS bytes
                            FROM plants AS stored
                            WHERE stored.subject = page_subject AND stored.id >= start AND stored.id <= stop
                            ORDER BY stored.id DESC LIMIT step_limit) AS following) AS measured) AS chosen;
        ELSE
          SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
                 CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
          INTO page, count, last
          FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
                FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                      FROM (SELECT stored.id, stored.plant AS text, octet_length(stored.plant) + 1 AS bytes
                            FROM plants AS stored
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
