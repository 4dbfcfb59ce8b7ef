// Responds to errors on a connection that no request handles: malformed HTTP and timeouts.
import type { Socket } from 'node:net';
import { ApiError, type ErrorKind, type ErrorRenderer } from '../../errors.js';
import { http } from '../../node/http.js';
import { connectionOf } from './connection.js';
import type { Rejecting, RejectionReason } from './rejections.js';
import { newRequestId } from './request-id.js';

/** What each code of Node.js means; every other one is malformed HTTP. */
const meanings: Readonly<Record<string, readonly [ErrorKind, RejectionReason]>> = {
  HPE_HEADER_OVERFLOW: ['headersTooLarge', 'headers_too_large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['bodyTooLarge', 'body_too_large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['requestTimeout', 'timeout'],
};
const malformed = ['malformedRequest', 'malformed'] as const;
/** The codes of handshakes that fail, after which nothing can be sent. */
const ofHandshake = /^(?:ERR_SSL_|ERR_TLS_|EPROTO)/;

/**
 * Sends an error response for input that is not a complete, valid request, after pending responses, and closes the
 * connection. Fastify's clientErrorHandler.
 * @param error - The error from Node's HTTP parser or one of its timeouts.
 * @param rejecting - Writes the body, and learns of it, unless the client only closed its connection.
 */
export function respondToClientError(
  { code = '' }: NodeJS.ErrnoException,
  socket: Socket,
  { write, report }: Rejecting,
): void {
  const connection = connectionOf(socket);
  if (connection.isClosing) return;
  const { remoteAddress: address } = socket;
  const [kind, reason] = meanings[code] ?? malformed;
  const isOfHandshake = ofHandshake.test(code);
  if (code === 'ECONNRESET' || isOfHandshake || !socket.writable) {
    socket.destroy();
    if (code !== 'ECONNRESET') report({ reason: isOfHandshake ? 'tls_handshake' : reason, address });
    return;
  }
  connection.fail(() => {
    report({ reason, requestId: endWithError(socket, new ApiError(kind), write), address });
  });
}

/**
 * Writes an error response to a socket that has no response object, and closes the connection.
 * @returns The id in the response.
 */
export function endWithError(socket: Socket, error: ApiError, write: ErrorRenderer): string {
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
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  connectionOf(socket).close();
  return requestId;
}
