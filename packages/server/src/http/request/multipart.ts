// Parses bodies of multipart/form-data (RFC 7578).
import { isUtf8 } from 'node:buffer';
import { parseMediaType } from '../../contract/media-type.js';
import { ApiError } from '../../base/errors.js';

/** A part of a form. */
export interface Part {
  readonly name: string;
  readonly filename: string | undefined;
  /** As it was sent. */
  readonly mediaType: string | undefined;
  readonly bytes: Buffer;
}

/** The maximum number of parts: each takes more memory than its bytes. */
const maxParts = 1_000;
/** The maximum length of the headers of a part, in bytes. */
const maxHeaders = 16_384;

/**
 * Parses a body. The bytes of the parts are those of the body, not copies.
 * @param contentType - The Content-Type of the request.
 * @throws ApiError that names the first part that is not valid.
 */
export function parseMultipart(body: Buffer, contentType: string): Part[] {
  const boundary = parseMediaType(contentType).parameters.get('boundary') ?? '';
  // RFC 2046 section 5.1.1.
  if (!/^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary))
    throw fault('its Content-Type must have a boundary of 1 to 70 characters');
  const delimiter = `\r\n--${boundary}`;
  const endOfNext = (from: number): number => {
    const at = body.indexOf(delimiter, from);
    if (at === -1) throw fault('it has no end: the last boundary is missing');
    return at + delimiter.length;
  };
  const parts: Part[] = [];
  // The first boundary has no line before it.
  const first = delimiter.slice(2);
  let start = body.toString('latin1', 0, first.length) === first ? first.length : endOfNext(0);
  while (body.toString('latin1', start, start + 2) !== '--') {
    const next = endOfNext(start);
    if (parts.length === maxParts) throw fault(`it may have at most ${maxParts} parts`);
    parts.push(readPart(body.subarray(start, next - first.length), parts.length + 1));
    start = next;
  }
  return parts;
}

/**
 * @param lines - The bytes between two boundaries: the end of a line, the headers, an empty line, the content, and the
 *   end of a line.
 * @param number - The number of the part, from 1.
 */
function readPart(lines: Buffer, number: number): Part {
  const refuse = (message: string) => fault(`part ${number} ${message}`);
  const end = lines.indexOf('\r\n\r\n');
  const head = lines.subarray(0, Math.max(end, 0));
  if (head.length > maxHeaders) throw refuse('has too many headers');
  // A line that begins with a blank continues the one before (RFC 5322 section 2.2.3).
  const [padding, ...headers] = head
    .toString()
    .replaceAll(/\r\n[ \t]+/g, ' ')
    .split('\r\n');
  const isBroken = !/^[ \t]*$/.test(padding!) || headers.some((line) => /[\r\n\0]/.test(line));
  if (end === -1 || isBroken || !isUtf8(head))
    throw refuse('has no headers of lines in UTF-8 with an empty line after them');
  const header = (name: string): string | undefined => {
    const [line, more] = headers.filter((one) => one.toLowerCase().startsWith(`${name}:`));
    if (more !== undefined) throw refuse(`has two headers ${name}`);
    return line?.slice(name.length + 1).trim();
  };
  const disposition = parseDisposition(header('content-disposition') ?? '');
  const name = disposition.get('name');
  if (name === undefined) throw refuse('has no name: send Content-Disposition: form-data; name="…"');
  if (!/^(7bit|8bit|binary)?$/i.test(header('content-transfer-encoding') ?? ''))
    throw refuse('has a Content-Transfer-Encoding: send the bytes as they are');
  const filename = disposition.get('filename*') ?? disposition.get('filename');
  return {
    name,
    // RFC 7578 section 4.2: only the last segment of a path.
    filename: filename?.replace(/^.*[/\\]/s, ''),
    mediaType: header('content-type'),
    bytes: lines.subarray(end + 4, lines.length - 2),
  };
}

const parameter = /;\s*([\w-]+\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"\s]+)\s*(?=;|$)/gs;

/** The parameters of a Content-Disposition; none if it is not well-formed, not of a form, or has one twice. */
function parseDisposition(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (text.replaceAll(parameter, '').replace(/;\s*$/, '').trim().toLowerCase() !== 'form-data') return found;
  for (const [, key = '', value = ''] of text.matchAll(parameter)) {
    const name = key.toLowerCase();
    if (found.has(name)) return new Map();
    // Browsers escape a quote as %22, and leave a backslash as it is.
    const plain = value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(["\\])/g, '$1') : value;
    const decoded = name.endsWith('*') ? decodeExtended(plain) : plain;
    if (decoded !== undefined) found.set(name, decoded);
  }
  return found;
}

/** Decodes the notation of RFC 8187, in which some clients repeat the file name; undefined if it is not UTF-8. */
function decodeExtended(text: string): string | undefined {
  const [, encoded] = /^utf-8'[\w-]*'(.*)$/i.exec(text) ?? [];
  try {
    return encoded && decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

/** The error of a form that is not valid. */
export function fault(detail: string): ApiError {
  return new ApiError('invalidBody', { detail });
}
