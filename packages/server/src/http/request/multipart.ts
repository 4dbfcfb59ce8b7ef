// Parses bodies of multipart/form-data (RFC 7578).
import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import { Dicer } from '@fastify/busboy';
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
/** The maximum length of the headers of a part, in characters, with what they take besides. */
const maxHeaders = 16_384;
const headerCost = 32;

let last: Promise<unknown> = Promise.resolve();

/**
 * Parses a body, after those that came before: while it is parsed, each part takes much more memory than its bytes.
 * @param contentType - The Content-Type of the request.
 * @throws ApiError that names the first part that is not valid.
 */
export function parseMultipart(body: Buffer, contentType: string): Promise<Part[]> {
  const parsed = last.then(() => parse(body, contentType));
  last = parsed.catch(() => undefined);
  return parsed;
}

async function parse(body: Buffer, contentType: string): Promise<Part[]> {
  const boundary = parseMediaType(contentType).parameters.get('boundary') ?? '';
  // RFC 2046 section 5.1.1.
  if (!/^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary))
    throw fault('its Content-Type must have a boundary of 1 to 70 characters');
  if (countParts(body, boundary) > maxParts) throw fault(`it may have at most ${maxParts} parts`);
  const dicer = new Dicer({ boundary });
  const parts: Promise<Part>[] = [];
  dicer.on('part', (part) => parts.push(readPart(part, parts.length + 1)));
  // A form that ends early is reported once by `once`, and again by the part that has no end.
  dicer.on('error', () => undefined);
  const finished = once(dicer, 'finish').catch(() => {
    throw fault('it has no end: the last boundary is missing');
  });
  dicer.end(body);
  const [read] = await Promise.all([Promise.all(parts), finished]);
  return read;
}

function countParts(body: Buffer, boundary: string): number {
  const delimiter = `--${boundary}`;
  let count = 0;
  for (let at = body.indexOf(delimiter); at >= 0 && count <= maxParts + 1; count++)
    at = body.indexOf(delimiter, at + delimiter.length);
  // The last one ends the form.
  return count - 1;
}

/** @param number - Which part it is, from 1. */
async function readPart(part: Dicer.PartStream, number: number): Promise<Part> {
  let headers: Readonly<Record<string, string[]>> = {};
  part.on('header', (found) => {
    headers = found as typeof headers;
  });
  const chunks: Buffer[] = [];
  for await (const chunk of part) chunks.push(chunk as Buffer);
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const refuse = (message: string) => fault(`part ${number} ${message}`);
  const lines = Object.entries(headers).flatMap(([name, values]) => values.map((value) => name + value));
  if (lines.reduce((sum, line) => sum + line.length + headerCost, 0) > maxHeaders)
    throw refuse('has too many headers');
  const header = (name: string): string | undefined => {
    const [value, more] = headers[name] ?? [];
    if (more !== undefined) throw refuse(`has two headers ${name}`);
    if (value === undefined) return undefined;
    const text = Buffer.from(value, 'latin1');
    if (!isUtf8(text)) throw refuse(`has a header ${name} that is not UTF-8`);
    return text.toString();
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
    bytes,
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

function fault(detail: string): ApiError {
  return new ApiError('invalidBody', { detail });
}
