// Checks a request body's headers, then reads and parses it within a memory budget.
import { isAscii, isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { DoneFuncWithErrOrRes, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, missingBody, type ErrorKind } from '../../base/errors.js';
import { continueIfExpected } from '../connection/host-and-expect.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';
import type { BodyFormat } from '../../contract/body.js';
import { faultPlace, parseExactJson } from '../../contract/document/exact-json.js';
import { parseMultipart } from './multipart.js';
import { findExcess, nothingRead, unboundedLength } from './json-bounds.js';

/** Maximum number of bytes that Node reads from a connection at a time. */
const chunkLength = 64 * 1024;
/** Length from which pieces of a body stay as they arrived, in bytes. */
const blockLength = 16 * 1024;
/** The number of pieces that any body may have, and the mean length of further ones, in bytes. */
const freePieces = 10_000;
const meanLength = 64;

/** Limits on bodies. */
export interface BodyBounds {
  /** Maximum length of a body, in bytes. */
  limit: number;
  /** Maximum nesting of arrays and objects in a long body. */
  maxDepth: number;
  /** The budget of all bodies that have arrived and whose responses are not sent yet. */
  budget: MemoryBudget;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory that its body takes. */
    bodyReservation: Reservation | undefined;
  }
}

/**
 * Returns a preParsing hook that checks a body's headers, adds the body to the budget, and sends 100 Continue if the
 * client expects it.
 */
export function admitBody({ limit, budget }: Omit<BodyBounds, 'maxDepth'>) {
  return (
    request: FastifyRequest,
    reply: FastifyReply,
    _payload: unknown,
    done: (error?: Error) => void,
  ): void => {
    const { 'content-encoding': coding, 'content-length': length = '0' } = request.headers;
    if (coding !== undefined && coding.toLowerCase() !== 'identity') {
      done(new ApiError('unsupportedMediaType', { detail: 'Content-Encoding must not be given' }));
    } else if (Number(length) > limit) {
      done(tooLarge(`at most ${limit} bytes`));
    } else if (request.raw.socket.destroyed) {
      // The client disconnected during authentication: the response is closed and will not emit 'close' again.
      done(new ApiError('malformedRequest'));
    } else {
      request.bodyReservation = budget.reserve(request.caller?.subject);
      reply.raw.on('close', () => {
        release(request);
      });
      continueIfExpected(request, reply);
      done();
    }
  };
}

type BodyCallback = (error: Error | null, body?: unknown) => void;

/**
 * Returns the parser of bodies. Bytes count towards the budget before they arrive. While it has no room for
 * more of a body, the rest stays in the network.
 */
export function createBodyParser({ limit, maxDepth }: Omit<BodyBounds, 'budget'>) {
  return (request: FastifyRequest, payload: IncomingMessage, done: BodyCallback): void => {
    const { 'content-type': contentType = '', 'content-length': declared = limit } = request.headers;
    const { formatOf, requiresBody } = request.routeOptions.config;
    const length = Number(declared);
    // The reader of the request refuses a body of a type that is not declared.
    const format = formatOf?.(contentType);
    const reservation = request.bodyReservation!;
    const chunks: Buffer[] = [];
    let pieces = 0;
    let arrived = 0;
    let isSettled = false;

    /** Ends with the body, or with the first of several errors: a client that disconnects also ends the wait for memory. */
    const settle: BodyCallback = (error, body) => {
      if (isSettled) return;
      isSettled = true;
      done(error, body);
    };
    const stopReading = () => payload.off('data', onData).off('end', onEnd).off('error', fail);
    const fail = (error: Error): void => {
      // Discards the rest of the body.
      stopReading().resume();
      settle(error);
    };
    const onData = (chunk: Buffer): void => {
      addPiece(chunks, chunk);
      pieces++;
      arrived += chunk.length;
      const next = Math.min(length, arrived + chunkLength);
      if (arrived > limit) fail(tooLarge(`at most ${limit} bytes`));
      else if (pieces > freePieces + arrived / meanLength) fail(tooLarge('it is in too many short chunks'));
      else if (arrived < length && !reservation.hold(next)) {
        payload.pause();
        reservation.wait(next).then(() => payload.resume(), fail);
      }
    };
    const parse = (bytes: Buffer): void => {
      // An empty body may be a valid value of its type.
      const isMissing =
        bytes.length === 0 && (contentType === '' || !['form', 'text', 'bytes'].includes(format ?? ''));
      let body: unknown;
      try {
        // Fastify closes the connection after an error of the parser, but not after one of the handler.
        if (isMissing && requiresBody) throw missingBody();
        if (!isMissing) body = parseBody(bytes, format ?? 'bytes', contentType, maxDepth);
      } catch (error) {
        settle(error as Error);
        return;
      }
      settle(null, body);
    };
    const onEnd = (): void => {
      stopReading();
      const [only] = chunks;
      const bytes = chunks.length === 1 && only ? only : joined(chunks, arrived);
      chunks.length = 0;
      const weight = parsedWeight(bytes, format ?? 'bytes');
      if (reservation.hold(weight)) parse(bytes);
      else
        reservation.wait(weight).then(() => {
          parse(bytes);
        }, fail);
    };
    payload.on('data', onData).on('end', onEnd).on('error', fail);
  };
}

/**
 * Adds a piece to a body, joined with the short ones before it: as objects of their own, they would take hundreds of
 * times their length. What is joined at least grows by half, so that each byte is copied a few times only.
 */
function addPiece(chunks: Buffer[], piece: Buffer): void {
  let first = chunks.length;
  let { length } = piece;
  for (let last = chunks[first - 1]; last !== undefined; last = chunks[first - 1]) {
    if (last.length > 2 * length || last.length + length > blockLength) break;
    length += last.length;
    first--;
  }
  chunks.push(piece);
  if (first < chunks.length - 1) chunks.push(joined(chunks.splice(first), length));
}

/** Joins Buffers. Buffer.concat would take short results from a pool, which each of them keeps in memory. */
function joined(parts: readonly Buffer[], length: number): Buffer {
  const whole = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const part of parts) at += part.copy(whole, at);
  return whole;
}

/**
 * The memory that a body takes from parsing to the response, in bytes: as text, as values and as stored data, each with
 * two bytes per character unless the text is ASCII. Of bytes there is no text, and parts of a form are not copied.
 */
function parsedWeight(body: Buffer, format: BodyFormat): number {
  if (format === 'bytes') return 2 * body.length;
  return 3 * (format === 'multipart' || isAscii(body) ? body.length : 2 * body.length);
}

function tooLarge(detail: string): ApiError {
  return new ApiError('bodyTooLarge', { detail });
}

/**
 * Parses a body; a form that is not multipart is its text.
 * @throws ApiError when the body is not of its format in UTF-8, or nested or filled beyond limits.
 */
function parseBody(body: Buffer, format: BodyFormat, contentType: string, maxDepth: number): unknown {
  if (format === 'bytes') return body;
  if (format === 'multipart') return parseMultipart(body, contentType);
  // Decoding would replace invalid UTF-8, and the stored name would differ from the one sent.
  if (!isUtf8(body))
    throw new ApiError(format === 'json' ? 'malformedJson' : 'invalidBody', { detail: 'it is not UTF-8' });
  const text = body.toString('utf8');
  return format === 'json' ? parseJson(text, maxDepth) : text;
}

/**
 * Parses JSON with exact integers (see parseExactJson).
 * @param name - The name of the text, if it is not the body.
 * @param read - The counts of what has been read of the same body.
 * @param kind - What a fault is, if it has a name.
 * @throws ApiError when it is not JSON (RFC 8259), or nested or filled beyond limits.
 */
export function parseJson(
  text: string,
  maxDepth: number,
  name?: string,
  read = nothingRead(),
  kind: ErrorKind = 'invalidBody',
): unknown {
  read.length += text.length;
  const excess = read.length > unboundedLength ? findExcess(text, maxDepth, read) : undefined;
  if (excess !== undefined) throw new ApiError(kind, { detail: name ? `of ${name}: ${excess}` : excess });
  try {
    return parseExactJson(text);
  } catch (error) {
    if (name === undefined)
      throw new ApiError('malformedJson', { cause: error, detail: `the fault is at ${faultPlace(text)}` });
    throw new ApiError(kind, { detail: `${name} is not well-formed`, cause: error });
  }
}

/** An onSend hook that releases the body: a slow reader of the response must not keep it in memory. */
export function releaseBody(
  request: FastifyRequest,
  _reply: FastifyReply,
  payload: unknown,
  done: DoneFuncWithErrOrRes,
): void {
  release(request);
  done(null, payload);
}

function release(request: FastifyRequest): void {
  request.bodyReservation?.release();
  // Plugins may keep and reuse request objects.
  request.body = undefined;
}
