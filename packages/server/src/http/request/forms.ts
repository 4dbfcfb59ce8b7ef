// Reads the fields of forms.
import { isUtf8 } from 'node:buffer';
import type { BodyContent, Field } from '../../contract/body.js';
import { mostSpecific, parseMediaType } from '../../contract/media-type.js';
import { UploadedFile } from '../../contract/raw-body.js';
import { anything, propertyOf, shapeOf } from '../../contract/schema/shape.js';
import { fault, type Part } from './multipart.js';
import { readPairs } from './delimited.js';
import { JsonReader } from './json-reader.js';
import { quote } from './validation/fault-messages.js';
import { byName, createTextReader, readTexts, type Values } from './texts.js';

/** The maximum number of fields in a form: a JSON body may have as many properties. */
const maxFields = 5_000;

/**
 * Parses application/x-www-form-urlencoded (WHATWG URL, section 5). The parsers of Node.js replace what is not UTF-8, and
 * take long for some texts.
 * @throws ApiError if it is not well-formed.
 */
function parseForm(text: string, delimited: ReadonlySet<string>): Values {
  const pairs = text.split('&', maxFields + 1);
  if (pairs.length > maxFields) throw fault(`it may have at most ${maxFields} fields`);
  return readPairs(pairs, delimited, decode);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.split('+').join(' '));
  } catch {
    throw fault(`${quote(text)} has a percent sign without the bytes of UTF-8`);
  }
}

/** Returns the function that reads the fields of a form as the types of its schema. */
export function createFormReader({
  schema,
  fields,
  otherField,
  format,
}: BodyContent): (data: unknown) => Values {
  const shape = shapeOf(schema);
  const known = new Map(
    fields.map((field) => [field.name, { ...field, shape: propertyOf(shape, field.name) }]),
  );
  const delimited = new Set(fields.filter(({ isDelimited }) => isDelimited).map(({ name }) => name));
  const additional = shape.additional || anything;
  const fieldOf = (name: string) => known.get(name) ?? { ...otherField, name, shape: additional };
  return (data) => {
    // The texts of all fields share the limits of one body.
    const json = new JsonReader();
    const parseJson = (text: string) => json.parseText(text);
    const values =
      format === 'form' ? parseForm(data as string, delimited) : readParts(data as Part[], fieldOf);
    createTextReader([...known.values()], parseJson)(values);
    for (const name of Object.keys(values))
      if (!known.has(name)) values[name] = readTexts(fieldOf(name), values[name], parseJson);
    return values;
  };
}

/** Returns the files of the parts of a form, and the texts of the others, by their names. */
function readParts(parts: readonly Part[], fieldOf: (name: string) => Field): Values {
  // Browsers send such a part for a file that is not chosen.
  const sent = parts.filter(({ filename, bytes }) => filename !== '' || bytes.length > 0);
  return byName(
    sent.map((part) => {
      const { name, filename, mediaType, bytes } = part;
      const field = fieldOf(name);
      checkType(part, field);
      if (field.kind === 'file') return [name, new UploadedFile(bytes, mediaType, filename)];
      const text = textOf(part, field);
      return [name, field.isDelimited ? text.split(',') : text];
    }),
  );
}

/** Refuses a part of another media type than those that the contract lists for its field. */
function checkType({ name, mediaType }: Part, { kind, mediaTypes }: Field): void {
  const type = parseMediaType(mediaType ?? 'application/octet-stream');
  // Many clients send every text as text/plain, or without a type, whatever it is.
  const isText = kind !== 'file' && (mediaType === undefined || type.type === 'text/plain');
  if (mediaTypes === undefined || isText || mostSpecific(mediaTypes, type)) return;
  const types = mediaTypes.map(({ range }) => range.type);
  throw fault(`${quote(name)} must be ${types.join(' or ')}, not ${quote(type.type)}`);
}

function textOf({ name, filename, mediaType, bytes }: Part, { kind }: Field): string {
  const refuse = (message: string) => fault(`${quote(name)} must be a text${message}`);
  // Browsers send JSON as a file with the name "blob".
  if (filename !== undefined && kind === 'plain') throw refuse(', not a file');
  const charset = parseMediaType(mediaType ?? '').parameters.get('charset') ?? 'utf-8';
  if (!isUtf8(bytes) || !/^(utf-?8|us-ascii)$/i.test(charset)) throw refuse(' in UTF-8');
  return bytes.toString();
}
