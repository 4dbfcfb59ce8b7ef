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
  type StoredDocument,
  type Token,
} from '../../storage/core/interface.js';

/** The content of a line of an export. */
export type ExportedLine =
  | { readonly collection: CollectionDefinition; readonly document: StoredDocument }
  | { readonly token: Token }
  | { readonly lines: number };

/** The reason why a line cannot be imported. */
export class LineError extends Error {}

/** A document as a line, without its end. Reading the line gives the very text. */
export function documentLine({ name }: CollectionDefinition, { subject, id, text }: StoredDocument): string {
  const key = `"collection":"${name}","subject":${JSON.stringify(subject)},"id":${exactJson([id]).slice(1, -1)}`;
  return isRendered(text) ? `{${key},"document":${text}}` : `{${key},"text":${JSON.stringify(text)}}`;
}

/** Names a document, for messages. */
export function keyText({ subject, id }: DocumentKey): string {
  return `${typeof id === 'string' ? JSON.stringify(id) : id} of ${JSON.stringify(subject)}`;
}

/** Whether a text is JSON as the server renders it. Another program may have stored any other text. */
function isRendered(text: string): boolean {
  try {
    return exactJson(parseExactJson(text)) === text;
  } catch {
    return false;
  }
}

/** A token as a line, without its end: as in the store, with null for what it does not have. */
export function tokenLine(token: Token): string {
  return JSON.stringify({ token }, (_, value: unknown) => value ?? null);
}

/** The last line, without its end: without it, an export that was cut would look like a whole one. */
export function lastLine(lines: number): string {
  return JSON.stringify({ lines });
}

/** An object with just these members: none must be lost in silence. */
function closed(properties: Readonly<Record<string, object>>) {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

const text = { type: 'string', format: 'storable' };
const name = { ...text, minLength: 1 };
const time = { type: 'integer' };
const end = { type: ['integer', 'null'] };
const key = { collection: text, subject: name, id: {} };

/** The schemas of lines, by the member that tells them apart. */
const schemas = {
  lines: closed({ lines: time }),
  token: closed({
    token: closed({
      ...{ id: name, subject: name },
      scopes: { type: 'array', items: { ...text, pattern: '^\\S+$' } },
      hash: { type: 'string', pattern: '^[0-9a-f]{64}$' },
      ...{ createdAt: time, expiresAt: end, revokedAt: end, keptUntil: end },
    }),
  }),
  text: closed({ ...key, text }),
  document: closed({ ...key, document: {} }),
};

/**
 * Returns the function that reads a line of an export. It throws LineError that says what is wrong.
 * @param collections - The collections of the service.
 */
export function lineReader(collections: readonly CollectionDefinition[]): (line: string) => ExportedLine {
  const ajv = new Ajv({ allowUnionTypes: true, schemas });
  // No engine stores any other text as it is.
  ajv.addFormat('storable', (value: string) => value.isWellFormed() && !value.includes('\0'));
  return (line) => {
    const value = parse(line);
    const kind =
      Object.keys(schemas).find((member) => Object.hasOwn(Object(value) as object, member)) ?? 'document';
    if (!ajv.validate(kind, value)) throw new LineError(ajv.errorsText(ajv.errors, { dataVar: 'it' }));
    if (kind === 'lines') return value as { lines: number };
    return kind === 'token' ? tokenOf(value as TokenLine) : documentOf(collections, value as DocumentLine);
  };
}

function parse(line: string): unknown {
  try {
    return parseExactJson(line);
  } catch (error) {
    throw new LineError(`it is no JSON: ${messageOf(error)}`, { cause: error });
  }
}

interface TokenLine {
  readonly token: Readonly<Record<string, unknown>>;
}

/** A token of the store has undefined instead of null. */
function tokenOf({ token }: TokenLine): ExportedLine {
  const members = Object.entries(token).map(([member, value]) => [member, value ?? undefined]);
  return { token: Object.fromEntries(members) as Token };
}

interface DocumentLine {
  readonly collection: string;
  readonly subject: string;
  readonly id: unknown;
  readonly text?: string;
  readonly document?: object;
}

function documentOf(collections: readonly CollectionDefinition[], line: DocumentLine): ExportedLine {
  const collection = collections.find((definition) => definition.name === line.collection);
  if (collection === undefined)
    throw new LineError(`the service has no collection ${JSON.stringify(line.collection)}`);
  const { subject, text = exactJson(line.document!) } = line;
  const id = typeof line.id === 'number' && Number.isSafeInteger(line.id) ? BigInt(line.id) : line.id;
  const type = collection.id === 'int64' ? 'bigint' : 'string';
  if (typeof id !== type || !canHave(collection, id as Id)) throw new LineError('its id is not valid');
  return { collection, document: { subject, id: id as Id, text } };
}
