// The lines of an export (NDJSON): documents with their keys, tokens with their hashes, and the number of these at the end.
import { Ajv } from 'ajv';
import { parseExactJson } from '../../contract/document/exact-json.js';
import { exactJson } from '../../contract/document/json-text.js';
import { canHave } from '../../storage/core/ids.js';
import {
  type CollectionDefinition,
  type DocumentKey,
  type Id,
  messageOf,
  type Outcomes,
  type Storage,
  type StoredDocument,
  type Token,
} from '../../storage/core/interface.js';

/** A document or token of an export. */
export interface ExportedItem {
  /** Names it in messages. */
  readonly name: string;
  readonly add: (storage: Storage) => Promise<Outcomes['absent']>;
}

/** The reason why a line cannot be imported. */
export class LineError extends Error {}

/**
 * A document as a line, without its end. Reading the line gives the very text, also of what another program has stored.
 * @returns undefined if it is not JSON: then its end is damaged, which SQLite does not notice.
 */
export function documentLine(
  { name }: CollectionDefinition,
  { subject, id, text }: StoredDocument,
): string | undefined {
  if (!isJson(text)) return undefined;
  const key = `"collection":"${name}","subject":${JSON.stringify(subject)},"id":${exactJson([id]).slice(1, -1)}`;
  return `{${key},"document":${isRendered(text) ? text : JSON.stringify(text)}}`;
}

/** Names a document, for messages. */
export function keyText({ subject, id }: DocumentKey): string {
  return `${typeof id === 'string' ? JSON.stringify(id) : id} of ${JSON.stringify(subject)}`;
}

/** Whether a text is JSON. */
function isJson(text: string): boolean {
  try {
    parseExactJson(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a JSON text is an object as the server renders it. */
function isRendered(text: string): boolean {
  return text.startsWith('{') && exactJson(parseExactJson(text)) === text;
}

/** A token as a line, without its end: as in the store, with null for what it does not have. */
export function tokenLine(token: Token): string {
  return JSON.stringify({ token }, (_, value: unknown) => value ?? null);
}

/** An object with just these members: none must be lost in silence. */
function closed(properties: Readonly<Record<string, object>>) {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

const text = { type: 'string', format: 'storable' };
const name = { ...text, minLength: 1 };
const time = { type: 'integer' };
const end = { type: ['integer', 'null'] };

/** The schemas of lines. */
const schemas = {
  token: closed({
    token: closed({
      ...{ id: name, subject: name },
      scopes: { type: 'array', items: { ...text, pattern: '^\\S+$' } },
      hash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      ...{ createdAt: time, expiresAt: end, revokedAt: end, keptUntil: end },
    }),
  }),
  document: closed({
    collection: text,
    subject: name,
    id: {},
    document: { ...text, type: ['string', 'object'] },
  }),
};

interface Line {
  readonly token: Readonly<Record<string, unknown>>;
  readonly collection: string;
  readonly subject: string;
  readonly id: unknown;
  readonly document: string | object;
}

/**
 * Returns the function that reads a line of an export: undefined for the last one. It throws LineError that says what is
 * wrong.
 * @param collections - The collections of the service.
 */
export function lineReader(
  collections: readonly CollectionDefinition[],
): (text: string) => ExportedItem | undefined {
  const ajv = new Ajv({ allowUnionTypes: true, schemas });
  // No engine stores any other text as it is.
  ajv.addFormat('storable', (value: string) => value.isWellFormed() && !value.includes('\0'));
  return (text) => {
    if (/^\{"lines":\d+\}$/.test(text)) return undefined;
    const value = parse(text);
    const { token } = Object(value) as Partial<Line>;
    const kind = token === undefined ? 'document' : 'token';
    if (!ajv.validate(kind, value)) throw new LineError(ajv.errorsText(ajv.errors, { dataVar: 'it' }));
    if (token === undefined) return documentOf(collections, value as Line);
    // A token of the store has undefined instead of null.
    const members = Object.entries(token).map(([member, value]) => [member, value ?? undefined]);
    const stored = Object.fromEntries(members) as Token;
    return { name: `the token ${stored.id}`, add: ({ tokens }) => tokens.add(stored) };
  };
}

function parse(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch (error) {
    throw new LineError(`it is no JSON: ${messageOf(error)}`, { cause: error });
  }
}

function documentOf(collections: readonly CollectionDefinition[], line: Line): ExportedItem {
  const { subject, document } = line;
  const collection = collections.find(({ name }) => name === line.collection);
  if (collection === undefined)
    throw new LineError(`the service has no collection ${JSON.stringify(line.collection)}`);
  const id = typeof line.id === 'number' && Number.isSafeInteger(line.id) ? BigInt(line.id) : line.id;
  if (typeof id !== (collection.id === 'int64' ? 'bigint' : 'string') || !canHave(collection, id as Id))
    throw new LineError('its id is not valid');
  const key = { subject, id: id as Id };
  const text = typeof document === 'string' ? document : exactJson(document);
  if (!isJson(text)) throw new LineError('its document is no JSON');
  return {
    name: `${collection.name} ${keyText(key)}`,
    add: (storage) =>
      storage.collection(collection).write(subject, key.id, { when: 'absent', text }) as Promise<
        Outcomes['absent']
      >,
  };
}
