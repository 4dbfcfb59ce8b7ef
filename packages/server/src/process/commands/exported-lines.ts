// The lines of an export (NDJSON): documents with their keys, and tokens with their hashes.
import { parseExactJson } from '../../contract/document/exact-json.js';
import { exactJson } from '../../contract/document/json-text.js';
import { canHave } from '../../storage/core/ids.js';
import {
  type CollectionDefinition,
  type DocumentKey,
  type Id,
  messageOf,
  type StoredDocument,
  type StoredToken,
} from '../../storage/core/interface.js';

/** What a line of an export has. */
export type ExportedLine =
  | { readonly collection: CollectionDefinition; readonly document: StoredDocument }
  | { readonly token: StoredToken };

/** Why a line cannot be imported. */
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

/** A token as a line, without its end. */
export function tokenLine(token: StoredToken): string {
  const timeOf = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
  const { id, subject, scopes, hash } = token;
  return JSON.stringify({
    token: {
      ...{ id, subject, scopes, hash },
      created: timeOf(token.createdAt),
      expires: timeOf(token.expiresAt),
      revoked: timeOf(token.revokedAt),
      keptUntil: timeOf(token.keptUntil),
    },
  });
}

/**
 * Reads a line of an export.
 * @param collections - Those of the service.
 * @throws LineError that says what is wrong.
 */
export function parseLine(collections: readonly CollectionDefinition[], line: string): ExportedLine {
  let value: unknown;
  try {
    value = parseExactJson(line);
  } catch (error) {
    throw new LineError(`it is no JSON: ${messageOf(error)}`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new LineError('it is no object');
  const fields = value as Fields;
  return 'token' in fields ? { token: tokenOf(fields['token']) } : documentOf(collections, fields);
}

type Fields = Readonly<Record<string, unknown>>;

function documentOf(collections: readonly CollectionDefinition[], fields: Fields): ExportedLine {
  requireNames(fields, ['collection', 'subject', 'id', 'document' in fields ? 'document' : 'text']);
  const collection = collections.find(({ name }) => name === fields['collection']);
  if (collection === undefined)
    throw new LineError(`the service has no collection ${JSON.stringify(fields['collection'])}`);
  const id = idOf(collection, fields['id']);
  const text = 'document' in fields ? exactJson(fields['document']) : fields['text'];
  if (typeof text !== 'string') throw new LineError('the document is no JSON that can be stored');
  return { collection, document: { subject: subjectOf(fields), id, text: storable(text, 'the document') } };
}

function idOf(collection: CollectionDefinition, value: unknown): Id {
  const id = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  const type = collection.id === 'int64' ? 'bigint' : 'string';
  if (typeof id !== type || !canHave(collection, id as Id))
    throw new LineError(`its id is none of ${collection.name}`);
  return id as Id;
}

function tokenOf(value: unknown): StoredToken {
  const fields = (value ?? {}) as Fields;
  requireNames(fields, ['id', 'subject', 'scopes', 'hash', 'created', 'expires', 'revoked', 'keptUntil']);
  const { id, scopes, hash } = fields;
  if (typeof id !== 'string' || id === '') throw new LineError('the token has no id');
  if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash))
    throw new LineError('the hash of the token is no SHA-256 in hexadecimal digits');
  if (!Array.isArray(scopes) || !scopes.every((scope) => typeof scope === 'string' && /^\S+$/.test(scope)))
    throw new LineError('the scopes of the token are no texts');
  const createdAt = timeOf(fields, 'created');
  if (createdAt === undefined) throw new LineError('"created" is no time');
  return {
    ...{ id: storable(id, 'the id'), hash, createdAt, subject: subjectOf(fields) },
    scopes: scopes.map((scope) => storable(String(scope), 'a scope')),
    expiresAt: timeOf(fields, 'expires'),
    revokedAt: timeOf(fields, 'revoked'),
    keptUntil: timeOf(fields, 'keptUntil'),
  };
}

/** @returns In ms; undefined for null. */
function timeOf(fields: Fields, name: string): number | undefined {
  const value = fields[name];
  if (value === null) return undefined;
  const time = typeof value === 'string' ? Date.parse(value) : NaN;
  if (Number.isNaN(time)) throw new LineError(`"${name}" is no time`);
  return time;
}

function subjectOf({ subject }: Fields): string {
  if (typeof subject !== 'string' || subject === '') throw new LineError('it has no subject');
  return storable(subject, 'the subject');
}

/** @throws LineError for a text that no engine stores as it is. */
function storable(text: string, place: string): string {
  if (text.isWellFormed() && !text.includes('\0')) return text;
  throw new LineError(`${place} has U+0000 or an unpaired surrogate`);
}

/** @throws LineError unless an object has just these members: what nobody reads must not be lost in silence. */
function requireNames(fields: Fields, names: readonly string[]): void {
  const missing = names.filter((name) => !(name in fields));
  const others = Object.keys(fields).filter((name) => !names.includes(name));
  if (missing.length > 0) throw new LineError(`it has no ${missing.join(', ')}`);
  if (others.length > 0) throw new LineError(`it has ${others.join(', ')}, which no export has`);
}
