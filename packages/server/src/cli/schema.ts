// Renders the SQL that creates the tables of collections, and of the access tokens that every service has.
import { DatabaseSync } from '@photostructure/sqlite';
import { messageOf, type CollectionDefinition } from '../storage/core/interface.js';
import { longBytes, longIndexOf } from '../storage/sqlite/reads.js';
import { tokenIndexes } from '../storage/core/tokens.js';

/** The schema of a service for an engine. */
interface Renderer {
  /** The comment on the tables of collections. */
  readonly comment: string;
  /** The statements that create the table of a collection, and its indexes. */
  readonly ofCollection: (collection: CollectionDefinition) => readonly string[];
  /** The statements that create the table of access tokens, which every service has, and its indexes. */
  readonly ofTokens: readonly string[];
}

/** The comment on the table of access tokens. */
export const commentOfTokens = `\
-- Times are in milliseconds since the epoch; "hash" is the SHA-256 of the secret; scopes are separated by spaces. After
-- "prune_at", the server may delete a token that a handler issued; those of operators have none.
`;

const [bySubject, byEnd] = tokenIndexes;

/** The functions that render the schema of a service, by engine. */
export const renderers: Readonly<Record<'sqlite' | 'postgres', Renderer>> = {
  sqlite: {
    comment: `\
-- Documents are JSON, exactly as in responses: a list is these texts joined by commas. column ->> '$.name' shows a field.
-- The indexes have the long ones, so that only their lengths must be read to limit the bytes of a page.
`,
    ofCollection: (collection) => [
      `CREATE TABLE ${collection.name} (
  subject TEXT NOT NULL,
  id ${collection.id === 'text' ? 'TEXT' : 'INTEGER'} NOT NULL,
  ${collection.column} TEXT NOT NULL,
  PRIMARY KEY (subject, id)
) STRICT, WITHOUT ROWID;`,
      `CREATE INDEX ${longIndexOf(collection)} ON ${collection.name} (subject, id) WHERE octet_length(${collection.column}) > ${longBytes};`,
    ],
    ofTokens: [
      `CREATE TABLE tokens (
  id TEXT NOT NULL PRIMARY KEY,
  hash BLOB NOT NULL UNIQUE,
  subject TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  prune_at INTEGER
) STRICT;`,
      `CREATE INDEX ${bySubject} ON tokens (subject, expires_at) WHERE revoked_at IS NULL;`,
      `CREATE INDEX ${byEnd} ON tokens (prune_at) WHERE prune_at IS NOT NULL;`,
    ],
  },
  postgres: {
    comment: `\
-- Documents are JSON, exactly as in responses: a list is these texts joined by commas. They are text because json values
-- cannot be compared; column::json ->> 'name' shows a field. The collation "C" orders texts by bytes, so that a change of
-- the system's collations cannot corrupt the index.
`,
    ofCollection: ({ name, column, id }) => [
      `CREATE TABLE ${name} (
  subject text COLLATE "C" NOT NULL,
  id ${id === 'text' ? 'text COLLATE "C"' : 'bigint'} NOT NULL,
  ${column} text NOT NULL,
  PRIMARY KEY (subject, id)
);`,
    ],
    ofTokens: [
      `CREATE TABLE tokens (
  id text NOT NULL PRIMARY KEY,
  hash bytea NOT NULL UNIQUE,
  subject text NOT NULL,
  scopes text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  prune_at bigint
);`,
      `CREATE INDEX ${bySubject} ON tokens (subject COLLATE "C", expires_at) WHERE revoked_at IS NULL;`,
      `CREATE INDEX ${byEnd} ON tokens (prune_at) WHERE prune_at IS NOT NULL;`,
    ],
  },
};

/** Returns the reason why no table can be created for a collection; undefined if it can be created. */
export function whyNoTable(collection: CollectionDefinition): string | undefined {
  const database = new DatabaseSync(':memory:');
  try {
    for (const sql of renderers.sqlite.ofCollection(collection)) database.exec(sql);
    return undefined;
  } catch (error) {
    return `SQLite cannot create ${collection.name} (${messageOf(error)}): choose other names.`;
  } finally {
    database.close();
  }
}
