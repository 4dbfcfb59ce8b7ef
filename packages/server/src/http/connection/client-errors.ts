// Responds to errors on a connection that no request handles: malformed HTTP and timeouts.
import type { Socket } from 'node:net';
import { ApiError, type ErrorKind } from '../../base/errors.js';
import { http } from '../../base/node/http.js';
import { Connection } from './connection.js';
import type { RejectionReason } from '../../base/events.js';
import type { Rejecting } from './rejections.js';
import { newRequestId } from './request-id.js';

/** The meaning of each Node.js error code; all others stand for malformed HTTP. */
const meanings: Readonly<Record<string, readonly [ErrorKind, RejectionReason]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'headers_too_large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['bodyTooLarge', 'body_too_large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'timeout'],
};
const malformed = ['malformedRequest', 'malformed'] as const;
/**
 * Sends an error response for input that is not a complete, valid request, after pending responses, and closes the
 * connection. Fastify's clientErrorHandler.
 * @param error - The error from Node's HTTP parser or one of its timeouts.
 * @param socket - That of a connection only if its TLS handshake has failed, after which nothing can be sent.
 * @param rejecting - Writes the body, and reports the error unless the client only closed its connection.
 */
export function respondToClientError(
  { code = '' }: NodeJS.ErrnoException,
  socket: Connection | Socket,
  rejecting: Rejecting,
): void {
  const { remoteAddress: address } = socket;
  const isConnected = socket instanceof Connection;
  if (isConnected && socket.isClosing) return;
  const [kind, reason] = meanings[code] ?? malformed;
  if (code === 'ECONNRESET' || !isConnected || !socket.writable) {
    socket.destroy();
    if (code !== 'ECONNRESET')
      rejecting.report({ type: 'rejected', reason: isConnected ? reason : 'tls_handshake', address });
    return;
  }
  socket.fail(() => {
    const requestId = endWithError(socket, new ApiError(kind), rejecting);
    rejecting.report({ type: 'rejected', reason, requestId, address });
  });
}

/**
 * Writes an error response without a response object, and closes the connection.
 * @returns The id in the response.
 */
export function endWithError(connection: Connection, error: ApiError, { write }: Rejecting): string {
  const requestId = newRequestId();
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
  connection.close();
  return requestId;
}
