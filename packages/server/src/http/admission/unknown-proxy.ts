// Tells operators if the clients behind a proxy seem to be one.
import type { FastifyInstance } from 'fastify';

/**
 * Logs one warning when a request has been forwarded by a proxy that is not trusted: all its clients then count as one
 * address. A client can send these headers, too, but not as an address that it does not have.
 */
export function warnOfUnknownProxy(app: FastifyInstance): void {
  let isWarned = false;
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers } = request;
    const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
    // The first address is that of the connection; others follow if it is trusted.
    if (isForwarded && !isWarned && (request.ips ?? []).length < 2) {
      isWarned = true;
      request.log.warn(
        { proxy: request.raw.socket.remoteAddress },
        'a request was forwarded by an address that TRUST_PROXY does not name: if that is a proxy, name it, since all its ' +
          'clients count as one address',
      );
    }
    done();
  });
}
