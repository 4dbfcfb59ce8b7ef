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
  if (boundary === '') throw fault('its Content-Type must have a boundary');
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
  const [padding = '', ...fields] = head.toString('utf8', 0, maxHeaders).split('\r\n');
  if (end === -1 || end > maxHeaders || !isUtf8(head) || padding.trim() !== '')
    throw refuse('has no headers in UTF-8, of at most 16 KiB, with an empty line after them');
  const headers = new Map(
    fields.map((field) => {
      const [name = ''] = field.split(':', 1);
      return [name.toLowerCase(), field.slice(name.length + 1).trim()];
    }),
  );
  const { name, filename } = parseDisposition(headers.get('content-disposition') ?? '');
  if (name === undefined) throw refuse('has no name: send Content-Disposition: form-data; name="…"');
  if (!/^(7bit|8bit|binary)?$/i.test(headers.get('content-transfer-encoding') ?? ''))
    throw refuse('has a Content-Transfer-Encoding: send the bytes as they are');
  return {
    name,
    // RFC 7578 section 4.2: only the last segment of a path.
    filename: filename?.replace(/^.*[/\\]/s, ''),
    mediaType: headers.get('content-type'),
    bytes: lines.subarray(end + 4, lines.length - 2),
  };
}

const parameter = /;\s*([\w-]+\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"\s]+)\s*(?=;|$)/gs;

/** The parameters of a Content-Disposition; none if it is not well-formed, or not of a form. */
function parseDisposition(text: string): Partial<Record<string, string>> {
  const isOfForm = /^form-data[;\s]*$/i.test(text.replaceAll(parameter, ''));
  const parameters = Array.from(isOfForm ? text.matchAll(parameter) : [], ([, name = '', value = '']) => {
    // Browsers escape a quote as %22, and leave a backslash as it is.
    const plain = value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(["\\])/g, '$1') : value;
    return [name.toLowerCase(), plain];
  });
  return Object.fromEntries(parameters) as Partial<Record<string, string>>;
}

/** The error of a form that is not valid. */
export function fault(detail: string): ApiError {
  return new ApiError('invalidBody', { detail });
}
