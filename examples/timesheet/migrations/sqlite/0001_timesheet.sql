-- oldest-application: 1.2.0

-- `project` is JSON, exactly as in responses: a list is these texts joined by commas. `project ->> '$.name'` shows a
-- field.
CREATE TABLE projects (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  project TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_projects ON projects (subject, id) WHERE octet_length(project) > 512;

-- `timer` is JSON, exactly as in responses: a list is these texts joined by commas. `timer ->> '$.name'` shows a field.
CREATE TABLE timers (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  timer TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_timers ON timers (subject, id) WHERE octet_length(timer) > 512;

-- `entry` is JSON, exactly as in responses: a list is these texts joined by commas. `entry ->> '$.name'` shows a field.
CREATE TABLE entries (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  entry TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_entries ON entries (subject, id) WHERE octet_length(entry) > 512;

-- `entry` is JSON, exactly as in responses: a list is these texts joined by commas. `entry ->> '$.name'` shows a field.
CREATE TABLE unbilled (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  entry TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_unbilled ON unbilled (subject, id) WHERE octet_length(entry) > 512;

-- `invoice` is JSON, exactly as in responses: a list is these texts joined by commas. `invoice ->> '$.name'` shows a
-- field.
CREATE TABLE invoices (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  invoice TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_invoices ON invoices (subject, id) WHERE octet_length(invoice) > 512;

-- `counter` is JSON, exactly as in responses: a list is these texts joined by commas. `counter ->> '$.name'` shows a
-- field.
CREATE TABLE counters (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  counter TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_counters ON counters (subject, id) WHERE octet_length(counter) > 512;

-- `kept` is JSON, exactly as in responses: a list is these texts joined by commas. `kept ->> '$.name'` shows a field.
CREATE TABLE keys (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  kept TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_keys ON keys (subject, id) WHERE octet_length(kept) > 512;

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
