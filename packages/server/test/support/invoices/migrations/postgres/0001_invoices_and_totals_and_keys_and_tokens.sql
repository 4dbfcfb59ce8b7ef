-- oldest-application: 1.0.0

-- Documents are JSON, exactly as in responses: a list is these texts joined by commas. They are text because json values
-- cannot be compared; column::json ->> 'name' shows a field. The collation "C" orders texts by bytes, so that a change of
-- the system's collations cannot corrupt the index.
CREATE TABLE invoices (
  subject text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  invoice text NOT NULL,
  PRIMARY KEY (subject, id)
);

CREATE TABLE totals (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  total text NOT NULL,
  PRIMARY KEY (subject, id)
);

CREATE TABLE keys (
  subject text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  kept text NOT NULL,
  PRIMARY KEY (subject, id)
);

-- Times are in milliseconds since the epoch; "hash" is the SHA-256 of the secret; scopes are separated by spaces. After
-- "prune_at", the server may delete a token that a handler issued; those of operators have none.
CREATE TABLE tokens (
  id text NOT NULL PRIMARY KEY,
  hash bytea NOT NULL UNIQUE,
  subject text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  prune_at bigint
);
CREATE INDEX tokens_by_subject ON tokens (subject COLLATE "C", expires_at) WHERE revoked_at IS NULL;
CREATE INDEX tokens_by_end ON tokens (prune_at) WHERE prune_at IS NOT NULL;
