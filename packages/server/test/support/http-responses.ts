// Parses what a server sends on a connection, and accepts only well-formed HTTP/1.1 responses.
import { strict as assert } from 'node:assert';
import { STATUS_CODES } from 'node:http';
import type { HttpResponse } from './contract-check.js';

/** The data of a connection. */
export interface ParsedResponses {
  /** The final responses, in order. */
  readonly responses: HttpResponse[];
  /** The beginning of a response that is incomplete. */
  readonly rest: Buffer;
}

const crlf = '\r\n';

/** Whether the response with an X-Request-Id is to a HEAD request; if it is undefined, a missing body shows it. */
type IsHead = (requestId: string) => boolean | undefined;

/**
 * Parses the responses of a connection.
 * @param bytes - Everything that the server sent.
 * @throws AssertionError if the bytes are not HTTP/1.1 (RFC 9112), or data follows a response with Connection: close.
 */
export function parseResponses(bytes: Buffer, isHead: IsHead): ParsedResponses {
  const responses: HttpResponse[] = [];
  for (let rest = bytes; ;) {
    const isLast = responses.at(-1)?.headers['connection'] === 'close';
    assert.ok(!isLast || rest.length === 0, `something follows the last response: ${show(rest)}`);
    const parsed = parseResponse(rest, isHead);
    if (parsed === undefined) return { responses, rest };
    const { response, length } = parsed;
    rest = rest.subarray(length);
    if (response.status === 100) continue;
    assert.ok(response.status >= 200, `an unexpected interim response: ${response.status}`);
    responses.push(response);
  }
}

/**
 * Parses the first response in bytes.
 * @returns The response and its length in bytes; undefined if it is incomplete.
 * @throws AssertionError if the bytes are not HTTP/1.1.
 */
export function parseResponse(
  bytes: Buffer,
  isHead: IsHead,
): { response: HttpResponse; length: number } | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [statusLine = '', ...lines] = bytes.subarray(0, end).toString('latin1').split(crlf);
  const [, digits, reason] = /^HTTP\/1\.1 ([1-5]\d\d) ([ -~]*)$/.exec(statusLine) ?? [];
  assert.ok(digits !== undefined, `no status line: ${show(bytes)}`);
  const status = Number(digits);
  assert.equal(reason, STATUS_CODES[status], `an odd reason: ${statusLine}`);
  const headers = readHeaders(lines);
  const start = end + 4;
  if (status < 200) return { response: { status, headers, text: '' }, length: start };
  const body = readBody(bytes.subarray(start), status, headers, isHead(headers['x-request-id'] ?? ''));
  if (body === undefined) return undefined;
  const text = body.bytes.toString('utf8');
  return { response: { status, headers, text }, length: start + body.length };
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
