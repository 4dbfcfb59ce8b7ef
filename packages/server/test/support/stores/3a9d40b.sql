-- A store of commit 3a9d40b, as pg_dump writes it, without settings and comments.

CREATE FUNCTION delete_plants(subjects text[], ids bigint[]) RETURNS TABLE(subject text, id bigint, deleted boolean)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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

CREATE FUNCTION plant_pages(subjects text[], starts bigint[], limits integer[]) RETURNS TABLE(page text, count integer, last bigint)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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

CREATE FUNCTION plants_change_v1(subjects text[], ids bigint[], texts text[], expected text[]) RETURNS TABLE(subject text, id bigint, outcome text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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
      SELECT stored.ctid AS place FROM plants AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), locked AS (
    SELECT stored.subject, stored.id, stored.ctid AS place, stored.plant AS stored_text FROM plants AS stored
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

  INSERT INTO plants (subject, id, plant)
  SELECT subject, id, text FROM unnest(subjects, ids, texts, outcomes) AS given (subject, id, text, outcome)
  WHERE outcome = 'replaced'
  ON CONFLICT (subject, id) DO UPDATE SET plant = excluded.plant;

  DELETE FROM plants WHERE ctid = ANY (ARRAY(
    SELECT place FROM unnest(places, outcomes) AS given (place, outcome) WHERE outcome = 'deleted'));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  IF deleted <> cardinality(array_positions(outcomes, 'deleted')) THEN
    RAISE serialization_failure USING MESSAGE = 'a locked document has moved';
  END IF;

  RETURN QUERY SELECT * FROM unnest(subjects, ids, outcomes);
END
$$;

CREATE FUNCTION plants_delete_v1(subjects text[], ids bigint[]) RETURNS TABLE(subject text, id bigint, deleted boolean)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH found AS (
    SELECT subject, id, place
    FROM unnest(subjects, ids) AS given (subject, id)
    CROSS JOIN LATERAL (
      SELECT stored.ctid AS place FROM plants AS stored
      WHERE stored.subject = given.subject AND stored.id BETWEEN given.id AND given.id
      ORDER BY stored.id LIMIT 1
    ) AS row_found
  ), gone AS (
    DELETE FROM plants WHERE ctid = ANY (ARRAY(SELECT place FROM found)) RETURNING subject, id
  )
  SELECT subject, id, gone.id IS NOT NULL FROM found LEFT JOIN gone USING (subject, id);
END
$$;

CREATE FUNCTION plants_pages_v1(subjects text[], starts bigint[], limits integer[]) RETURNS TABLE(page text, count integer, last bigint)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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
      FROM (SELECT stored.id, stored.plant AS text FROM plants AS stored
            WHERE stored.subject = page_subject AND stored.id >= start
            ORDER BY stored.id LIMIT step_limit) AS following;
      IF step.has_long THEN
        EXIT WHEN count > 0;
        SELECT string_agg(text, ',' ORDER BY id) FILTER (WHERE fits), (count(*) FILTER (WHERE fits))::int,
               CASE WHEN count(*) = step_limit OR NOT bool_and(fits) THEN max(id) FILTER (WHERE fits) END
        INTO page, count, last
        FROM (SELECT id, text, total <= 262144 OR total = bytes AS fits
              FROM (SELECT id, text, bytes, sum(bytes) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
                    FROM (SELECT stored.id, stored.plant AS text, octet_length(stored.plant) + 1 AS bytes
                          FROM plants AS stored
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

CREATE TABLE migrations (
    version integer NOT NULL,
    name text NOT NULL,
    oldest_application text NOT NULL,
    applied_at bigint NOT NULL
);

CREATE TABLE plants (
    subject text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    plant text NOT NULL
);

CREATE TABLE tokens (
    id text NOT NULL,
    hash bytea NOT NULL,
    subject text NOT NULL,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint
);

INSERT INTO migrations VALUES (1, 'plants_and_tokens', '1.0.0', 1795452118867);
INSERT INTO migrations VALUES (2, 'plant_pages', '1.0.0', 1795452118869);
INSERT INTO migrations VALUES (3, 'delete_plants', '1.0.0', 1795452118870);
INSERT INTO migrations VALUES (4, 'plants', '1.0.0', 1795452118870);

INSERT INTO plants VALUES ('alice', -9223372036854775808, '{"name":"first"}');
INSERT INTO plants VALUES ('alice', 1, '{"name":"a \"b\" \\ \u0001 ä 😀","tag":""}');
INSERT INTO plants VALUES ('alice', 9007199254740993, '{"name":"","tag":"'';--"}');
INSERT INTO plants VALUES ('alice', 9223372036854775807, '{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","tag":"last"}');
INSERT INTO plants VALUES ('bob', 1, '{"name":"Ficus"}');
INSERT INTO plants VALUES ('é ', 1, '{"name":"é"}');

INSERT INTO tokens VALUES ('aaaaaaaaaaaa', '\x1d7ea2639fa116d5790694008e1721af2471675017dec7f8da4c639684737b9f', 'alice', 'plants:read plants:write', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('bbbbbbbbbbbb', '\x5bca71e127eec578001b6b436dcd300d899818b22886369e3d52986308aa5c55', 'bob', 'plants:read', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('cccccccccccc', '\x28f0942e11ac8585c314064bf22e4a56ed7c786c8814c80b587d72752f55b015', 'alice', 'plants:read plants:write', 1700000000000, 1700000000001, NULL);
INSERT INTO tokens VALUES ('dddddddddddd', '\xf0be350d408360608db61b1e8f5c883e6ea3bfdc8f37143c1e27612ef258bc18', 'alice', 'plants:read plants:write', 1700000000000, NULL, 1700000000002);
INSERT INTO tokens VALUES ('eeeeeeeeeeee', '\x09804a1fe5d4b35a044f6a748aa96f48039e7facb781c153a3524bee1dcd102c', 'é ', 'plants:read plants:write', 1700000000000, 8640000000000000, NULL);

ALTER TABLE ONLY migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY plants
    ADD CONSTRAINT plants_pkey PRIMARY KEY (subject, id);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
