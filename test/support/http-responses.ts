// Parses everything that a server sent on one connection, and accepts only well-formed HTTP/1.1 responses.
import { strict as assert } from 'node:assert';
import { STATUS_CODES } from 'node:http';
import type { HttpResponse } from './contract-check.js';

/** The data of a connection. */
export interface ParsedResponses {
  /** The final responses, in order. */
  readonly responses: HttpResponse[];
  /** The number of 100 (Continue) responses. */
  readonly continues: number;
  /** The beginning of a response that is incomplete. */
  readonly rest: Buffer;
}

const crlf = '\r\n';

/**
 * Parses the responses of a connection.
 * @param bytes - Everything that the server sent.
 * @param isHead - Whether the response with an X-Request-Id is to a HEAD request; if it returns undefined, a missing
 *   body shows it.
 * @throws AssertionError if the bytes are not HTTP/1.1 (RFC 9112), or data follows a response with Connection: close.
 */
export function parseResponses(
  bytes: Buffer,
  isHead: (requestId: string) => boolean | undefined,
): ParsedResponses {
  const responses: HttpResponse[] = [];
  let continues = 0;
  let last = false;
  let position = 0;
  for (;;) {
    const rest = bytes.subarray(position);
    if (rest.length === 0) return { responses, continues, rest };
    assert.ok(!last, `something follows the last response: ${show(rest)}`);
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return { responses, continues, rest };
    const [statusLine = '', ...lines] = rest.subarray(0, end).toString('latin1').split(crlf);
    const [, digits, reason] = /^HTTP\/1\.1 ([1-5]\d\d) ([ -~]*)$/.exec(statusLine) ?? [];
    assert.ok(digits !== undefined, `no status line: ${show(rest)}`);
    const status = Number(digits);
    assert.equal(reason, STATUS_CODES[status], `an odd reason: ${statusLine}`);
    const headers = readHeaders(lines);
    position += end + 4;
    if (status === 100) {
      continues++;
      continue;
    }
    assert.ok(status >= 200, `an unexpected interim response: ${statusLine}`);

    const body = readBody(bytes.subarray(position), status, headers, isHead(headers['x-request-id'] ?? ''));
    if (body === undefined) return { responses, continues, rest };
    position += body.length;
    responses.push({ status, headers, text: body.bytes.toString('utf8') });
    last = headers['connection']?.toLowerCase() === 'close';
  }
}

function readHeaders(lines: string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name, value] = /^([!#$%&'*+.^`|~\w-]+): ?([\t -~\x80-\xff]*)$/.exec(line) ?? [];
    assert.ok(name !== undefined && value !== undefined, `no header line: ${show(Buffer.from(line))}`);
    assert.ok(!(name.toLowerCase() in headers), `the header ${name} comes twice`);
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

/** A body and its length in bytes; undefined if it is incomplete. */
function readBody(
  bytes: Buffer,
  status: number,
  headers: Record<string, string>,
  isHead: boolean | undefined,
): { bytes: Buffer; length: number } | undefined {
  const { 'content-length': length, 'transfer-encoding': coding } = headers;
  const none = { bytes: Buffer.alloc(0), length: 0 };
  assert.ok(length === undefined || coding === undefined, 'both Content-Length and Transfer-Encoding');
  if (isHead === true) return none;
  if (status === 204 || status === 304) {
    assert.ok(length === undefined && coding === undefined, `a ${status} with a length`);
    return none;
  }
  // No response of the service has a body like this.
  const absent = bytes.length === 0 || bytes.subarray(0, 9).toString('latin1') === 'HTTP/1.1 ';
  if (isHead === undefined && absent) return none;
  if (coding !== undefined) {
    assert.equal(coding, 'chunked');
    return readChunks(bytes);
  }
  if (length === undefined) {
    // A list of several pages for a client of HTTP/1.0: only its JSON shows that it is complete.
    assert.equal(headers['connection'], 'close', 'a body without a length');
    return isJson(bytes) ? { bytes, length: bytes.length } : undefined;
  }
  assert.match(length, /^\d+$/, 'a length that is no number');
  return bytes.length < Number(length)
    ? undefined
    : { bytes: bytes.subarray(0, Number(length)), length: Number(length) };
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}

function readChunks(bytes: Buffer): { bytes: Buffer; length: number } | undefined {
  const chunks: Buffer[] = [];
  for (let position = 0; ;) {
    const lineEnd = bytes.indexOf(crlf, position);
    if (lineEnd < 0) return undefined;
    const size = bytes.subarray(position, lineEnd).toString('latin1');
    assert.match(size, /^[\da-f]+$/i, 'no chunk size');
    const start = lineEnd + 2;
    const end = start + parseInt(size, 16);
    if (bytes.length < end + 2) return undefined;
    assert.equal(bytes.subarray(end, end + 2).toString('latin1'), crlf, 'a chunk without its end');
    if (end === start) return { bytes: Buffer.concat(chunks), length: end + 2 };
    chunks.push(bytes.subarray(start, end));
    position = end + 2;
  }
}

function show(bytes: Buffer): string {
  return JSON.stringify(bytes.subarray(0, 200).toString('latin1'));
}
