// The body of a request: what must be right before it is read, and how it is read.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isUtf8 } from 'node:buffer';
import { ApiError } from '../../errors.js';
import { continueIfExpected } from '../connection/host-and-expect.js';
import type { BodyBudget } from './body-budget.js';
import { parseExactJson } from './exact-json.js';
import { findExcess, unboundedLength } from './json-bounds.js';

/**
 * The value of a JSON body, exact (see parseExactJson).
 * @param maxDepth - How many arrays and objects may stand inside each other in a long one.
 * @throws ApiError when it is not JSON in UTF-8 (RFC 8259 section 8.1), nothing at all, or holds too much.
 */
export function parseBody(body: Buffer, maxDepth: number): unknown {
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

/** A preParsing hook: everything that must be right before a body is read. */
export function admitBody(bodies: BodyBudget) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const coding = request.headers['content-encoding'];
    if (coding !== undefined && coding.toLowerCase() !== 'identity') {
      throw new ApiError('unsupportedMediaType', { detail: 'Content-Encoding must not be given' });
    }
    await bodies.admit(request, reply);
    continueIfExpected(request, reply);
  };
}

/** A preValidation hook: Fastify leaves a body that the contract requires, but nobody sent, to the handler. */
export function requireBody(
  request: FastifyRequest,
  _reply: FastifyReply,
  done: (error?: Error) => void,
): void {
  done(request.body === undefined ? new ApiError('missingBody') : undefined);
}
