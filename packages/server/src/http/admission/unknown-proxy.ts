// Tells operators if the clients behind a proxy seem to be one.
import type { FastifyInstance } from 'fastify';
import type { Report } from '../../base/events.js';

/**
 * Reports requests that have been forwarded by a proxy that is not trusted: all its clients count as one address. A client
 * can send these headers, too, but not as an address that it does not have.
 */
export function reportUnknownProxy(app: FastifyInstance, report: Report): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers } = request;
    const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
    // The first address is that of the connection; others follow if it is trusted.
    if (isForwarded && (request.ips ?? []).length < 2)
      report({ type: 'proxy not trusted', proxy: request.raw.socket.remoteAddress });
    done();
  });
}
