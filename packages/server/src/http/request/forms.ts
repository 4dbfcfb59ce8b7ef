// Parses forms: application/x-www-form-urlencoded, and multipart/form-data (RFC 7578).
import { isUtf8 } from 'node:buffer';
import { ApiError } from '../../base/errors.js';
import { parseMediaType } from '../../contract/media-type.js';
import { UploadedFile } from '../../contract/raw-body.js';
import { byName, notText, type Values } from './texts.js';

/** The maximum number of fields in a form: each takes more memory than its bytes. */
const maxFields = 1_000;

/**
 * Parses a form into the texts and files of its fields.
 * @throws ApiError if it is not well-formed, or has too many fields.
 */
export function parseForm(body: Buffer, format: 'form' | 'multipart', contentType: string): Values {
  const separator = format === 'form' ? '&' : `\r\n--${boundaryOf(contentType)}`;
  // The first boundary has no line before it.
  const bytes = format === 'form' ? body : Buffer.concat([Buffer.from('\r\n'), body]);
  const pieces = split(bytes, separator);
  if (format === 'form') return byName(pieces.filter(({ length }) => length > 0).map(readPair));
  const end = pieces.findIndex((piece) => piece.toString('latin1', 0, 2) === '--');
  if (end === -1) throw malformed();
  return byName(pieces.slice(1, end).flatMap(readPart));
}

function split(bytes: Buffer, separator: string): Buffer[] {
  const pieces: Buffer[] = [];
  for (let start = 0; start <= bytes.length;) {
    const next = bytes.indexOf(separator, start);
    const end = next === -1 ? bytes.length : next;
    // Before the first boundary and after the last one, there is no field.
    if (pieces.push(bytes.subarray(start, end)) > maxFields + 2)
      throw new ApiError('invalidBody', { detail: `it may have at most ${maxFields} fields` });
    start = end + (next === -1 ? 1 : separator.length);
  }
  return pieces;
}

/** Reads a field of application/x-www-form-urlencoded. URLSearchParams would replace what is not UTF-8. */
function readPair(piece: Buffer): [name: string, value: unknown] {
  const [name = '', ...values] = piece.toString().replaceAll('+', ' ').split('=');
  return [decoded(name) ?? name, (isUtf8(piece) ? decoded(values.join('=')) : undefined) ?? notText];
}

/** A text without percent-encoding; undefined if that is not well-formed, or not UTF-8. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function boundaryOf(contentType: string): string {
  const boundary = parseMediaType(contentType).parameters.get('boundary') ?? '';
  if (boundary === '') throw malformed();
  return boundary;
}

/** Reads a part: the end of a line, the headers, an empty line and the content. */
function readPart(part: Buffer): [name: string, value: unknown][] {
  const end = part.indexOf('\r\n\r\n');
  const head = part.toString('utf8', 0, Math.max(end, 0));
  const parameters = parametersOf(
    /(?:^|\n)content-disposition: *form-data *(;[^\r\n]*)/i.exec(head)?.[1] ?? '',
  );
  const name = parameters.get('name');
  if (end === -1 || name === undefined) throw malformed();
  const filename = parameters.get('filename');
  if (/(?:^|\n)content-transfer-encoding: *(?!7bit|8bit|binary)/i.test(head))
    throw malformed('a part has a Content-Transfer-Encoding: send its bytes as they are');
  const content = part.subarray(end + 4);
  if (filename === undefined) return [[name, isUtf8(content) ? content.toString() : notText]];
  // Browsers send such a part for a file that is not chosen.
  if (filename === '' && content.length === 0) return [];
  const mediaType = /(?:^|\n)content-type: *([^\r\n]*)/i.exec(head)?.[1];
  // RFC 7578 section 4.2: only the last segment of a path.
  return [[name, new UploadedFile(content, mediaType, filename.replace(/^.*[/\\]/s, ''))]];
}

const parameter = /; *([\w-]+\*?)=("(?:[^"\\]|\\.)*"|[^;"\s]+) *(?=;|$)/g;

/** The parameters of a Content-Disposition, in which browsers escape a quote as %22. */
function parametersOf(text: string): Map<string, string> {
  if (text.replaceAll(parameter, '') !== '') throw malformed();
  const plain = (value: string) => value.replaceAll(/^"|"$/g, '').replaceAll(/\\(["\\])/g, '$1');
  return new Map(Array.from(text.matchAll(parameter), ([, name = '', value = '']) => [name, plain(value)]));
}

function malformed(detail = 'it is not a well-formed form of its Content-Type'): ApiError {
  return new ApiError('invalidBody', { detail });
}
