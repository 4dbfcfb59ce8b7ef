// Turns whatever goes wrong into the one kind of error answer that the contract knows.
import type { FastifyError, FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { StorageError, type StorageFailure } from '../../domain/storage.js';
import { ApiError, type ErrorKind } from '../../errors.js';

/** What Fastify itself can refuse, by its codes. */
const fastifyErrors: Readonly<Record<string, ErrorKind>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'bodyTooLarge',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupportedMediaType',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'malformedRequest',
  // The client went away while it sent its body: nobody reads this answer, and it is no failure of ours.
  ECONNRESET: 'malformedRequest',
};

const storageErrors: Readonly<Record<StorageFailure, ErrorKind>> = {
  unavailable: 'unavailable',
  overloaded: 'overloaded',
  'unknown-outcome': 'unknownOutcome',
};

/**
 * The answer for anything that was thrown, `throw null` too. Only an error that the catalogue knows shows its
 * nature; everything else is 50000, and its cause is for the log.
 */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof StorageError) return new ApiError(storageErrors[thrown.failure], { cause: thrown });
  const kind = fastifyErrors[(thrown as Partial<FastifyError> | null)?.code ?? ''];
  return new ApiError(kind ?? 'internal', { cause: thrown });
}

/** Answers with what was thrown. Fastify's error handler. */
export function answerError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = toApiError(thrown);
  request.failure = error;
  reply
    .code(error.statusCode)
    .headers(error.headers)
    .header('content-type', 'application/json; charset=utf-8')
    .send(error.json);
}

/** Names the request in its answer: an onRequest hook. */
export const nameRequest: onRequestHookHandler = (request, reply, done) => {
  reply.header('x-request-id', request.id);
  done();
};

declare module 'fastify' {
  interface FastifyRequest {
    /** The error that was answered, for the log. */
    failure: ApiError | undefined;
  }
}
