-- oldest-application: 1.0.0

-- `plant` is the Plant of the contract as JSON, exactly as in responses: a list is these texts joined by commas. The
-- virtual columns show its fields to people and SQL tools, and take no space.
CREATE TABLE plants (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  plant TEXT NOT NULL,
  name TEXT GENERATED ALWAYS AS (plant ->> '$.name') VIRTUAL,
  tag TEXT GENERATED ALWAYS AS (plant ->> '$.tag') VIRTUAL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Times are in milliseconds since the epoch; `hash` is the SHA-256 of the secret; scopes are separated by spaces.
CREATE TABLE tokens (
  id TEXT NOT NULL PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  subject TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;
