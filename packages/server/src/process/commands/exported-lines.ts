// The lines of an export (NDJSON): documents with their keys, tokens with their hashes, and the number of these at the end.
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

/**
 * Reads a line of an export.
 * @param collections - The collections of the service.
 * @throws LineError that says what is wrong.
 */
export function parseLine(collections: readonly CollectionDefinition[], line: string): ExportedLine {
  let value: unknown;
  try {
    value = parseExactJson(line);
  } catch (error) {
    throw new LineError(`it is no JSON: ${messageOf(error)}`, { cause: error });
  }
  const members = membersOf(value);
  if (typeof members['lines'] === 'number') return { lines: members['lines'] };
  return 'token' in members ? { token: tokenOf(members['token']) } : documentOf(collections, members);
}

const notEmpty = /^[^]+$/;
type Members = Readonly<Record<string, unknown>>;

/** @throws LineError unless a value is an object with just these members: none must be lost in silence. */
function membersOf(value: unknown, names?: readonly string[]): Members {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new LineError('it is no object');
  if (names !== undefined && Object.keys(value).sort().join() !== [...names].sort().join())
    throw new LineError(`it does not have just ${names.join(', ')}`);
  return value as Members;
}

function documentOf(collections: readonly CollectionDefinition[], line: Members): ExportedLine {
  membersOf(line, ['collection', 'subject', 'id', 'document' in line ? 'document' : 'text']);
  const collection = collections.find(({ name }) => name === line['collection']);
  if (collection === undefined)
    throw new LineError(`the service has no collection ${JSON.stringify(line['collection'])}`);
  const text = 'document' in line ? exactJson(line['document']) : line['text'];
  return {
    collection,
    document: {
      subject: textOf(line['subject'], 'subject', notEmpty),
      id: idOf(collection, line['id']),
      text: textOf(text, 'document'),
    },
  };
}

function idOf(collection: CollectionDefinition, value: unknown): Id {
  const id = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
  const type = collection.id === 'int64' ? 'bigint' : 'string';
  if (typeof id !== type || !canHave(collection, id as Id)) throw new LineError('its id is not valid');
  return id as Id;
}

function tokenOf(value: unknown): Token {
  const times = ['createdAt', 'expiresAt', 'revokedAt', 'keptUntil'];
  const line = membersOf(value, ['id', 'subject', 'scopes', 'hash', ...times]);
  const scopes = Array.isArray(line['scopes']) ? line['scopes'] : [undefined];
  return {
    id: textOf(line['id'], 'id', notEmpty),
    subject: textOf(line['subject'], 'subject', notEmpty),
    scopes: scopes.map((scope) => textOf(scope, 'scope', /^\S+$/)),
    // A SHA-256 in hexadecimal digits.
    hash: textOf(line['hash'], 'hash', /^[0-9a-f]{64}$/),
    createdAt: timeOf(line['createdAt']),
    expiresAt: line['expiresAt'] === null ? undefined : timeOf(line['expiresAt']),
    revokedAt: line['revokedAt'] === null ? undefined : timeOf(line['revokedAt']),
    keptUntil: line['keptUntil'] === null ? undefined : timeOf(line['keptUntil']),
  };
}

function timeOf(value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
  throw new LineError('one of its times is not valid');
}

/** @throws LineError for what is no text that every engine stores as it is, or does not have a form. */
function textOf(value: unknown, name: string, form = /^[^]*$/): string {
  const isText = typeof value === 'string' && value.isWellFormed() && !value.includes('\0');
  if (isText && form.test(value)) return value;
  throw new LineError(`its ${name} is not valid`);
}
