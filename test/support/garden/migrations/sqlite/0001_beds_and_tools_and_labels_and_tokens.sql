-- oldest-application: 1.1.0

-- `bed` is JSON, exactly as in responses: a list is these texts joined by commas. The virtual columns show its fields
-- to people and SQL tools, and take no space.
CREATE TABLE beds (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  bed TEXT NOT NULL,
  title TEXT GENERATED ALWAYS AS (bed ->> '$.title') VIRTUAL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_beds ON beds (subject, id) WHERE octet_length(bed) > 512;

-- `tool` is JSON, exactly as in responses: a list is these texts joined by commas.
CREATE TABLE tools (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  tool TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_tools ON tools (subject, id) WHERE octet_length(tool) > 512;

-- `label` is JSON, exactly as in responses: a list is these texts joined by commas.
CREATE TABLE labels (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_labels ON labels (subject, id) WHERE octet_length(label) > 512;

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
