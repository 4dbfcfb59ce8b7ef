-- oldest-application: 1.0.0

-- Documents are JSON, exactly as in responses: a list is these texts joined by commas. column ->> '$.name' shows a field.
-- The indexes have the long ones, so that only their lengths must be read to limit the bytes of a page.
CREATE TABLE invoices (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  invoice TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX long_invoices ON invoices (subject, id) WHERE octet_length(invoice) > 512;

CREATE TABLE totals (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  total TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX long_totals ON totals (subject, id) WHERE octet_length(total) > 512;

CREATE TABLE keys (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  kept TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX long_keys ON keys (subject, id) WHERE octet_length(kept) > 512;

-- Times are in milliseconds since the epoch; "hash" is the SHA-256 of the secret; scopes are separated by spaces. After
-- "prune_at", the server may delete a token that a handler issued; those of operators have none.
CREATE TABLE tokens (
  id TEXT NOT NULL PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  subject TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  prune_at INTEGER
) STRICT;
CREATE INDEX tokens_by_subject ON tokens (subject, expires_at) WHERE revoked_at IS NULL;
CREATE INDEX tokens_by_end ON tokens (prune_at) WHERE prune_at IS NOT NULL;
