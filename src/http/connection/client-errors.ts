// Responds to errors on a connection that no request handles: malformed HTTP and timeouts.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError, type ErrorKind } from '../../errors.js';
import { closeLingering, closing } from './lingering-close.js';
import { pipelines } from './request-order.js';

const failed = new WeakSet<Socket>();
/** Methods whose requests wait for their body; all others get a response without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Sends an error response for input that is not a complete, valid request, and closes the connection. It waits for
 * pending responses first: otherwise the client would take the error for one of them. Fastify's clientErrorHandler.
 * @param error - The error from Node's HTTP parser or one of its timeouts.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (closing.has(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // For any further input, the parser would report the same error again.
  socket.pause();
  if (failed.has(socket)) return;
  failed.add(socket);
  // On 'end', Node would close the connection after the pending responses, before this one.
  socket.removeAllListeners('end');
  answerInOrder(error, socket);
}

function answerInOrder(error: NodeJS.ErrnoException, socket: Socket): void {
  const pipeline = pipelines.get(socket);
  const inBody = pipeline?.newest?.complete === false;
  const unanswerable =
    inBody && pipeline.last?.headersSent === false && takesBody.has(pipeline.newest?.method ?? '');
  const pending = unanswerable ? pipeline.previous : pipeline?.last;
  if (pending?.closed === false) {
    pending.once('close', () => {
      if (socket.writable) answerInOrder(error, socket);
    });
  } else if (inBody && !unanswerable) {
    closeLingering(socket);
  } else {
    const kinds: Record<string, ErrorKind> = {
      HPE_HEADER_OVERFLOW: 'headersTooLarge',
      HPE_CHUNK_EXTENSIONS_OVERFLOW: 'bodyTooLarge',
      ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
    };
    endWithError(socket, new ApiError(kinds[error.code ?? ''] ?? 'malformedRequest'));
  }
}

let unparsed = 0;

/** Writes an error response to a socket that has no response object, and closes the connection. */
export function endWithError(socket: Socket, error: ApiError): void {
  const head = [
    `HTTP/1.1 ${error.statusCode} ${STATUS_CODES[error.statusCode]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(error.json)}`,
    `X-Request-Id: unparsed-${++unparsed}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${error.json}`);
  closeLingering(socket);
}
