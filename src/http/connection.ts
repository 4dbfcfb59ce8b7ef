// What belongs to the connection rather than to an operation: order, unread bodies, Expect, Host, malformed HTTP.
import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { ApiError, type ErrorKind } from '../errors.js';

/** How much of a body that nobody wants is read before the connection is given up, in bytes. */
const drainLimit = 64 * 1024;
/** How long a client may take to read its answer and stop sending before the connection is given up, in ms. */
const lingerTime = 2_000;
/** How many requests may wait on one connection before no more are read from it. */
const pipelineDepth = 16;

/** The requests of one connection that are not answered yet. */
interface Turns {
  /** The newest request, as long as it is not answered or its body is not complete. */
  newest: IncomingMessage | undefined;
  /**
   * The response to the newest request, and to the one before it, as long as they are open: much hangs on a response, and an
   * idle connection would keep all of it.
   */
  last: ServerResponse | undefined;
  previous: ServerResponse | undefined;
  waiting: number;
}

const connections = new WeakMap<Socket, Turns>();

/**
 * An onRequest hook: a request starts after the earlier ones on its connection are answered (RFC 9112 section 9.3.2
 * asks it for requests that are not safe). Without it a DELETE would overtake the POST before it, whose body it does
 * not have to wait for. One that cannot be answered any more, because its connection closes, never starts; Node does not
 * close its response, which has no socket yet, so this does: the log and the metrics wait for it.
 */
export const startInOrder: onRequestHookHandler = (request, reply, done) => {
  const { raw } = request;
  const { socket } = raw;
  // Not `once`, which costs several times as much.
  reply.raw.on('close', forgetResponse);
  const turns = connections.get(socket);
  if (turns === undefined) {
    connections.set(socket, { newest: raw, last: reply.raw, previous: undefined, waiting: 0 });
    start(socket, reply, done);
    return;
  }
  const previous = turns.last;
  turns.previous = previous;
  turns.last = reply.raw;
  turns.newest = raw;
  if (previous === undefined) {
    start(socket, reply, done);
    return;
  }
  if (++turns.waiting > pipelineDepth) socket.pause();
  previous.once('close', () => {
    turns.waiting--;
    // Reading on for each answer would bring in more requests than it takes away.
    if (socket.writable && turns.waiting <= pipelineDepth) socket.resume();
    start(socket, reply, done);
  });
};

function start(socket: Socket, reply: FastifyReply, done: () => void): void {
  if (!socket.destroyed && !closing.has(socket)) {
    done();
    return;
  }
  // Later Nodes close it themselves by then.
  setImmediate(() => {
    if (!reply.raw.closed) reply.raw.emit('close');
  });
}

function forgetResponse(this: ServerResponse): void {
  const turns = connections.get(this.req.socket);
  if (turns === undefined) return;
  if (turns.last === this) turns.last = undefined;
  if (turns.previous === this) turns.previous = undefined;
  if (turns.newest === this.req && this.req.complete) turns.newest = undefined;
}

/**
 * Closes connections on which nothing moves: idle ones after their keep-alive time, and those whose client takes no
 * byte of what is there for it. While a request arrives or is worked on, nothing needs to move: that has its own limits.
 * @param time - How long nothing may move, in ms; longer than a request may take to arrive, which is answered.
 */
export function cutOffStalledReaders(server: Server, time: number): void {
  server.setTimeout(time, (socket: Socket) => {
    const answered = connections.get(socket)?.last?.writableFinished ?? true;
    if (answered || socket.writableLength > 0) socket.destroy();
  });
}

/**
 * Sees to it that a connection on which nothing has ever come does not hold up the closing of the server: to Node it is no
 * idle one.
 * @returns A function that closes the connections of that kind.
 */
export function trackUnusedConnections(server: Server): () => void {
  const sockets = new Set<Socket>();
  let closing = false;
  const closeUnused = (socket: Socket) => {
    if (socket.bytesRead === 0) socket.destroy();
  };
  const track = (socket: Socket) => {
    sockets.add(socket);
    // One that was under way when the closing began: what it has to say should come soon.
    const timer = closing ? setTimeout(closeUnused, lingerTime, socket).unref() : undefined;
    socket.once('close', () => {
      sockets.delete(socket);
      clearTimeout(timer);
    });
  };
  // Over TLS a connection is there after its handshake, and its bytes are counted anew.
  server.on('connection', track).on('secureConnection', track);
  return () => {
    closing = true;
    for (const socket of sockets) closeUnused(socket);
  };
}

const expectations = new WeakMap<IncomingMessage, 'continue' | 'unknown'>();

/**
 * Takes over what Node would do by itself: requests with an Expect header go the way of all others, and a CONNECT, for
 * which Node has no way, is refused, so that both get an Error body; a client that has sent all it wants to send still gets its
 * answers; and a connection closes in a way that lets the client read the last of them.
 */
export function interceptNode(server: Server): void {
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    expectations.set(request, 'continue');
    server.emit('request', request, response);
  });
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    expectations.set(request, 'unknown');
    server.emit('request', request, response);
  });
  server.on('connect', (_: IncomingMessage, socket: Socket) => {
    // Node has let go of the socket, and with it of its errors.
    socket.on('error', () => undefined);
    whenAnswered(socket, connections.get(socket)?.last, () => {
      endWith(socket, new ApiError('pathNotFound'));
    });
  });
  // Otherwise Node takes the end of a client's sending for the end of its interest.
  Object.assign(server, { httpAllowHalfOpen: true });
  const gentle = (socket: Socket) => {
    // What Node calls behind an answer that is the last one of its connection.
    socket.destroySoon = () => {
      closeGently(socket);
    };
  };
  server.on('connection', gentle).on('secureConnection', gentle);
}

/**
 * An onRequest hook: refuses what the HTTP parser lets through (RFC 9112 section 3.2 for Host, RFC 9110 section
 * 10.1.1 for Expect).
 */
export const checkHeaders: onRequestHookHandler = (request, _reply, done) => {
  const { raw } = request;
  let hosts = 0;
  for (let i = 0; i < raw.rawHeaders.length; i += 2) {
    const name = raw.rawHeaders[i]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) done(new ApiError('invalidHost'));
  else if (expectations.get(raw) === 'unknown') done(new ApiError('expectationFailed'));
  else done();
};

/** Tells a client that waits for it (`Expect: 100-continue`) to send its body. */
export function continueIfExpected(request: FastifyRequest, reply: FastifyReply): void {
  if (expectations.get(request.raw) === 'continue') reply.raw.writeContinue();
}

/**
 * Called when an answer is about to be sent: a body that has not been read, as of a refused request, is not read to
 * its end just to keep the connection. Up to a bound it is, from now on; beyond, the connection closes behind the answer.
 * @param keep - How long a body may be, in bytes, to be read to its end; by default 64 KiB.
 */
export function settleUnreadBody(request: FastifyRequest, reply: FastifyReply, keep = drainLimit): void {
  const { raw } = request;
  const { 'content-length': length, 'transfer-encoding': coding } = raw.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  if (raw.complete) return;
  if (coding !== undefined || Number(length) > keep) reply.header('connection', 'close');
  // Node would discard it only from when the answer is out, and keep it in a stream until then, which takes a tenth of a 401's time.
  else if (raw.readableFlowing === null) raw.resume();
}

/**
 * Closes a connection behind its last answer (RFC 9112 section 9.6): closed at once while the client still sends, it would be
 * reset, and the answer lost. What still comes is discarded, up to a bound of bytes and time.
 */
function closeGently(socket: Socket): void {
  if (closing.has(socket)) return;
  closing.add(socket);
  socket.end();
  let discarded = 0;
  socket.removeAllListeners('data');
  socket.on('data', (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded >= drainLimit) socket.pause();
  });
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), lingerTime).unref();
  socket.once('close', () => {
    clearTimeout(timer);
  });
}

const closing = new WeakSet<Socket>();
const failed = new WeakSet<Socket>();
/** Methods whose requests wait for their body; all others are answered without it. */
const takesBody = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Answers what never became a request, or stopped being one in its body, and closes the connection; but only behind
 * the answers that the connection still owes, or the client would take this one for theirs. Fastify's clientErrorHandler.
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
  answerBroken(error, socket);
}

function answerBroken(error: NodeJS.ErrnoException, socket: Socket): void {
  const turns = connections.get(socket);
  const inBody = turns?.newest?.complete === false;
  const unanswerable =
    inBody && turns.last?.headersSent === false && takesBody.has(turns.newest?.method ?? '');
  const owed = unanswerable ? turns.previous : turns?.last;
  if (owed?.closed === false) {
    whenAnswered(socket, owed, () => {
      answerBroken(error, socket);
    });
  } else if (inBody && !unanswerable) {
    closeGently(socket);
  } else {
    const kinds: Record<string, ErrorKind> = {
      HPE_HEADER_OVERFLOW: 'headersTooLarge',
      HPE_CHUNK_EXTENSIONS_OVERFLOW: 'bodyTooLarge',
      ERR_HTTP_REQUEST_TIMEOUT: 'requestTimeout',
    };
    endWith(socket, new ApiError(kinds[error.code ?? ''] ?? 'malformedRequest'));
  }
}

/** Calls back when the answer is out, at once when there is none to wait for; never when the connection closes behind it. */
function whenAnswered(socket: Socket, answer: ServerResponse | undefined, then: () => void): void {
  if (answer?.closed !== false) {
    then();
    return;
  }
  answer.once('close', () => {
    if (socket.writable) then();
  });
}

let unparsed = 0;

/** Writes an answer as bytes, where there is no response object to do it. */
function endWith(socket: Socket, error: ApiError): void {
  const head = [
    `HTTP/1.1 ${error.statusCode} ${STATUS_CODES[error.statusCode]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(error.json)}`,
    `X-Request-Id: unparsed-${++unparsed}`,
    `Date: ${new Date().toUTCString()}`,
    'Connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${error.json}`);
  closeGently(socket);
}
