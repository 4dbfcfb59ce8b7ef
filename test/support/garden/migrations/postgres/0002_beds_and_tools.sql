-- oldest-application: 1.0.0

-- Replaces documents, or deletes those whose new text is NULL, and returns for each one that exists the outcome. An
-- expected text that is not NULL must be the stored one. The outcome is NULL if another transaction has changed the
-- document.
--
-- The first statement finds and locks the rows as the function that deletes does: each key is looked up in the index,
-- and the rows are locked in the order of their physical location (ctid). The plan of an UPDATE with a join would
-- depend on statistics. The INSERT has none, and since its rows exist and are locked, it updates all of them.
CREATE FUNCTION beds_change_v1(subjects text[], ids bigint[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM beds AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.bed AS stored_text FROM beds AS stored
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

  INSERT INTO beds (subject, id, bed)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET bed = excluded.bed;

  DELETE FROM beds WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

-- Replaces documents, or deletes those whose new text is NULL, and returns for each one that exists the outcome. An
-- expected text that is not NULL must be the stored one. The outcome is NULL if another transaction has changed the
-- document.
--
-- The first statement finds and locks the rows as the function that deletes does: each key is looked up in the index,
-- and the rows are locked in the order of their physical location (ctid). The plan of an UPDATE with a join would
-- depend on statistics. The INSERT has none, and since its rows exist and are locked, it updates all of them.
CREATE FUNCTION tools_change_v1(subjects text[], ids bigint[], texts text[], expected text[])
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
      SELECT stored.ctid AS place FROM tools AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.tool AS stored_text FROM tools AS stored
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

  INSERT INTO tools (subject, id, tool)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET tool = excluded.tool;

  DELETE FROM tools WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;
