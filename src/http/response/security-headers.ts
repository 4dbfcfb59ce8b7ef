// Security headers, for those who want them on answers that are data.
import type { FastifyInstance } from 'fastify';

/** Adds Helmet's security headers to every answer. */
export async function addSecurityHeaders(app: FastifyInstance): Promise<void> {
  const { default: helmet } = await import('@fastify/helmet');
  await app.register(helmet, {
    // The answers are data. Nothing is upgraded to HTTPS here: that is for whoever speaks TLS to decide.
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
    },
  });
}
