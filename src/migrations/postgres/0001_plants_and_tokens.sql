-- oldest-application: 1.0.0

-- `plant` is the Plant of the contract as JSON, exactly as in responses: a list is these texts joined by commas. The
-- type is text because json values cannot be compared; `plant::json ->> 'name'` shows a field. The collation "C" orders
-- subjects by bytes, so that a change of the system's collations cannot corrupt the index.
CREATE TABLE plants (
  subject text COLLATE "C" NOT NULL,
  id bigint NOT NULL,
  plant text NOT NULL,
  PRIMARY KEY (subject, id)
);

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
