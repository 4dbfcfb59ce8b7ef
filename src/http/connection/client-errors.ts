// Responds to errors on a connection that no request handles: malformed HTTP and timeouts.
import type { Socket } from 'node:net';
import { ApiError, writeError, type ErrorKind } from '../../errors.js';
import { http } from '../../node/http.js';
import { connectionOf } from './connection.js';
import { unparsedId } from './request-id.js';

const kinds: Readonly<Record<string, ErrorKind>> = {
  HPE_HEADER_OVERFLOW: 'headersTooLarge',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'bodyTooLarge',
  ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
};

/**
 * Sends an error response for input that is not a complete, valid request, after pending responses, and closes the
 * connection. Fastify's clientErrorHandler.
 * @param error - The error from Node's HTTP parser or one of its timeouts.
 * @param write - Writes the body.
 */
export function respondToClientError(error: NodeJS.ErrnoException, socket: Socket, write = writeError): void {
  const connection = connectionOf(socket);
  if (connection.isClosing) return;
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  connection.fail(() => {
    endWithError(socket, new ApiError(kinds[error.code ?? ''] ?? 'malformedRequest'), write);
  });
}

/** Writes an error response to a socket that has no response object, and closes the connection. */
export function endWithError(socket: Socket, error: ApiError, write = writeError): void {
  const { mediaType, text } = write(error);
  const head = [
    `HTTP/1.1 ${error.statusCode} ${http.STATUS_CODES[error.statusCode]}`,
    `Content-Type: ${mediaType}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
    `X-Request-Id: ${unparsedId()}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  connectionOf(socket).close();
}
