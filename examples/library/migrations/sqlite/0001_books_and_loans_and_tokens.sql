-- oldest-application: 1.1.0

-- `book` is JSON, exactly as in responses: a list is these texts joined by commas. The virtual columns show its fields
-- to people and SQL tools, and take no space.
CREATE TABLE books (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  book TEXT NOT NULL,
  title TEXT GENERATED ALWAYS AS (book ->> '$.title') VIRTUAL,
  author TEXT GENERATED ALWAYS AS (book ->> '$.author') VIRTUAL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_books ON books (subject, id) WHERE octet_length(book) > 512;

-- `loan` is JSON, exactly as in responses: a list is these texts joined by commas. The virtual columns show its fields
-- to people and SQL tools, and take no space.
CREATE TABLE loans (
  subject TEXT NOT NULL,
  id INTEGER NOT NULL,
  loan TEXT NOT NULL,
  isbn TEXT GENERATED ALWAYS AS (loan ->> '$.isbn') VIRTUAL,
  borrower TEXT GENERATED ALWAYS AS (loan ->> '$.borrower') VIRTUAL,
  due TEXT GENERATED ALWAYS AS (loan ->> '$.due') VIRTUAL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_loans ON loans (subject, id) WHERE octet_length(loan) > 512;

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
