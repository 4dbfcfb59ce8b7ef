// Answers what never became a request: malformed HTTP and timeouts.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError, type ErrorKind } from '../../errors.js';
import { closeLingering, closing } from './lingering-close.js';
import { pipelines } from './request-order.js';

const failed = new WeakSet<Socket>();
/** Methods whose requests wait for their body; all others are answered without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Answers what never became a request, or stopped being one in its body, and closes the connection; but only behind the
 * pending responses, or the client would take this one for theirs. Fastify's clientErrorHandler.
 * @param error - What Node's HTTP parser or its timeouts report.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (closing.has(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  // The parser reports the same error again for all that follows: none of it is wanted.
  socket.pause();
  if (failed.has(socket)) return;
  failed.add(socket);
  // Told that the client has ended its side, Node would close the connection behind the pending responses.
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

/** Writes an error answer as bytes, where there is no response object to do it, and closes the connection behind it. */
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
