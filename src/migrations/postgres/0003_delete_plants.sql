-- oldest-application: 1.0.0

-- Deletes plants, and returns for each plant that exists whether this call deleted it. Like plant_pages, it is a function
-- for the sake of its plan: planning this statement takes longer than running it.
--
-- BETWEEN and ORDER BY make PostgreSQL look up each key in the index, regardless of its statistics. The plants are
-- deleted by physical location (ctid), whose order is the order in which all processes lock the rows.
CREATE FUNCTION delete_plants(subjects text[], ids bigint[])
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
      SELECT plants.ctid AS place FROM plants
      WHERE plants.subject = given.subject AND plants.id BETWEEN given.id AND given.id
      ORDER BY plants.id LIMIT 1
    ) AS plant
  ), gone AS (
    DELETE FROM plants WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
  )
  SELECT subject, id, gone.id IS NOT NULL FROM found LEFT JOIN gone USING (subject, id);
END
$$;
