-- oldest-application: 1.0.0

-- Reads pages of plants. PostgreSQL plans the statements of a function once per session, behind any pooler.
--
-- The arrays have the subject, the first id and the maximum number of plants of each page. The result has a row for each
-- page, in order: the text of its plants, joined by commas, their number, and the last id if more plants may follow. A
-- page has at most 256 KiB or a single plant. After 1 MiB, the remaining pages have no row, because the result of the
-- function is in memory as a whole.
--
-- The plans must not depend on the statistics of the table, which may be missing or stale. Plans for unknown values
-- expect to read a tenth of the rows, for which only the index is cheap. If the planner knew the values and assumed that
-- the subject has fewer plants than the limit, it would read and sort all of them.
--
-- Older servers call the function until they have been updated, so a different function needs a different name.
CREATE FUNCTION plant_pages(subjects text[], starts bigint[], limits int[])
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
      -- A step of 500 plants with at most 524 bytes each, including commas, has at most 256 KiB. Only if it has a longer
      -- plant do the lengths have to be added up; the text omits such plants, so that it stays small.
      step_limit := least(limits[place] - count, 500);
      SELECT string_agg(plant, ',') FILTER (WHERE octet_length(plant) < 524) AS page, count(*)::int AS count,
             max(id) AS last, max(octet_length(plant)) >= 524 AS has_long
      INTO step
      FROM (SELECT id, plant FROM plants WHERE subject = page_subject AND id >= start
            ORDER BY id LIMIT step_limit) AS following;
      IF step.has_long THEN
        -- Plants from earlier steps are a page without this one.
        EXIT WHEN count > 0;
        -- PostgreSQL knows the length of a long text without reading it.
        SELECT string_agg(plant, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
        INTO page, count, last
        FROM (SELECT id, plant, total <= 262144 OR total = bytes AS fits
              FROM (SELECT id, plant, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                    FROM (SELECT id, plant, octet_length(plant) + 1 AS bytes
                          FROM plants WHERE subject = page_subject AND id >= start
                          ORDER BY id LIMIT step_limit) AS following) AS measured) AS chosen;
        EXIT;
      END IF;
      EXIT WHEN octet_length(page) + octet_length(step.page) >= 262144;
      page := concat_ws(',', page, step.page);
      count := count + step.count;
      last := CASE WHEN step.count = step_limit THEN step.last END;
      EXIT WHEN last IS NULL OR last = 9223372036854775807 OR count = limits[place] OR octet_length(page) >= 131072;
      start := last + 1;
    END LOOP;
    RETURN NEXT;
    bytes_read := bytes_read + coalesce(octet_length(page), 0);
    EXIT WHEN bytes_read >= 1048576;
  END LOOP;
END
$$;
