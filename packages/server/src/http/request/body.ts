// Checks a request body's headers, then reads and parses it within a memory budget.
import { isAscii, isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { DoneFuncWithErrOrRes, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, missingBody, type ErrorKind } from '../../base/errors.js';
import { continueIfExpected } from '../connection/host-and-expect.js';
import { accountOf } from '../admission/account.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';
import type { BodyFormat } from '../../contract/body.js';
import { faultPlace, parseExactJson } from '../../contract/document/exact-json.js';
import { parseMultipart } from './multipart.js';
import { findExcess, nothingRead, unboundedLength } from './json-bounds.js';

/** Maximum number of bytes that Node reads from a connection at a time. */
const chunkLength = 64 * 1024;
/** Length from which pieces of a body stay as they arrived, in bytes. */
const blockLength = 16 * 1024;
/** How many pieces a body may have in any case, and the mean length of further ones, in bytes. */
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
      request.bodyReservation = budget.reserve(accountOf(request));
      reply.raw.on('close', () => {
        release(request);
      });
      continueIfExpected(request, reply);
      done();
    }
  };
}

/**
 * Returns the parser of bodies. Bytes count towards the budget as they arrive. While the budget has no room for
 * more of a body, the rest stays in the network; a body that must give up its room is refused.
 */
export function createBodyParser(bounds: BodyBounds) {
  return (request: FastifyRequest, payload: IncomingMessage, done: BodyCallback): void => {
    new BodyReader(request, payload, done, bounds).start();
  };
}

type BodyCallback = (error: Error | null, body?: unknown) => void;

/**
 * Reads and parses one body. It is reading until it settles, once: with the body, or with the first of the errors that
 * end it. A client that disconnects can cause several, since it also ends the wait for memory.
 */
class BodyReader {
  readonly #payload: IncomingMessage;
  readonly #reservation: Reservation;
  readonly #declared: number;
  readonly #bounds: BodyBounds;
  readonly #request: FastifyRequest;
  readonly #contentType: string;
  readonly #format: BodyFormat;
  /** Whether a body without bytes is a value of its type. */
  readonly #mayBeEmpty: boolean;
  readonly #chunks: Buffer[] = [];
  #pieces = 0;
  #arrived = 0;
  /** Undefined once the reader has settled. */
  #done: BodyCallback | undefined;

  constructor(request: FastifyRequest, payload: IncomingMessage, done: BodyCallback, bounds: BodyBounds) {
    this.#payload = payload;
    this.#request = request;
    this.#contentType = request.headers['content-type'] ?? '';
    const format = request.routeOptions.config.formatOf?.(this.#contentType);
    // The reader of the request refuses a body of a type that is not declared.
    this.#format = format ?? 'bytes';
    this.#mayBeEmpty = this.#contentType !== '' && ['form', 'text', 'bytes'].some((one) => one === format);
    this.#reservation = request.bodyReservation!;
    this.#declared = Number(request.headers['content-length'] ?? NaN);
    this.#bounds = bounds;
    this.#done = done;
  }

  start(): void {
    this.#reservation.onEvicted = this.#refuse;
    this.#payload.on('data', this.#onData).on('end', this.#onEnd).on('error', this.#fail);
  }

  readonly #onData = (chunk: Buffer): void => {
    addPiece(this.#chunks, chunk);
    this.#pieces++;
    this.#arrived += chunk.length;
    if (this.#arrived > this.#bounds.limit) {
      this.#fail(tooLarge(`at most ${this.#bounds.limit} bytes`));
    } else if (this.#pieces > freePieces + this.#arrived / meanLength) {
      this.#fail(tooLarge('it is in too many short chunks'));
    } else if (!this.#reservation.hold(this.#arrived)) {
      this.#refuse();
    } else if (this.#arrived !== this.#declared) {
      this.pauseUnlessFits(Math.min(this.#bounds.limit, this.#arrived + chunkLength));
    }
  };

  pauseUnlessFits(next: number): void {
    if (this.#reservation.fits(next)) return;
    this.#payload.pause();
    // One more chunk may arrive before the pause takes effect.
    if (this.#reservation.hold(next)) {
      this.#reservation.wait(next).then(() => this.#payload.resume(), this.#fail);
    } else {
      this.#refuse();
    }
  }

  readonly #onEnd = (): void => {
    this.stopReading();
    const [only] = this.#chunks;
    const bytes = this.#chunks.length === 1 && only ? only : joined(this.#chunks, this.#arrived);
    this.#chunks.length = 0;
    const weight = parsedWeight(bytes, this.#format);
    if (!this.#reservation.fits(weight)) {
      this.#reservation.wait(weight).then(() => {
        this.parse(bytes);
      }, this.#fail);
    } else if (this.#reservation.hold(weight)) {
      this.parse(bytes);
    } else {
      this.#refuse();
    }
  };

  parse(bytes: Buffer): void {
    let body: unknown;
    try {
      // Fastify closes the connection after an error of the parser, but not after one of the handler.
      const isMissing = bytes.length === 0 && !this.#mayBeEmpty;
      if (isMissing && this.#request.routeOptions.config.requiresBody) throw missingBody();
      if (!isMissing)
        body =
          this.#format === 'multipart'
            ? parseMultipart(bytes, this.#contentType)
            : parseBody(bytes, this.#format, this.#bounds.maxDepth);
    } catch (error) {
      this.settle(error as Error);
      return;
    }
    this.settle(null, body);
  }

  readonly #refuse = (): void => {
    this.#fail(new ApiError('overloaded'));
  };

  readonly #fail = (error: Error): void => {
    this.stopReading();
    // Discards the rest of the body.
    this.#payload.resume();
    this.settle(error);
  };

  settle(error: Error | null, body?: unknown): void {
    const done = this.#done;
    if (done === undefined) return;
    this.#done = undefined;
    // A request that has been parsed runs to its end.
    this.#reservation.onEvicted = undefined;
    done(error, body);
  }

  stopReading(): void {
    this.#payload.off('data', this.#onData).off('end', this.#onEnd).off('error', this.#fail);
  }
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
 * Parses a body that is not multipart; a form is its text.
 * @throws ApiError when the body is not of its format in UTF-8, or nested or filled beyond limits.
 */
function parseBody(body: Buffer, format: BodyFormat, maxDepth: number): unknown {
  if (format === 'bytes') return body;
  // Decoding would replace invalid UTF-8, and the stored name would differ from the one sent.
  if (!isUtf8(body))
    throw new ApiError(format === 'json' ? 'malformedJson' : 'invalidBody', { detail: 'it is not UTF-8' });
  const text = body.toString('utf8');
  return format === 'json' ? parseJson(text, maxDepth) : text;
}

/**
 * Parses JSON with exact integers (see parseExactJson).
 * @param name - What it is, if not the body.
 * @param read - What has been read of the same body.
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
