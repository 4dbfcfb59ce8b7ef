// Reads the body of a request within a memory budget, and parses it.
import { isAscii, isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { DoneFuncWithErrOrRes, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError, isApiError } from '../../base/errors.js';
import { continueIfExpected } from '../connection/host-and-expect.js';
import type { MemoryBudget, Reservation } from '../admission/memory-budget.js';
import { contentFinder, type Body, type BodyFormat } from '../../contract/body.js';
import { parseForm } from './forms.js';
import { JsonReader } from './json-reader.js';

/** Maximum number of bytes that Node reads from a connection at a time. */
const chunkLength = 64 * 1024;

/** Limits on bodies. */
export interface BodyBounds {
  /** Maximum length of a body, in bytes. */
  limit: number;
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
 * Returns a hook that reads the body of a request as the operation declares it: JSON as its value, bytes, the parts of a
 * form, or a text; bytes if its type is not declared. Undefined stands for a body that is missing, and an error
 * for one that could not be read, until it is reported with the faults of the other parts.
 */
export function bodyHook(body: Body | undefined, bounds: BodyBounds) {
  const find = contentFinder(body?.contents ?? []);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const type = request.headers['content-type'] ?? '';
    const format = find(type)?.format;
    try {
      const bytes = await readBytes(request, reply, format ?? 'bytes', bounds);
      // An empty body may be a valid value of its type.
      const isMissing =
        bytes.length === 0 && (type === '' || !['form', 'text', 'bytes'].includes(format ?? ''));
      request.body = isMissing ? undefined : parseBody(bytes, format ?? 'bytes', type);
    } catch (error) {
      if (!isApiError(error)) throw error;
      request.body = error;
    }
  };
}

/**
 * Reads a body that counts towards the budget, and sends 100 Continue if the client expects it.
 * @throws ApiError if it is coded, too long, or the budget has no room for it in time.
 */
async function readBytes(
  request: FastifyRequest,
  reply: FastifyReply,
  format: BodyFormat,
  { limit, budget }: BodyBounds,
): Promise<Buffer> {
  const { 'content-encoding': coding = 'identity', 'content-length': declared = limit } = request.headers;
  if (coding.toLowerCase() !== 'identity')
    throw new ApiError('unsupportedMediaType', { detail: 'Content-Encoding must be identity, or not given' });
  const length = Number(declared);
  if (length > limit) throw tooLarge(limit);
  // The client disconnected during authentication: the response is closed and will not emit 'close' again.
  if (request.raw.socket.destroyed) throw new ApiError('malformedRequest');
  const reservation = budget.reserve(request.caller?.subject);
  request.bodyReservation = reservation;
  reply.raw.on('close', () => {
    release(request);
  });
  continueIfExpected(request, reply);
  const bytes = await collect(request.raw, reservation, length, limit);
  const weight = parsedWeight(bytes, format);
  if (!reservation.hold(weight)) await reservation.wait(weight);
  return bytes;
}

/** Collects the bytes of a body. While the budget has no room for more of it, the rest stays in the network. */
function collect(
  payload: IncomingMessage,
  reservation: Reservation,
  length: number,
  limit: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    let end = 0;
    const stop = () => payload.off('data', onData).off('end', onEnd).off('error', fail);
    const fail = (error: Error): void => {
      // Discards the rest of the body.
      stop().resume();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      const start = end;
      end += chunk.length;
      if (end > limit) {
        fail(tooLarge(limit));
        return;
      }
      // Most bodies are one chunk. As objects of their own, short ones would take hundreds of times their length.
      if (start === 0) bytes = chunk;
      else {
        if (end > bytes.length) bytes = Buffer.concat([bytes], Math.max(end, 2 * start));
        chunk.copy(bytes, start);
      }
      const next = Math.min(length, end + chunkLength);
      if (end < length && !reservation.hold(next)) {
        payload.pause();
        reservation.wait(next).then(() => payload.resume(), fail);
      }
    };
    const onEnd = (): void => {
      stop();
      resolve(bytes.subarray(0, end));
    };
    payload.on('data', onData).on('end', onEnd).on('error', fail);
  });
}

/**
 * The memory that a body takes from parsing to the response, in bytes: as text, as values and as stored data, each with
 * two bytes per character unless the text is ASCII. Of bytes there is no text.
 */
function parsedWeight(body: Buffer, format: BodyFormat): number {
  if (format === 'bytes') return 2 * body.length;
  return 3 * (format === 'multipart' || isAscii(body) ? body.length : 2 * body.length);
}

function tooLarge(limit: number): ApiError {
  return new ApiError('bodyTooLarge', { detail: `at most ${limit} bytes` });
}

/**
 * Parses a body.
 * @throws ApiError when the body is not of its format in UTF-8, or nested or filled beyond limits.
 */
function parseBody(body: Buffer, format: BodyFormat, contentType: string): unknown {
  if (format === 'bytes') return body;
  if (format === 'form' || format === 'multipart') return parseForm(body, format, contentType);
  // Decoding would replace invalid UTF-8, and the stored name would differ from the one sent.
  if (!isUtf8(body))
    throw new ApiError(format === 'json' ? 'malformedJson' : 'invalidBody', { detail: 'it is not UTF-8' });
  const text = body.toString('utf8');
  return format === 'json' ? new JsonReader().parse(text) : text;
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
