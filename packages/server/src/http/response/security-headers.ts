// Adds optional security headers to responses.
import helmet from '@fastify/helmet';
import type { FastifyInstance } from 'fastify';

/** Adds Helmet's security headers to every response. */
export async function addSecurityHeaders(app: FastifyInstance): Promise<void> {
  await app.register(helmet, {
    // Responses are data and load nothing. `upgrade-insecure-requests` is omitted: the service may run without TLS.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
  });
}
