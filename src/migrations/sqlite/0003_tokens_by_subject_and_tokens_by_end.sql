-- oldest-application: 1.1.0

-- Finds the valid tokens of a subject.
CREATE INDEX tokens_by_subject ON tokens (subject, expires_at) WHERE revoked_at IS NULL;

-- When the server may delete a token that a handler issued. Tokens of operators have no such time: they stay until
-- "token prune".
ALTER TABLE tokens ADD COLUMN prune_at INTEGER;
CREATE INDEX tokens_by_end ON tokens (prune_at) WHERE prune_at IS NOT NULL;
