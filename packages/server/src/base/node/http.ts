// What the service needs of Node's HTTP server beyond its documentation. Each function names the promise that depends on
// it, the test that fails without it, and where Node's behavior is found.
// Tried with Node.js 20.20, 22.23, 24.21 and 26.10, by the tests of connections.
import type { Server as HttpServer, ServerResponse } from 'node:http';
import { Server, type Socket } from 'node:net';

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');

/**
 * Keeps connections open whose clients have half-closed them; Node would close the other side at once. Over TLS, only
 * after the handshake, which a client that has half-closed cannot complete.
 *
 * - Promise: a client that has half-closed its connection receives all its responses.
 * - Test: test/http/connection/fuzz.test.ts, "a client that has half-closed its connection receives all responses".
 * - Node: lib/_http_server.js, socketOnEnd; the property `httpAllowHalfOpen` is missing from the documents and types. That
 *   of a socket is documented (stream.Duplex).
 * @param isTls - Whether requests arrive over TLS.
 */
export function allowHalfOpen(server: HttpServer & { httpAllowHalfOpen?: boolean }, isTls: boolean): void {
  server.httpAllowHalfOpen = true;
  server.on(isTls ? 'secureConnection' : 'connection', (socket: Socket) => {
    socket.allowHalfOpen = true;
  });
}

/**
 * Replaces how a server closes a connection after its last response. Node calls the socket's `destroySoon`, which closes
 * while the client may still send: the connection is reset, and the response lost. No option or event changes that.
 *
 * - Promise: clients receive the last response of a connection, even if they still send (RFC 9112 section 9.6).
 * - Test: test/http/connection/connection.test.ts, "a client that still sends after the last response ...".
 * - Node: lib/_http_server.js, resOnFinish.
 * @param close - Closes a connection.
 */
export function closeBy(server: HttpServer, close: (socket: Socket) => void): void {
  const replace = (socket: Socket) => {
    socket.destroySoon = () => {
      close(socket);
    };
  };
  server.on('connection', replace).on('secureConnection', replace);
}

/**
 * Makes Node read TLS connections as streams. Otherwise its parser takes decrypted data directly from the connection, and
 * loses what arrives while it is paused because a response waits to be sent: the next pipelined request gets a 400.
 *
 * - Promise: pipelined requests over TLS get their responses, however long those are.
 * - Test: test/http/connection/tls.test.ts, "requests that are pipelined behind long responses get theirs ...".
 * - Node: lib/_http_server.js, connectionListenerInternal (`parser.consume`) and generateSocketListenerWrapper: any
 *   listener for 'data' has this effect.
 */
export function readThroughStream(server: HttpServer): void {
  server.on('secureConnection', (socket: Socket) => {
    socket.on('data', () => undefined);
  });
}

/**
 * Attaches a socket to its server again, after Node has detached it because of an Upgrade. For 'connection', this is
 * documented.
 *
 * - Promise: a request with Upgrade is served as if it had none (RFC 9110 section 7.8), over TLS, too.
 * - Test: test/http/connection/tls.test.ts, "requests that are valid HTTP but cannot be served ...".
 * - Node: lib/https.js, Server: 'secureConnection' has the listener that 'connection' has in lib/_http_server.js.
 */
export function attachAgain(server: HttpServer, socket: Socket, isTls: boolean): void {
  server.emit(isTls ? 'secureConnection' : 'connection', socket);
}

/**
 * Removes the listener by which Node closes a connection after the pending responses when the client half-closes it.
 *
 * - Promise: a client that half-closes its connection after malformed data receives the error.
 * - Test: test/http/connection/protocol.test.ts, "a client that has half-closed its connection still receives the error
 *   for malformed data".
 * - Node: lib/_http_server.js, socketOnEnd.
 */
export function ignoreEnd(socket: Socket): void {
  socket.removeAllListeners('end');
}

/**
 * Closes the response to a request that never starts because its connection closes first. Neither Node nor destroy()
 * closes one that still waits for its socket.
 *
 * - Promise: each request leaves one line in the log, and ends in the metrics.
 * - Test: test/http/connection/connection.test.ts, "each request leaves one line in the log ...".
 * - Node: lib/_http_server.js, abortIncoming and socketOnClose, which know only responses that have the socket.
 */
export function closeNotStarted(response: ServerResponse): void {
  // Later Node.js versions have closed it by then.
  setImmediate(() => {
    if (!response.closed) response.emit('close');
  });
}

/**
 * Stops listening, and lets every open connection end by itself. http.Server's close() also closes connections that it
 * considers idle, and has no option not to; the documented close() of net.Server, which it extends, only stops
 * listening.
 *
 * - Promise: every response is sent to its last byte.
 * - Test: test/http/connection/connection.test.ts, "while it closes, the service sends responses completely ...".
 * - Node: lib/_http_server.js, Server.prototype.close.
 */
export function stopListening(server: Server): void {
  Server.prototype.close.call(server);
}

/**
 * Limits the connections of a server by a number that changes. Node compares `maxConnections` with the number of open
 * ones when it accepts another.
 *
 * - Promise: no thread closes a new connection while all threads together have fewer than MAX_CONNECTIONS.
 * - Test: test/process/threads.test.ts, "limits hold for all threads together ...".
 * - Node: lib/net.js, onconnection.
 * @param most - Returns how many this server may have now.
 */
export function limitConnections(server: Server, most: () => number): void {
  Object.defineProperty(server, 'maxConnections', { get: most });
}
