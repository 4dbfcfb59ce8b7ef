// What the service needs of Node's HTTP server beyond its documentation. Each function names the promise that depends on
// it, the test that fails without it, and where Node's behavior is found.
// Tried with Node.js 20.20, 22.23, 24.21 and 26.10, by the tests of connections.
import type { Server as HttpServer } from 'node:http';
import { Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');

/**
 * Makes a server read and write a stream in place of each socket. That any Duplex can be given to a server is documented
 * (http.Server, 'connection'), but not how to keep it from also taking the socket: here, its own listener goes.
 *
 * - Promise: what one connection sends at once does not make the server stall or run out of memory; clients receive all
 *   their responses to the last byte, whatever they still send, and though they have half-closed the connection.
 * - Test: test/http/connection/connection.test.ts, "the server makes nothing of what a connection sends behind an
 *   unanswered request" and "what waits on many connections is bounded ...".
 * - Node: lib/_http_server.js, Server; lib/https.js, Server.
 * @param isTls - Whether requests arrive over TLS.
 * @param wrap - Makes the stream of a socket.
 * @returns Gives a stream to the server again, after Node has detached it.
 */
export function serveThrough<Stream extends Duplex>(
  server: HttpServer,
  isTls: boolean,
  wrap: (socket: Socket) => Stream,
): (stream: Stream) => void {
  const event = isTls ? 'secureConnection' : 'connection';
  const listeners = server.listeners(event);
  const attach = (stream: Stream) => {
    for (const listener of listeners) Reflect.apply(listener, server, [stream]);
  };
  server.removeAllListeners(event).on(event, (socket: Socket) => {
    attach(wrap(socket));
  });
  return attach;
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
 * - Test: test/process/threads.test.ts, "all threads together have the connections ...".
 * - Node: lib/net.js, onconnection.
 * @param most - Returns how many this server may have now.
 */
export function limitConnections(server: Server, most: () => number): void {
  Object.defineProperty(server, 'maxConnections', { get: most });
}
