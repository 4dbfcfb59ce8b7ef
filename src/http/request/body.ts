// The body of a request: what must be right before it is read, and how it is read, in memory that is bounded.
import { isAscii, isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { DoneFuncWithErrOrRes, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../errors.js';
import { continueIfExpected } from '../connection/host-and-expect.js';
import type { Holder, MemoryBudget } from '../memory-budget.js';
import { parseExactJson } from './exact-json.js';
import { findExcess, unboundedLength } from './json-bounds.js';

/** The most that Node reads from a connection at a time, in bytes. */
const chunkLength = 64 * 1024;

/** The bounds of bodies. */
export interface BodyBounds {
  /** The most bytes that a body may have. */
  limit: number;
  /** How many arrays and objects may stand inside each other in a long one. */
  maxDepth: number;
  /** What the bodies that have arrived hold until they are answered. */
  budget: MemoryBudget;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What its body holds of the budget. */
    bodyHolder: Holder | undefined;
  }
}

/** A preParsing hook: everything that must be right before a body is read. From here on it counts. */
export function admitBody({ limit, budget }: BodyBounds) {
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
      done(tooLarge(limit));
    } else if (request.raw.socket.destroyed) {
      // The client has gone while it was authenticated: its response will not close again.
      done(new ApiError('malformedRequest'));
    } else {
      request.bodyHolder = budget.enter(request.caller?.subject ?? '');
      reply.raw.on('close', () => {
        release(request, budget);
      });
      continueIfExpected(request, reply);
      done();
    }
  };
}

/**
 * The parser of JSON bodies. What has arrived counts; a body that may not have more yet is left in the network, and
 * one that may not have what it has is refused.
 */
export function createBodyParser({ limit, maxDepth, budget }: BodyBounds) {
  return (
    request: FastifyRequest,
    payload: IncomingMessage,
    done: (error: Error | null, body?: unknown) => void,
  ): void => {
    const holder = request.bodyHolder!;
    const declared = Number(request.headers['content-length'] ?? NaN);
    const chunks: Buffer[] = [];
    let arrived = 0;
    const onData = (chunk: Buffer) => {
      chunks.push(chunk);
      arrived += chunk.length;
      if (arrived > limit) {
        fail(tooLarge(limit));
      } else if (!budget.hold(holder, arrived)) {
        refuse();
      } else if (arrived !== declared) {
        const next = Math.min(limit, arrived + chunkLength);
        if (budget.fits(holder, next)) return;
        payload.pause();
        // As much may arrive before the pause takes effect.
        if (budget.hold(holder, next)) budget.turn(holder, next).then(() => payload.resume(), fail);
        else refuse();
      }
    };
    const onEnd = () => {
      stop();
      const [only] = chunks;
      const bytes = chunks.length === 1 && only ? only : Buffer.concat(chunks, arrived);
      chunks.length = 0;
      const weight = parsedWeight(bytes);
      if (budget.fits(holder, weight)) {
        if (budget.hold(holder, weight)) parse(bytes);
        else refuse();
      } else {
        budget.turn(holder, weight).then(() => {
          parse(bytes);
        }, fail);
      }
    };
    const parse = (bytes: Buffer) => {
      holder.cutOff = undefined;
      let body: unknown;
      try {
        body = parseBody(bytes, maxDepth);
      } catch (error) {
        done(error as ApiError);
        return;
      }
      done(null, body);
    };
    const refuse = () => {
      fail(new ApiError('overloaded'));
    };
    const fail = (error: Error) => {
      stop();
      holder.cutOff = undefined;
      // What still comes is dropped.
      payload.resume();
      done(error);
    };
    const stop = () => {
      payload.off('data', onData).off('end', onEnd).off('error', fail);
    };
    holder.cutOff = refuse;
    payload.on('data', onData).on('end', onEnd).on('error', fail);
  };
}

/**
 * How much memory a body takes from its parsing to its answer, in bytes: as text, as values, and as what is stored of
 * it, each with two bytes for a character in a text beyond Latin-1.
 */
function parsedWeight(body: Buffer): number {
  return 3 * (isAscii(body) ? body.length : 2 * body.length);
}

function tooLarge(limit: number): ApiError {
  return new ApiError('bodyTooLarge', { detail: `at most ${limit} bytes` });
}

/**
 * The value of a JSON body, exact (see parseExactJson).
 * @throws ApiError when it is not JSON in UTF-8 (RFC 8259 section 8.1), nothing at all, or holds too much.
 */
function parseBody(body: Buffer, maxDepth: number): unknown {
  if (body.length === 0) throw new ApiError('missingBody');
  // Decoding would replace what is no UTF-8, and so store another name than was sent.
  if (!isUtf8(body)) throw new ApiError('malformedJson', { detail: 'it is not UTF-8' });
  const text = body.toString('utf8');
  const excess = body.length > unboundedLength ? findExcess(text, maxDepth) : undefined;
  if (excess !== undefined) throw new ApiError('invalidBody', { detail: excess });
  try {
    return parseExactJson(text);
  } catch (error) {
    throw new ApiError('malformedJson', { cause: error });
  }
}

/** An onSend hook: an answer needs no body any more, however long its client takes for it. */
export function releaseBody({ budget }: BodyBounds) {
  return (
    request: FastifyRequest,
    _reply: FastifyReply,
    payload: unknown,
    done: DoneFuncWithErrOrRes,
  ): void => {
    release(request, budget);
    done(null, payload);
  };
}

function release(request: FastifyRequest, budget: MemoryBudget): void {
  if (request.bodyHolder !== undefined) budget.leave(request.bodyHolder);
  // Plugins may keep the last requests for use again.
  request.body = undefined;
}

/** A preValidation hook: Fastify leaves a body that the contract requires, but nobody sent, to the handler. */
export function requireBody(
  request: FastifyRequest,
  _reply: FastifyReply,
  done: (error?: Error) => void,
): void {
  done(request.body === undefined ? new ApiError('missingBody') : undefined);
}
