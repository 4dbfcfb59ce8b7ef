// Limits what callers without credentials do at the same time, and tells operators if they seem to be one.
import type { FastifyInstance } from 'fastify';
import { ApiError } from '../../base/errors.js';
import { accountOf } from './account.js';

/** How many requests without accepted credentials one network may have in progress. */
export const mostAnonymous = 256;

/**
 * Refuses requests without accepted credentials with 429 while too many of their network are in progress: each takes
 * memory and sockets until its response has been read. Call it before registering routes.
 */
export function limitAnonymous(app: FastifyInstance): void {
  const inProgress = new Map<string, number>();
  // After the onRequest hooks of the routes, which authenticate.
  app.addHook('preParsing', (request, reply, _payload, done) => {
    // The response of a closed connection will not emit 'close' again.
    if (request.caller !== null || request.raw.socket.destroyed) {
      done();
      return;
    }
    const account = accountOf(request);
    const count = inProgress.get(account) ?? 0;
    if (count >= mostAnonymous) {
      done(new ApiError('tooManyRequests', { headers: { 'retry-after': '1' } }));
      return;
    }
    inProgress.set(account, count + 1);
    reply.raw.on('close', () => {
      const rest = inProgress.get(account)! - 1;
      if (rest > 0) inProgress.set(account, rest);
      else inProgress.delete(account);
    });
    done();
  });
}

/**
 * Logs one warning when a request has been forwarded by a proxy that is not trusted: all its clients then count as one
 * address. A client can send these headers, too, but not as an address that it does not have.
 */
export function warnOfUnknownProxy(app: FastifyInstance): void {
  let isWarned = false;
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers } = request;
    const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
    // The first one is that of the connection; others follow if it is trusted.
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
