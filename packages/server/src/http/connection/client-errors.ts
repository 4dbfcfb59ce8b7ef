// Responds to errors on a connection that no request handles: malformed HTTP and timeouts.
import { randomUUID } from 'node:crypto';
import { ApiError, type ErrorKind, type ErrorRenderer } from '../../base/errors.js';
import type { Report, RejectionReason } from '../../base/events.js';
import { http } from '../../base/node/fronted-server.js';
import type { Connection } from './connection.js';

/** The means by which a server answers and reports input and connections that no request handles. */
export interface Rejecting {
  /** Writes the bodies of errors. */
  readonly write: ErrorRenderer;
  readonly report: Report;
}

/** The meaning of each Node.js error code; all others stand for malformed HTTP. */
const meanings: Readonly<Record<string, readonly [ErrorKind, RejectionReason]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'headers_too_large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['bodyTooLarge', 'body_too_large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'timeout'],
};

/**
 * Handles input that is not a complete, valid request: sends an error response, unless another response is pending, and
 * closes the connection. Fastify's clientErrorHandler.
 * @param error - The error from Node's HTTP parser or one of its timeouts.
 * @param rejecting - Writes the body, and reports the error unless the client only closed its connection.
 */
export function respondToClientError(
  error: NodeJS.ErrnoException,
  connection: Connection,
  rejecting: Rejecting,
): void {
  const [kind, reason] = meanings[error.code ?? ''] ?? ['malformedRequest', 'malformed'];
  if (connection.isBodyUnread) {
    // Only then is it known whether the response waits for the body.
    connection.once('resume', () => {
      respondToClientError(error, connection, rejecting);
    });
  } else if (connection.isOpen && connection.writable) {
    const requestId = connection.fail() ? endWithError(connection, new ApiError(kind), rejecting) : undefined;
    rejecting.report({ type: 'rejected', reason, requestId, address: connection.remoteAddress });
  }
}

/** Writes an error response without a response object, and closes the connection. @returns The id in the response. */
function endWithError(connection: Connection, error: ApiError, { write }: Rejecting): string {
  const requestId = randomUUID();
  const { mediaType, text } = write(error);
  const head = [
    `HTTP/1.1 ${error.statusCode} ${http.STATUS_CODES[error.statusCode]}`,
    `Content-Type: ${mediaType}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Cache-Control: no-store',
    'X-Content-Type-Options: nosniff',
    `X-Request-Id: ${requestId}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  connection.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  connection.destroySoon();
  return requestId;
}
