// Says which requests may leave HTTP.
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { connectionOf } from './connection.js';

/**
 * Whether the listeners for 'upgrade' get a request: one for a WebSocket (RFC 6455 section 4.1), in its turn. All others
 * are answered as if they had not asked (RFC 9110 section 7.8).
 */
export function mayUpgrade(request: IncomingMessage): boolean {
  const { method, headers } = request;
  const hasBody = headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
  const isWebSocket = method === 'GET' && !hasBody && headers.upgrade?.toLowerCase() === 'websocket';
  return isWebSocket && connectionOf(request)?.release() === true;
}

/** A listener for 'upgrade', to which this Node.js would leave every request with an Upgrade, with a body that is not its own. */
export class UpgradeError extends Error {
  override readonly name = 'UpgradeError';
}

/**
 * Refuses listeners for 'upgrade' where Node.js does not ask mayUpgrade: with one, the app does not become ready. Thrown
 * earlier, in a plugin with a callback, the error would end the process.
 */
export function refuseListeners(app: FastifyInstance): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 24 || (major === 24 && minor >= 9) || (major === 22 && minor >= 23)) return;
  app.addHook('onReady', (done) => {
    const needs = `a listener for 'upgrade' needs Node.js 22.23 or 24.9, or later ones of these lines`;
    done(app.server.listenerCount('upgrade') > 0 ? new UpgradeError(needs) : undefined);
  });
}
