// What the service needs of Node's HTTP module.
import type { Server } from 'node:net';

/** Node.js's HTTP module. An import statement would also load its fetch, which takes longer than most of the service. */
export const http = process.getBuiltinModule('node:http');

/**
 * Limits the connections of a server by a number that changes. Node compares `maxConnections` with the number of open
 * ones when it accepts another.
 *
 * - Promise: no thread closes a new connection while all threads together have fewer than MAX_CONNECTIONS.
 * - Test: test/process/threads.test.ts, "all threads together have the connections ...".
 * - Node: lib/net.js, onconnection.
 * @param most - Returns the number of connections that this server may have now.
 */
export function limitConnections(server: Server, most: () => number): void {
  Object.defineProperty(server, 'maxConnections', { get: most });
}
