// Refuses CONNECT, and says which requests may leave HTTP.
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '../../base/errors.js';
import { endWithError } from './client-errors.js';
import { Connection, connectionOf } from './connection.js';
import type { Rejecting } from './rejections.js';

/** Refuses CONNECT, for which Node detaches the socket from its HTTP server. Alone, Node would close the connection. */
export function refuseConnect(server: Server, rejecting: Rejecting): void {
  server.on('connect', (_: IncomingMessage, connection: Duplex) => {
    if (!(connection instanceof Connection)) return;
    const { remoteAddress: address } = connection.on('error', ignore);
    connection.fail(() => {
      const requestId = endWithError(connection, new ApiError('pathNotFound'), rejecting);
      rejecting.report({ type: 'rejected', reason: 'connect_method', requestId, address });
    });
  });
}

/**
 * Whether the listeners for 'upgrade' get a request: one for a WebSocket (RFC 6455 section 4.1), in its turn. All others
 * are answered as if they had not asked (RFC 9110 section 7.8).
 */
export function mayUpgrade(request: IncomingMessage): boolean {
  const { method, headers } = request;
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
  return (
    method === 'GET' &&
    !hasBody &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    connectionOf(request)?.release() === true
  );
}

/** A listener for 'upgrade', to which this Node.js would leave every request with an Upgrade, with a body that is not its own. */
export class UpgradeError extends Error {
  override readonly name = 'UpgradeError';
}

/** Refuses listeners for 'upgrade' where Node.js does not ask mayUpgrade: adding one throws UpgradeError. */
export function refuseListeners(server: Server): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 24 || (major === 24 && minor >= 9) || (major === 22 && minor >= 23)) return;
  server.on('newListener', (event) => {
    if (event === 'upgrade')
      throw new UpgradeError(
        `a listener for 'upgrade' needs Node.js 22.23 or 24.9, or later ones of these lines`,
      );
  });
}

/** Whether Node may have dropped bytes that arrived after a request, so that its connection must close. */
export function closesBehindUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '');
}

function ignore(): void {
  // An error closes the connection; there is nothing else to do.
}
