// Turns everything that is thrown into an error response of the contract.
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { StorageError, type StorageFailure } from '../../storage/core/interface.js';
import {
  ApiError,
  isApiError,
  withStatus,
  writeError,
  type ErrorEntry,
  type ErrorKind,
} from '../../base/errors.js';
import { reportNothing } from '../../base/events.js';

/** Fastify's own refusals, by error code. */
const fastifyErrors: Readonly<Record<string, ErrorKind>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'bodyTooLarge',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupportedMediaType',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'malformedRequest',
  // The client disconnected while it sent its body. It gets no response, and the server did not fail.
  ECONNRESET: 'malformedRequest',
};

type ServiceErrors = Readonly<Partial<Record<string, ErrorEntry>>>;

const storageErrors: Readonly<Record<StorageFailure, ErrorKind>> = {
  unavailable: 'unavailable',
  overloaded: 'overloaded',
  damaged: 'unavailable',
  'unknown-outcome': 'unknownOutcome',
  'too-large': 'bodyTooLarge',
};

/**
 * Converts anything that was thrown, even null, to an ApiError. Unexpected errors become 50000; their cause appears in
 * the log only.
 */
function toApiError(thrown: unknown, errors: ServiceErrors, isOfContract: boolean): ApiError {
  if (isApiError(thrown)) return thrown;
  if (thrown instanceof StorageError) {
    const kind = storageErrors[thrown.failure];
    const detail = thrown.failure === 'too-large' ? thrown.message : undefined;
    return new ApiError(errors[kind] ?? kind, { cause: thrown, detail });
  }
  const { code = '', statusCode = 500, message } = (thrown ?? {}) as Partial<FastifyError>;
  if (!isOfContract && statusCode >= 400 && statusCode < 500) {
    // Of a route outside of the contract, or of its plugins, which name a status only.
    const entry = { code: statusCode * 100 + 99, message: 'The request is refused.' };
    return new ApiError(entry, { cause: thrown, detail: message === '' ? undefined : message });
  }
  return new ApiError(fastifyErrors[code] ?? 'internal', { cause: thrown });
}

/**
 * Creates the error handler of a Fastify instance, which sends the error response for what was thrown.
 * @param errors - The service's own errors. `unknownOutcome` among them says what clients can do about one.
 * @param write - Writes the body.
 * @param report - Receives every error that is sent.
 */
export function createErrorHandler(errors: ServiceErrors = {}, write = writeError, report = reportNothing) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const { operationId, statusOf } = request.routeOptions.config;
    const own = toApiError(thrown, errors, operationId !== undefined);
    const error = withStatus(own, statusOf?.(own) ?? own.statusCode);
    request.failure = error;
    report({ type: 'error sent', error, request: request.raw });
    const { mediaType, text } = write(error);
    // The handler may have set Cache-Control for its result; it does not apply to the error.
    reply.removeHeader('cache-control').code(error.statusCode).headers(error.headers);
    reply.header('content-type', mediaType).send(text);
  };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The error that was sent, for the log. */
    failure: ApiError | undefined;
  }
}
