-- oldest-application: 1.0.0

-- `label` is JSON, exactly as in responses: a list is these texts joined by commas.
CREATE TABLE labels (
  subject TEXT NOT NULL,
  id TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;

-- Indexes the long documents: to limit the bytes of a list page, only their lengths must be read.
CREATE INDEX long_labels ON labels (subject, id) WHERE octet_length(label) > 512;
