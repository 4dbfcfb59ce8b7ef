// Refuses CONNECT and ignores Upgrade; for both, Node detaches the socket from its HTTP server.
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '../../base/errors.js';
import { endWithError } from './client-errors.js';
import { Connection } from './connection.js';
import type { Rejecting } from './rejections.js';

/**
 * Refuses CONNECT, and ignores the Upgrade header of a request (RFC 9110 section 7.8). Node itself would serve the
 * latter, but drop bytes that arrived with it; the next request's body could then be parsed as a request.
 * @param serve - Attaches a connection to the server, again.
 */
export function stayWithHttp(
  server: Server,
  serve: (connection: Connection) => void,
  rejecting: Rejecting,
): void {
  server.on('connect', (_: IncomingMessage, connection: Duplex) => {
    if (!(connection instanceof Connection)) return;
    const { remoteAddress: address } = connection.on('error', ignore);
    const requestId = endWithError(connection, new ApiError('pathNotFound'), rejecting);
    rejecting.report({ reason: 'connect_method', requestId, address });
  });
  server.on('upgrade', (request: IncomingMessage, connection: Duplex, behind: Buffer) => {
    if (!(connection instanceof Connection)) return;
    connection.unshift(behind);
    connection.unshift(headWithoutUpgrade(request));
    // Node adds these each time, and takes all others off.
    serve(connection.removeAllListeners('pause').removeAllListeners('resume'));
  });
}

/**
 * Server options for Node.js versions that support them. Some of these versions parse the body before they detach the
 * socket, so the request cannot be read again. Such a request is handled normally; see closesBehindUpgrade.
 */
export const upgradeOptions = {
  shouldUpgradeCallback: ({ headers }: IncomingMessage): boolean =>
    headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0',
};

/** Whether Node may have dropped bytes that arrived after a request, so that its connection must close. */
export function closesBehindUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '');
}

/** The request line and header section as they arrived, without Upgrade. */
function headWithoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  }
  // Node's parser decodes each byte as one character.
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
}

function ignore(): void {
  // An error closes the connection; there is nothing else to do.
}
