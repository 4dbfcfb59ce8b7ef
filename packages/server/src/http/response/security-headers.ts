// Adds optional security headers to responses.
import type { FastifyInstance } from 'fastify';

/** Adds Helmet's security headers to every response. */
export async function addSecurityHeaders(app: FastifyInstance): Promise<void> {
  const { default: helmet } = await import('@fastify/helmet');
  await app.register(helmet, {
    // Responses are data and load nothing. `upgrade-insecure-requests` is omitted: the service may run without TLS.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
  });
}
