-- A store of commit 3a9d40b, as pg_dump writes it, without settings and comments.

CREATE FUNCTION books_change_v1(subjects text[], ids text[], texts text[], expected text[]) RETURNS TABLE(subject text, id text, outcome text)
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

CREATE FUNCTION books_delete_v1(subjects text[], ids text[]) RETURNS TABLE(subject text, id text, deleted boolean)
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

CREATE FUNCTION books_pages_v1(subjects text[], starts text[], limits integer[]) RETURNS TABLE(page text, count integer, last text)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
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

CREATE FUNCTION loans_change_v1(subjects text[], ids bigint[], texts text[], expected text[]) RETURNS TABLE(subject text, id bigint, outcome text)
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

CREATE FUNCTION loans_delete_v1(subjects text[], ids bigint[]) RETURNS TABLE(subject text, id bigint, deleted boolean)
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

CREATE FUNCTION loans_pages_v1(subjects text[], starts bigint[], limits integer[]) RETURNS TABLE(page text, count integer, last bigint)
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

CREATE TABLE books (
    subject text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    book text NOT NULL
);

CREATE TABLE loans (
    subject text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    loan text NOT NULL
);

CREATE TABLE migrations (
    version integer NOT NULL,
    name text NOT NULL,
    oldest_application text NOT NULL,
    applied_at bigint NOT NULL
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

INSERT INTO books VALUES ('alice', '9780141439600', '{"isbn":"9780141439600","title":"A Tale of \"Two\" \\ Cities 😀","author":"Charles Dickens","shelf":"D 4"}');
INSERT INTO books VALUES ('alice', '0141439602', '{"isbn":"0141439602","title":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","author":"Dickens"}');
INSERT INTO books VALUES ('bob', '0141439602', '{"isbn":"0141439602","title":"Hard Times","author":"Dickens"}');

INSERT INTO loans VALUES ('alice', 9007199254740993, '{"copy":9007199254740993,"isbn":"9780141439600","borrower":"Ada","due":"2031-12-24","renewals":0}');
INSERT INTO loans VALUES ('alice', 9223372036854775807, '{"copy":9223372036854775807,"isbn":"0141439602","borrower":"Ada \"A\", jr.","due":"2032-01-07","renewals":1}');

INSERT INTO migrations VALUES (1, 'books_and_loans_and_tokens', '1.1.0', 1795452118908);

INSERT INTO tokens VALUES ('aaaaaaaaaaaa', '\xa71c593aea4e929b87b5fff8197618cd8a62396473d455a51ebb4b75ca434ca8', 'alice', 'books:read loans:read books:write loans:write', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('bbbbbbbbbbbb', '\x5d0c6da00f62bb5db4a8ed535c5640829d5ba51598f31a46c0799b0929373dc2', 'bob', 'books:read loans:read', 1700000000000, NULL, NULL);
INSERT INTO tokens VALUES ('cccccccccccc', '\xf7e22ae5249bd00312223774578eac0e51da85b2c8f0ea76afa0a2525932a4b2', 'alice', 'books:read loans:read books:write loans:write', 1700000000000, 1700000000001, NULL);
INSERT INTO tokens VALUES ('dddddddddddd', '\x9712255e7ede762ebcddc508ee2181e280499378fe3490cb1ffb050719711dfc', 'alice', 'books:read loans:read books:write loans:write', 1700000000000, NULL, 1700000000002);
INSERT INTO tokens VALUES ('eeeeeeeeeeee', '\x7369867911985ab4c243905c3340ac1ef42dfeee458c5c528f4f4a9688baa2bc', 'é ', 'books:read loans:read books:write loans:write', 1700000000000, 8640000000000000, NULL);

ALTER TABLE ONLY books
    ADD CONSTRAINT books_pkey PRIMARY KEY (subject, id);

ALTER TABLE ONLY loans
    ADD CONSTRAINT loans_pkey PRIMARY KEY (subject, id);

ALTER TABLE ONLY migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);

ALTER TABLE ONLY tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
